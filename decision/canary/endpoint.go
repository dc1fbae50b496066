// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/serving"
)

const (
	observeEvery = time.Second
	// before is the number of snapshots that are kept of the time before a newcomer comes.
	before = 600
)

// Endpoint reads the pages of a plan's tenants once a second while Run runs, and answers rollout controllers, which
// place the newcomer and take it back. Each answer is JSON, a Result with the field answer: pass, fail or wait.
//
//   - /?rollout=ID is for the web metric of Argo Rollouts, which reads {$.answer}. The status is 200. An ID other than
//     the last one restarts the test; a request without one only reads.
//   - /begin is for Flagger's pre-rollout hook: it restarts the test, and its status is 200.
//   - /continue is for Flagger's rollout hook. The status is 200, or 409 where the answer is fail.
//   - /promote is for Flagger's confirm-promotion hook. The status is 200 where the answer is pass, 409 where it is
//     fail, and 425 where it is wait.
//
// The newcomer's arrival is the time of the request that restarts the test. The ten minutes before it, except during
// another canary, are the neighbours' baseline. A restarted program has no observations, and restarts the test at the
// next ID. An Endpoint is safe for concurrent use.
type Endpoint struct {
	plan    Plan
	changed func(Result)
	sources []tenantSource

	mu      sync.Mutex
	recent  []timed // while no canary is under way, oldest first
	canary  *Canary // nil before the first one
	rollout string
	begun   time.Time
}

// timed holds the tenants' readings at one time.
type timed struct {
	at   time.Time
	seen []Seen
}

// NewEndpoint returns an endpoint without observations. changed, which may be nil, is called with each new verdict.
func NewEndpoint(p Plan, changed func(Result)) (*Endpoint, error) {
	if _, err := New(p); err != nil {
		return nil, err
	}
	e := &Endpoint{plan: p, changed: changed, sources: make([]tenantSource, len(p.Tenants))}
	for i := range e.sources {
		e.sources[i].client = serving.NewClient()
	}
	return e, nil
}

// Run takes a snapshot once a second until ctx ends. A page that does not answer within a second counts as missing.
func (e *Endpoint) Run(ctx context.Context) {
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		reading, cancel := context.WithTimeout(ctx, observeEvery)
		seen := make([]Seen, len(e.sources))
		var wg sync.WaitGroup
		for i := range e.sources {
			wg.Go(func() { seen[i] = e.sources[i].read(reading, &e.plan.Tenants[i]) })
		}
		wg.Wait()
		cancel()
		if ctx.Err() == nil {
			e.observe(timed{time.Now(), seen})
		}
	}
}

// observe adds observations to the current canary, or keeps them for the next one.
func (e *Endpoint) observe(l timed) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.canary == nil || e.canary.done {
		e.recent = append(e.recent[max(0, len(e.recent)-before+1):], l)
		return
	}
	was := e.canary.verdict
	if e.canary.Observe(Snapshot{At: l.at.Sub(e.begun), Tenants: l.seen}) != was && e.changed != nil {
		e.changed(e.canary.Result())
	}
}

// answers are those that rollout tools understand; until then they wait.
var answers = map[Verdict]string{Promote: "pass", TakeBack: "fail", CannotTell: "fail"}

// ServeHTTP answers a rollout controller.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := map[string]map[string]int{
		"/": {}, "/begin": {}, "/continue": {"fail": http.StatusConflict},
		"/promote": {"fail": http.StatusConflict, "wait": http.StatusTooEarly},
	}[r.URL.Path]
	if status == nil {
		http.NotFound(w, r)
		return
	}
	var out struct {
		Answer string `json:"answer"`
		Result
	}
	e.mu.Lock()
	if id := r.URL.Query().Get("rollout"); r.URL.Path == "/begin" || id != "" && id != e.rollout {
		e.canary, _ = New(e.plan) // NewEndpoint has made one of the plan
		e.rollout, e.begun = id, time.Now()
		for _, l := range e.recent {
			e.canary.Observe(Snapshot{At: l.at.Sub(e.begun), Tenants: l.seen})
		}
		e.recent = nil
	}
	if out.Verdict, out.Reason = KeepObserving, "no rollout has begun"; e.canary != nil {
		out.Result = e.canary.Result()
	}
	e.mu.Unlock()
	out.Answer = cmp.Or(answers[out.Verdict], "wait")
	body, err := json.Marshal(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if code := status[out.Answer]; code != 0 {
		w.WriteHeader(code)
	}
	_, _ = w.Write(body) // the client may have gone
}

const (
	// loadOver is the time over which a load is averaged.
	loadOver = 30 * time.Second
	// slowStep is the time after which a step that has not ended counts as a rate of one in the time so far.
	slowStep = 10 * time.Second
)

// tenantSource holds the last readings of a tenant.
type tenantSource struct {
	client *serving.Client
	before map[string]serving.Reading
	at     time.Time // of before
	load   float64   // requests a second, averaged

	steps   float64 // counted; at is when they were
	stepsAt time.Time
	counted bool
}

// read reads a tenant.
func (t *tenantSource) read(ctx context.Context, p *Tenant) (s Seen) {
	s.Metrics = make([]Sample, len(p.Objectives))
	var err error
	if p.Page != "" {
		err = t.page(ctx, p, &s)
	}
	if p.Counter != nil {
		rates, stepErr := t.stepRates(ctx, p)
		err = errors.Join(err, stepErr)
		for k, o := range p.Objectives {
			if o.Metric == steps {
				s.Metrics[k].Values = rates
			}
		}
	}
	if err != nil {
		s.Missing = err.Error()
	}
	return s
}

// page reads a tenant's metrics page: histograms of the time since it was read before.
func (t *tenantSource) page(ctx context.Context, p *Tenant, s *Seen) error {
	readings, err := t.client.Fetch(ctx, p.Page)
	if err != nil {
		return err
	}
	now, last, ended, known := time.Now(), t.at, 0.0, true
	before := t.before
	t.before, t.at = map[string]serving.Reading{}, now
	for _, r := range readings {
		key := r.Model + "\x00" + r.Replica
		t.before[key] = r
		was, ok := before[key]
		if !ok {
			err = errors.New("its first page, or the first of a replica")
			continue
		}
		d, since := r.Since(was)
		if err = errors.Join(err, since); since != nil {
			continue
		}
		n, ok := d.Requests.Get()
		ended, known = ended+n, known && ok
		of := map[string]*serving.Histogram{"ttft": d.TTFT, "itl": d.ITL, "tpot": d.TPOT, "e2e": d.E2E, "queue": d.Queue}
		for k, o := range p.Objectives {
			switch h := of[o.Metric]; {
			case o.Metric == steps:
			case h == nil:
				err = errors.Join(err, fmt.Errorf("its page has no %s", o.Metric))
			default:
				s.Metrics[k].merge(&Sample{Histogram: h})
			}
		}
	}
	if err != nil {
		return err
	}
	span := now.Sub(last).Seconds()
	if part := min(1, span/loadOver.Seconds()); t.load == 0 {
		t.load = ended / span
	} else {
		t.load += part * (ended/span - t.load)
	}
	if known {
		s.Load = sharing.Some(t.load)
	}
	return nil
}

// stepRates reads a counter of steps and returns the rate of each that ended since it was read before.
func (t *tenantSource) stepRates(ctx context.Context, p *Tenant) (rates []float64, err error) {
	n, err := t.client.Counter(ctx, p.Counter.URL, p.Counter.Name)
	if err != nil {
		return nil, err
	}
	now, was, at, counted := time.Now(), t.steps, t.stepsAt, t.counted
	if n != was || !counted {
		t.steps, t.stepsAt, t.counted = n, now, true
	}
	took := now.Sub(at).Seconds()
	switch {
	case !counted:
		return nil, errors.New("its counter was not read before")
	case n < was:
		return nil, errors.New("its counter went back")
	case n == was && now.Sub(at) < slowStep:
		return nil, nil
	case n == was:
		return []float64{1 / took}, nil
	}
	return slices.Repeat([]float64{(n - was) / took}, int(min(n-was, 1000))), nil
}
