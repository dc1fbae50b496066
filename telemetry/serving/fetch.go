// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"

	"github.com/cotenant/cotenant/internal/promtext"
)

// A tenant's page may hold anything: Fetch bounds its size. A vLLM page has some 100 KB for each replica.
const (
	maxPage     = 4 << 20
	maxReplicas = 256
)

// Client reads metrics pages. Pages are untrusted and must not make the client send other requests: redirects are
// errors, and proxy settings of the environment are ignored. It is safe for concurrent use.
type Client struct{ http http.Client }

// NewClient returns a client without open connections.
func NewClient() *Client {
	c := new(Client)
	c.http.Transport = &http.Transport{MaxResponseHeaderBytes: 64 << 10}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

func (c *Client) page(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("serving: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("serving: %w", err)
	}
	defer resp.Body.Close()
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode/100 == 3 {
		return nil, fmt.Errorf("serving: %s: %s to %.100q (a page that redirects is not read)", url, resp.Status, to)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("serving: %s: %s", url, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("serving: %s: %w", url, err)
	case len(text) > maxPage:
		return nil, fmt.Errorf("serving: %s: a page of more than %d MiB", url, maxPage>>20)
	case len(text) > 0 && text[len(text)-1] != '\n':
		return nil, fmt.Errorf("serving: %s: the page was cut short", url)
	}
	return text, nil
}

// Counter reads a page and returns the sum of all series of one of its metrics, such as a tenant's count of steps. A
// page that Fetch refuses, a line that cannot be read, a missing metric and a value that is not a finite number of 0 or
// more are errors.
func (c *Client) Counter(ctx context.Context, url, name string) (float64, error) {
	text, err := c.page(ctx, url)
	if err != nil {
		return 0, err
	}
	sum, found := 0.0, false
	err = promtext.Read(bytes.NewReader(text), func(p promtext.Page) {
		for _, f := range p.Families {
			for _, m := range f.Metric {
				if v, ok := promtext.Value(m); ok && f.GetName() == name {
					sum, found = sum+v, true
				}
			}
		}
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("serving: %s:\n%w", url, err)
	case !found:
		return 0, fmt.Errorf("serving: %s has no metric %s", url, name)
	case !(sum >= 0) || math.IsInf(sum, 0):
		return 0, fmt.Errorf("serving: %s: %s is %g, which counts nothing", url, name, sum)
	}
	return sum, nil
}

// Fetch reads a server's metrics page. Unlike Parse's input it must be one server's complete page: a truncated page,
// one with a replica twice, and one of more than 4 MiB or 256 replicas and models are errors without readings. Lines
// that cannot be read are named in an error that comes with the readings, as by Parse.
func (c *Client) Fetch(ctx context.Context, url string) ([]Reading, error) {
	text, err := c.page(ctx, url)
	if err != nil {
		return nil, err
	}
	readings, err := Parse(bytes.NewReader(text))
	if len(readings) > maxReplicas {
		return nil, fmt.Errorf("serving: %s: %d replicas and models (%d at most)", url, len(readings), maxReplicas)
	}
	for i := range readings {
		for j := range i {
			if readings[i].Same(&readings[j]) {
				return nil, fmt.Errorf("serving: %s: %q %q is there twice", url, readings[i].Model, readings[i].Replica)
			}
		}
	}
	return readings, err
}
