package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// servers keeps how many tokens model servers have generated, by their pages.
type servers struct {
	pages map[container.Pod]string
	log   *slog.Logger

	mu    sync.Mutex
	state map[container.Pod]*served
}

// served is what one container's server has done.
type served struct {
	last   []serving.Reading
	total  float64 // generated since the exporter started
	at     time.Time
	failed bool
	marks  map[string]float64 // the total at the end of each GPU's last window
}

// maxPage bounds a server's page.
const maxPage = 8 << 20

// parseServing reads NAMESPACE/POD/CONTAINER=URL.
func parseServing(s string) (container.Pod, string, error) {
	who, page, ok := strings.Cut(s, "=")
	parts := strings.Split(who, "/")
	u, err := url.Parse(page)
	if !ok || len(parts) != 3 || err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return container.Pod{}, "", fmt.Errorf("-serving: %q (use NAMESPACE/POD/CONTAINER=http://HOST:PORT/metrics)", s)
	}
	return container.Pod{Namespace: parts[0], Name: parts[1], Container: parts[2]}, page, nil
}

func newServers(args []string, log *slog.Logger) (*servers, error) {
	s := &servers{pages: map[container.Pod]string{}, state: map[container.Pod]*served{}, log: log}
	for _, arg := range args {
		pod, page, err := parseServing(arg)
		if err != nil {
			return nil, err
		}
		s.pages[pod], s.state[pod] = page, &served{marks: map[string]float64{}}
	}
	return s, nil
}

// watch reads the pages every period until ctx ends.
func (s *servers) watch(ctx context.Context, period time.Duration) {
	if len(s.pages) == 0 {
		return
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		var wg sync.WaitGroup
		for pod, page := range s.pages {
			wg.Go(func() { s.note(pod, s.get(ctx, page, period)) })
		}
		wg.Wait()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// reply is what a page gave.
type reply struct {
	readings []serving.Reading
	err      error
}

func (s *servers) get(ctx context.Context, page string, timeout time.Duration) reply {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return reply{err: err}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return reply{err: errors.New(resp.Status)}
	}
	readings, err := serving.Parse(io.LimitReader(resp.Body, maxPage))
	if len(readings) > 0 {
		err = nil // what could be read counts
	}
	return reply{readings, err}
}

// note adds what a server generated since its last page. A server that was
// restarted counts from zero.
func (s *servers) note(pod container.Pod, r reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.state[pod]
	if r.err != nil {
		if !d.failed {
			s.log.Warn("a server's page cannot be read", "pod", pod.Namespace+"/"+pod.Name, "err", r.err)
		}
		d.failed = true
		return
	}
	if d.at.IsZero() {
		d.last = r.readings // what it did before is not this exporter's
	}
	for i := range r.readings {
		now := &r.readings[i]
		n := now.GenerationTokens.Or(0)
		for j := range d.last {
			if before := d.last[j].GenerationTokens.Or(0); d.last[j].Same(now) && before <= n {
				n -= before
				break
			}
		}
		d.total += n
	}
	d.last, d.at, d.failed = r.readings, time.Now(), false
}

// tokens says what each claim's server generated since the GPU's last window
// ended. It is missing for a server whose page is not read, or was not lately.
func (s *servers) tokens(gpu string, claims map[claimKey]*ledger.Claim, stale time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, c := range claims {
		d := s.state[k.pod]
		if d == nil || k.overhead || d.at.IsZero() {
			continue
		}
		before, marked := d.marks[gpu]
		d.marks[gpu] = d.total
		if marked && !d.failed && time.Since(d.at) < stale {
			c.Tokens = ledger.Some(d.total - before)
		}
	}
}
