package serving

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// A tenant's page may say anything: what Fetch takes of it is bounded. A vLLM
// page has some 100 KB for each replica.
const (
	maxPage     = 4 << 20
	maxReplicas = 256
)

// Fetch reads a server's metrics page. Unlike Parse's input it is one server's
// and whole: a page that was cut short, since its last number may be too, one
// that has a replica twice, and one of more than 4 MiB or 256 replicas and
// models are errors without readings. Lines that cannot be read are named in
// the error beside the readings, as by Parse.
func Fetch(ctx context.Context, url string) ([]Reading, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("serving: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("serving: %w", err)
	}
	defer resp.Body.Close()
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
