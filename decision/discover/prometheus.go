package discover

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cotenant/cotenant/decision/discover/internal/usage"
)

// The resolution of a range query, and how long one may take.
const (
	prometheusStep    = time.Minute
	prometheusTimeout = 5 * time.Minute
)

// ReadPrometheus asks a Prometheus server (http://HOST:9090, behind a path or with user:password@ where it needs them)
// for what dcgm-exporter wrote of the GPUs up to end, minute by minute, and takes it over as Read does. One query
// serves the whole window; Prometheus itself allows one of a week.
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
	ctx, cancel := context.WithTimeout(ctx, prometheusTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("discover: %s: %w", name, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("discover: %w", err)
	}
	defer resp.Body.Close()
	if err = c.Read(name, resp.Body); err != nil && resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%w (%s)", err, resp.Status)
	}
	return err
}
