// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

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
//     the last one begins anew; without one the request only reads.
//   - /begin is for Flagger's pre-rollout hook: it begins anew, and its status is 200.
//   - /continue is for Flagger's rollout hook. The status is 200, or 409 where the answer is fail.
//   - /promote is for Flagger's confirm-promotion hook. The status is 200 where the answer is pass, 409 where it is
//     fail, and 425 where it is wait.
//
// The newcomer's arrival is the time of the request that begins anew. The ten minutes before, except those of another
// canary, are the neighbours' baseline. A program that starts again has no observations, and begins anew with the
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

// NewEndpoint returns an endpoint that has seen nothing. changed, which may be nil, is called with each new verdict.
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

// Run takes a snapshot once a second until ctx ends. A page that does not answer within a second is missing.
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

// begin begins a canary of a newcomer that comes now.
func (e *Endpoint) begin(rollout string, now time.Time) {
	e.canary, _ = New(e.plan) // NewEndpoint has made one of the plan
	e.rollout, e.begun = rollout, now
	for _, l := range e.recent {
		e.canary.Observe(Snapshot{At: l.at.Sub(now), Tenants: l.seen})
	}
	e.recent = nil
}

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
		e.begin(id, time.Now())
	}
	if out.Verdict, out.Reason = KeepObserving, "no rollout has begun"; e.canary != nil {
		out.Result = e.canary.Result()
	}
	e.mu.Unlock()
	out.Answer = out.Result.answer()
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
