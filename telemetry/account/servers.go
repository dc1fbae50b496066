package account

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// A Page is the metrics page of a model server.
type Page struct {
	URL string
	// Objective tells good requests from others; the zero Objective counts none.
	Objective Objective
}

// Servers counts the tokens that model servers have generated, by their pages.
type Servers struct {
	pages  map[container.Pod]Page
	client *serving.Client
	log    *slog.Logger

	mu    sync.Mutex
	state map[container.Pod]*served
}

// served holds what one container's server has done.
type served struct {
	last []said
	// counted holds its tokens while its page was read, by all runs of the
	// exporter on one state; stored is the part that was given out to be stored.
	counted, stored Tokens
	open            []unjudged
	at              time.Time
	failed          bool
	marks           map[string]float64 // the total at the end of each GPU's last window
}

// said holds a replica's counters as they were last read.
type said struct {
	of                serving.Reading // whose
	prompt, generated telemetry.Optional[float64]
}

// maxRate bounds the tokens of a server in a second: the roofline of the smallest models on a GPU. A page whose
// counters grew faster is not counted, so that sums are finite by construction.
const maxRate = 1e7

// maxReplicas bounds the replicas and models of a server over its pages.
const maxReplicas = 1000

// NewServers returns readers of the pages of containers by their addresses. A
// container with an objective has its good tokens counted too.
func NewServers(pages map[container.Pod]Page, log *slog.Logger) *Servers {
	s := &Servers{pages: pages, client: serving.NewClient(), log: log, state: map[container.Pod]*served{}}
	for pod := range pages {
		s.state[pod] = &served{marks: map[string]float64{}}
	}
	return s
}

// watch reads the pages every period until ctx ends.
func (s *Servers) watch(ctx context.Context, period time.Duration) {
	if len(s.pages) == 0 {
		return
	}
	every(ctx, period, func() {
		var wg sync.WaitGroup
		for pod, page := range s.pages {
			wg.Go(func() {
				if readings, err := s.get(ctx, page.URL, period); ctx.Err() == nil {
					s.note(pod, readings, err)
				}
			})
		}
		wg.Wait()
	})
}

func (s *Servers) get(ctx context.Context, page string, timeout time.Duration) ([]serving.Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	readings, err := s.client.Fetch(ctx, page)
	if len(readings) > 0 {
		err = nil // what could be read counts
	}
	return readings, err
}

// note adds what a server did since its last page. A server that was restarted counts from zero.
func (s *Servers) note(pod container.Pod, readings []serving.Reading, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.state[pod]
	if err != nil {
		if !d.failed {
			s.log.Warn("a server's page cannot be read", "container", name(pod), "err", err)
		}
		d.failed = true
		return
	}
	most := maxRate * max(1, time.Since(d.at).Seconds())
	if d.at.IsZero() {
		most = 0 // what it did before is not this exporter's
	}
	for i := range readings {
		now := &readings[i]
		j := slices.IndexFunc(d.last, func(b said) bool { return b.of.Same(now) })
		if j < 0 && len(d.last) >= maxReplicas {
			continue
		}
		if j < 0 {
			of := serving.Reading{Engine: now.Engine, Model: now.Model, Replica: now.Replica}
			j, d.last = len(d.last), append(d.last, said{of: of})
			if d.at.IsZero() {
				d.last[j].prompt, d.last[j].generated = now.PromptTokens, now.GenerationTokens
			}
		}
		before := &d.last[j]
		prompt, generated := since(&before.prompt, now.PromptTokens), since(&before.generated, now.GenerationTokens)
		for _, grown := range []*telemetry.Optional[float64]{&prompt, &generated} {
			if n, ok := grown.Get(); ok && !(n >= 0 && n <= most) {
				s.log.Warn("a server's page is not to be believed", "container", name(pod), "model", now.Model,
					"tokens", n, "at most", most)
				*grown = telemetry.Optional[float64]{}
			}
		}
		d.counted.Prompt = add(d.counted.Prompt, prompt)
		d.counted.Generated = add(d.counted.Generated, generated)
		if o := s.pages[pod].Objective; o != (Objective{}) {
			d.judge(o, now, generated.Or(0))
		}
	}
	d.at, d.failed = time.Now(), false
}

func name(p container.Pod) string { return p.Namespace + "/" + p.Name + "/" + p.Container }

// since returns the growth of a server's counter since it was read before, which
// it replaces. A page may leave it out meanwhile.
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

// tokens sets the tokens that each claim's server generated since the GPU's last window
// ended. It is missing for a server whose page is not read, or was not lately.
func (s *Servers) tokens(gpu string, claims map[claimKey]*ledger.Claim, stale time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, c := range claims {
		d := s.state[k.pod]
		if d == nil || k.overhead || d.at.IsZero() {
			continue
		}
		before, marked := d.marks[gpu]
		d.marks[gpu] = d.counted.Generated.Or(0)
		if marked && !d.failed && time.Since(d.at) < stale {
			c.Tokens = ledger.Some(d.counted.Generated.Or(0) - before)
		}
	}
}
