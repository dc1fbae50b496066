// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// servers counts the tokens that model servers have generated, by their metrics pages.
type servers struct {
	pages  map[container.Pod]string
	client *serving.Client
	log    *slog.Logger

	mu    sync.Mutex
	state map[container.Pod]*served
}

// Tokens counts the prompt and output tokens of a server; missing where its page has none.
type Tokens struct{ Prompt, Generated telemetry.Optional[float64] }

// served holds the work of one server.
type served struct {
	pod     container.Pod      // that was last seen to be its own
	last    map[replica]Tokens // as the page had them at the last reading
	counted Tokens             // of the pod since the start, while the page was read
	at      time.Time
	failed  bool
	marks   map[string]float64 // the total at the end of each GPU's last window
}

// replica names one of the replicas and models of a page.
type replica struct {
	engine         serving.Engine
	model, replica string
}

// maxRate bounds the tokens of a server in a second: the roofline of the smallest models on a GPU. A page with
// counters that grew faster is not counted, so that sums are finite by construction.
const maxRate = 1e7

// maxReplicas bounds the replicas and models of a server over its pages.
const maxReplicas = 1000

func newServers(pages map[container.Pod]string, log *slog.Logger) *servers {
	s := &servers{log: log, pages: pages, client: serving.NewClient(), state: map[container.Pod]*served{}}
	for pod := range pages {
		s.state[pod] = &served{pod: pod, last: map[replica]Tokens{}, marks: map[string]float64{}}
	}
	return s
}

func (s *servers) watch(ctx context.Context, period time.Duration) {
	if len(s.pages) == 0 {
		return
	}
	every(ctx, period, func() {
		var wg sync.WaitGroup
		for pod, url := range s.pages {
			wg.Go(func() {
				within, cancel := context.WithTimeout(ctx, period)
				defer cancel()
				if readings, err := s.client.Fetch(within, url); ctx.Err() == nil {
					s.note(pod, readings, err)
				}
			})
		}
		wg.Wait()
	})
}

// note adds a server's work since its last page; the readable part of a page counts. A server that was restarted
// counts from zero.
func (s *servers) note(pod container.Pod, readings []serving.Reading, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.state[pod]
	if err != nil && len(readings) == 0 {
		if !d.failed {
			s.log.Warn("a server's page cannot be read", "container", podName(pod), "err", err)
		}
		d.failed = true
		return
	}
	first := d.at.IsZero()
	most := maxRate * max(1, time.Since(d.at).Seconds())
	if first {
		most = 0 // work before the first page does not count
	}
	for i := range readings {
		r := &readings[i]
		k, now := replica{r.Engine, r.Model, r.Replica}, Tokens{r.PromptTokens, r.GenerationTokens}
		before, known := d.last[k]
		if !known && len(d.last) >= maxReplicas {
			continue
		}
		if !known && first {
			before = now
		}
		for j, n := range now.fields() {
			n, ok := n.Get()
			if !ok { // the page may leave it out for once
				continue
			}
			grown := n - before.fields()[j].Or(0)
			if grown < 0 {
				grown = n
			}
			*before.fields()[j] = telemetry.Some(n)
			if sum := d.counted.fields()[j]; grown >= 0 && grown <= most {
				*sum = telemetry.Some(sum.Or(0) + grown)
			} else {
				s.log.Warn("a server's page is not to be believed", "container", podName(pod), "model", r.Model,
					"tokens", grown, "at most", most)
			}
		}
		d.last[k] = before
	}
	d.at, d.failed = time.Now(), false
}

func podName(p container.Pod) string { return p.Namespace + "/" + p.Name + "/" + p.Container }

// of returns the server of a pod: of the owners that fit that with the longest name; nil for none.
func (s *servers) of(pod container.Pod) (found *served) {
	longest := ""
	for key, d := range s.state {
		if key.Namespace == pod.Namespace && key.Container == pod.Container && pod.OwnedBy(key.Name) &&
			len(key.Name) > len(longest) {
			longest, found = key.Name, d
		}
	}
	return found
}

// tokens sets the tokens that each claim's server generated since the GPU's last window ended. It is missing for a
// server without a recent reading, and where several pods may be the server's.
func (s *servers) tokens(gpu string, claims []Claim, stale time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := map[*served][]*Claim{}
	for i := range claims {
		if d := s.of(claims[i].Pod); d != nil {
			of[d] = append(of[d], &claims[i])
		}
	}
	for d, pods := range of {
		if len(pods) > 1 || d.at.IsZero() {
			continue
		}
		if before, marked := d.marks[gpu]; marked && !d.failed && time.Since(d.at) < stale {
			pods[0].Tokens = telemetry.Some(d.counted.Generated.Or(0) - before)
		}
		if d.pod != pods[0].Pod { // a rollout
			d.pod, d.counted, d.marks = pods[0].Pod, Tokens{}, map[string]float64{}
		}
		d.marks[gpu] = d.counted.Generated.Or(0)
	}
}

func (t *Tokens) fields() [2]*telemetry.Optional[float64] {
	return [...]*telemetry.Optional[float64]{&t.Prompt, &t.Generated}
}

// all returns the tokens of each server's pod.
func (s *servers) all() map[container.Pod]Tokens {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[container.Pod]Tokens{}
	for _, d := range s.state {
		out[d.pod] = d.counted
	}
	return out
}
