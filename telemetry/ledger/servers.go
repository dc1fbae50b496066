package ledger

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
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

// said holds a replica's counters at the last reading.
type said struct {
	of                serving.Reading // whose
	prompt, generated telemetry.Optional[float64]
}

// maxRate bounds the tokens of a server in a second: the roofline of the smallest models on a GPU. A page whose
// counters grew faster is not counted, so that sums are finite by construction.
const maxRate = 1e7

// maxReplicas bounds the replicas and models of a server over its pages.
const maxReplicas = 1000

// NewServers returns readers of the pages of containers by their addresses. A container with an objective has its
// good tokens counted too. A nil log discards.
func NewServers(pages map[container.Pod]Page, log *slog.Logger) *Servers {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	s := &Servers{log: log, pages: pages, client: serving.NewClient(), state: map[container.Pod]*served{}}
	for pod := range pages {
		s.state[pod] = &served{marks: map[string]float64{}}
	}
	return s
}

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
// ended. It is missing for a server without a recent reading.
func (s *Servers) tokens(gpu string, claims map[claimKey]*Claim, stale time.Duration) {
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
			c.Tokens = Some(d.counted.Generated.Or(0) - before)
		}
	}
}

// Tokens counts what a server took in and gave, and how much of that was good under its objective, at least and at
// most, or is not judged yet; missing where it does not say, or has no objective.
type Tokens struct {
	Prompt, Generated, GoodLow, GoodHigh, Pending telemetry.Optional[float64]
}

func (t *Tokens) fields() []*telemetry.Optional[float64] {
	return []*telemetry.Optional[float64]{&t.Prompt, &t.Generated, &t.GoodLow, &t.GoodHigh, &t.Pending}
}

// metaTokens begins the name of the record of a server's tokens; the pod follows. Its value has the fields of
// Tokens, with - for what is missing; records without the last three are read too.
const metaTokens = "tokens "

func tokensName(p container.Pod) string {
	return metaTokens + name(p)
}

// restore takes over the tokens that another run stored, of the servers that are read.
func (s *Servers) restore(stored map[string]Tokens) {
	for pod, d := range s.state {
		d.stored = stored[tokensName(pod)]
		d.counted = d.stored.resume()
	}
}

// changes returns the records that have changed since the last call.
func (s *Servers) changes() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var records []Record
	for pod, d := range s.state {
		if d.counted != d.stored {
			records = append(records, Record{Name: tokensName(pod), Value: d.counted.record()})
			d.stored = d.counted
		}
	}
	return records
}

// totals returns the tokens of every server, as changes gave them out last.
func (s *Servers) totals() map[container.Pod]Tokens {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[container.Pod]Tokens{}
	for pod, d := range s.state {
		out[pod] = d.stored
	}
	return out
}

func (t Tokens) record() []byte {
	var out []string
	for _, f := range t.fields() {
		if v, ok := f.Get(); ok {
			out = append(out, strconv.FormatFloat(v, 'g', -1, 64))
		} else {
			out = append(out, "-")
		}
	}
	return []byte(strings.Join(out, " "))
}

// parseAmount reads a finite number that is not negative.
func parseAmount(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err == nil && (!(v >= 0) || math.IsInf(v, 0)) {
		err = fmt.Errorf("%q is no amount", s)
	}
	return v, err
}

func parseTokens(r Record) (t Tokens, err error) {
	fields, to := strings.Fields(string(r.Value)), t.fields()
	if len(fields) != 2 && len(fields) != len(to) {
		return t, fmt.Errorf("%s: %q are not numbers of tokens", r.Name, r.Value)
	}
	for i, field := range fields {
		if field == "-" {
			continue
		}
		v, err := parseAmount(field)
		if err != nil {
			return t, fmt.Errorf("%s: %q is no number of tokens", r.Name, field)
		}
		*to[i] = telemetry.Some(v)
	}
	return t, nil
}

// Objective bounds the latencies of good requests in seconds; what is missing is not asked of them.
type Objective struct{ TTFT, TPOT, E2E telemetry.Optional[float64] }

// good returns the part of the requests between two pages that kept the objective, 0 to 1. A page has a histogram
// of each latency, so that the part is known to a bucket, and where several latencies count, to how far they may
// overlap. It answers false where a latency that counts was not observed.
func (o Objective) good(d *serving.Reading) (low, high float64, ok bool) {
	low, high = 1, 1
	for _, c := range []struct {
		limit telemetry.Optional[float64]
		of    *serving.Histogram
	}{{o.TTFT, d.TTFT}, {o.TPOT, d.TPOT}, {o.E2E, d.E2E}} {
		limit, counts := c.limit.Get()
		if !counts {
			continue
		}
		if c.of == nil || c.of.Count == 0 {
			return 0, 0, false
		}
		few, many := c.of.AtMost(limit)
		low += float64(few)/float64(c.of.Count) - 1
		high = min(high, float64(many)/float64(c.of.Count))
	}
	return min(max(low, 0), high), high, true
}

// unjudged holds the tokens of a replica since its requests were judged last.
type unjudged struct {
	since  serving.Reading
	tokens float64
}

// judge counts the tokens of good requests, taking these to be as long as the others. Tokens that can no longer be
// rated, since their server was restarted, raise the upper bound only.
func (d *served) judge(o Objective, now *serving.Reading, generated float64) {
	i := slices.IndexFunc(d.open, func(u unjudged) bool { return u.since.Same(now) })
	if i < 0 {
		d.open = append(d.open, unjudged{})
		i = len(d.open) - 1
		if generated == 0 { // the first page
			d.open[i].since = *now
			return
		}
	}
	u := &d.open[i]
	u.tokens += generated
	low, high, ok := 0.0, 1.0, true
	if between, err := now.Since(u.since); err == nil {
		low, high, ok = o.good(&between)
	}
	if ok {
		d.counted.GoodLow = telemetry.Some(d.counted.GoodLow.Or(0) + low*u.tokens)
		d.counted.GoodHigh = telemetry.Some(d.counted.GoodHigh.Or(0) + high*u.tokens)
		*u = unjudged{since: *now}
	}
	pending := 0.0
	for _, u := range d.open {
		pending += u.tokens
	}
	d.counted.Pending = telemetry.Some(pending)
}

// resume takes up the tokens of another run. What was not judged then never will be.
func (t Tokens) resume() Tokens {
	if n, ok := t.Pending.Get(); ok && n > 0 {
		t.GoodHigh = add(t.GoodHigh, t.Pending)
	}
	t.Pending = telemetry.Optional[float64]{}
	return t
}
