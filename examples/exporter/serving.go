package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// servers keeps how many tokens model servers have generated, by their pages.
type servers struct {
	pages      map[container.Pod]string
	objectives map[container.Pod]objective
	log        *slog.Logger

	mu    sync.Mutex
	state map[container.Pod]*served
}

// served is what one container's server has done.
type served struct {
	last []said
	// counted is what it did while its page was read, by all runs of the
	// exporter on one state; stored is the part that was given out to be stored.
	counted, stored tokens
	open            []unjudged
	at              time.Time
	failed          bool
	marks           map[string]float64 // the total at the end of each GPU's last window
}

// said is what a replica's counters said last.
type said struct {
	of                serving.Reading // whose
	prompt, generated telemetry.Optional[float64]
}

// maxReplicas bounds the replicas and models of a server over its pages.
const maxReplicas = 1000

// parseServing reads NAMESPACE/POD/CONTAINER=URL.
func parseServing(s string) (container.Pod, string, error) {
	who, page, ok := strings.Cut(s, "=")
	pod, named := parsePod(who)
	u, err := url.Parse(page)
	if !ok || !named || err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return container.Pod{}, "", fmt.Errorf("-serving: %q (use NAMESPACE/POD/CONTAINER=http://HOST:PORT/metrics)", s)
	}
	return pod, page, nil
}

// parsePod reads NAMESPACE/POD/CONTAINER.
func parsePod(s string) (container.Pod, bool) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return container.Pod{}, false
	}
	return container.Pod{Namespace: parts[0], Name: parts[1], Container: parts[2]}.Clean(), true
}

func newServers(args []string, log *slog.Logger) (*servers, error) {
	s := &servers{pages: map[container.Pod]string{}, objectives: map[container.Pod]objective{}, state: map[container.Pod]*served{}, log: log}
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
			wg.Go(func() {
				if r := s.get(ctx, page, period); ctx.Err() == nil {
					s.note(pod, r)
				}
			})
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
	readings, err := serving.Fetch(ctx, page)
	if len(readings) > 0 {
		err = nil // what could be read counts
	}
	return reply{readings, err}
}

// note adds what a server did since its last page. A server that was restarted
// counts from zero.
func (s *servers) note(pod container.Pod, r reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.state[pod]
	if r.err != nil {
		if !d.failed {
			s.log.Warn("a server's page cannot be read", "container", pod.Namespace+"/"+pod.Name+"/"+pod.Container, "err", r.err)
		}
		d.failed = true
		return
	}
	for i := range r.readings {
		now := &r.readings[i]
		j := slices.IndexFunc(d.last, func(b said) bool { return b.of.Same(now) })
		if j < 0 && len(d.last) >= maxReplicas {
			continue
		}
		if j < 0 {
			j, d.last = len(d.last), append(d.last, said{of: serving.Reading{Engine: now.Engine, Model: now.Model, Replica: now.Replica}})
			if d.at.IsZero() { // what it did before is not this exporter's
				d.last[j].prompt, d.last[j].generated = now.PromptTokens, now.GenerationTokens
			}
		}
		before := &d.last[j]
		d.counted.prompt = add(d.counted.prompt, since(&before.prompt, now.PromptTokens))
		generated := since(&before.generated, now.GenerationTokens)
		d.counted.generated = add(d.counted.generated, generated)
		if o, ok := s.objectives[pod]; ok {
			d.judge(o, now, generated.Or(0))
		}
	}
	d.at, d.failed = time.Now(), false
}

// since is what a server's counter went up by since it was said before, which it
// replaces. A page may leave it out meanwhile.
func since(before *telemetry.Optional[float64], now telemetry.Optional[float64]) telemetry.Optional[float64] {
	n, ok := now.Get()
	if !ok {
		return now
	}
	b := before.Or(0)
	*before = now
	if b <= n {
		return telemetry.Some(n - b)
	}
	return now
}

// add adds what is not missing to a sum.
func add(sum, v telemetry.Optional[float64]) telemetry.Optional[float64] {
	n, ok := v.Get()
	if !ok {
		return sum
	}
	return telemetry.Some(sum.Or(0) + n)
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
		d.marks[gpu] = d.counted.generated.Or(0)
		if marked && !d.failed && time.Since(d.at) < stale {
			c.Tokens = ledger.Some(d.counted.generated.Or(0) - before)
		}
	}
}
