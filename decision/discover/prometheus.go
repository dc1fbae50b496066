// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/discover/internal/usage"
)

// The resolution of a range query, and how long it may take.
const (
	prometheusStep    = 5 * time.Minute
	prometheusTimeout = time.Minute
)

// ReadPrometheus asks a Prometheus server (http://HOST:9090, behind a path or with user:password@ where it needs them)
// by one range query for the series of dcgm-exporter, vLLM and SGLang in the window before end, and reads them as Read
// does. An answer that is incomplete after a minute is used, and the error reports that the rest is missing.
func (c *Collector) ReadPrometheus(ctx context.Context, server string, end time.Time, window time.Duration) error {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%w: %q is no URL of a Prometheus server: write http://HOST:9090", ErrInvalid, server)
	}
	name := u.Redacted()
	u = u.JoinPath("api/v1/query_range")
	at := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	u.RawQuery = url.Values{"query": {usage.Query()}, "start": {at(end.Add(-window))}, "end": {at(end)},
		"step": {at(time.Unix(0, 0).Add(prometheusStep))}}.Encode()
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, prometheusTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("discover: %s: %w", name, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		defer resp.Body.Close()
		switch html := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"); {
		case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden, html:
			return fmt.Errorf("%w: %s wants a login (%s): write https://USER:PASSWORD@HOST, or reach the server itself: "+
				"kubectl port-forward -n NAMESPACE svc/PROMETHEUS 9090, then http://localhost:9090", ErrInvalid, name, resp.Status)
		}
		if err = c.Read(name, resp.Body); err != nil && resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%w (%s)", err, resp.Status)
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("discover: %s did not answer in full in %s: what had come is used; try again, or save its answer "+
			"to a file and give that", name, span(time.Since(began)))
	}
	return err
}
