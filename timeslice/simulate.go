package timeslice

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Simulation holds the input of Simulate.
type Simulation struct {
	Scheduler Scheduler
	Tenants   []Tenant
	For       time.Duration // simulated time; 0 means 60 s
	Warmup    time.Duration // steps and requests that begin earlier are not counted
	Seed      uint64        // same seed, same result
}

// Result is the outcome of a simulation. Its Basis is always sharing.BasisSimulated.
type Result struct {
	Basis     sharing.Basis
	Scheduler Scheduler
	Seed      uint64
	Totals    Totals
	Tenants   []TenantResult // in the order of Simulation.Tenants
}

// TenantResult holds the figures of one tenant.
type TenantResult struct {
	Name    string
	Step    *Latency // from a step's submission to its end
	Request *Latency // from a request's arrival to its end
	// Unfinished is the number of requests that had come and not ended when the simulated time was over; Request
	// does not hold them. The queue of an open loop is estimated from its rate. A number that grows with the
	// simulated time means that the tenant cannot keep up.
	Unfinished int
	Usage
}

// Simulate runs tenants on a time-sliced GPU. Each tenant draws from a source of its own, so that another tenant's
// presence changes none of its draws. The error names everything that is wrong with the input.
func Simulate(ctx context.Context, sim Simulation) (*Result, error) {
	sim.For = cmp.Or(sim.For, time.Minute)
	if err := sim.validate(); err != nil {
		return nil, err
	}
	loops := make([]*loop, len(sim.Tenants))
	engine := Engine{Scheduler: sim.Scheduler, Tenants: make([]Submitter, len(sim.Tenants)), Until: sim.For}
	for i, t := range sim.Tenants {
		loops[i] = newLoop(t, rand.New(rand.NewPCG(sim.Seed, uint64(i))), sim.Warmup, sim.For)
		engine.Tenants[i] = loops[i]
	}
	usage, totals, err := engine.Run(ctx)
	if err != nil {
		return nil, err
	}
	res := &Result{Basis: sharing.BasisSimulated, Scheduler: sim.Scheduler, Seed: sim.Seed, Totals: totals,
		Tenants: make([]TenantResult, len(loops))}
	for i, p := range loops {
		res.Tenants[i] = TenantResult{Name: p.t.label(i), Step: p.step, Request: p.request,
			Unfinished: p.unfinished(totals.Simulated), Usage: usage[i]}
	}
	return res, nil
}

// maxTenants bounds a simulation's memory: two histograms and a row of waits for each tenant.
const maxTenants = 256

func (sim Simulation) validate() error {
	var l problem.List
	sim.Scheduler.check(&l, "scheduler")
	l.If(sim.For < 0 || sim.For > longest, "for", "", "must be positive and at most %v, is %v", longest, sim.For)
	l.If(sim.Warmup < 0 || sim.Warmup > sim.For, "warmup", "", "must lie between 0 and the simulated time %v, is %v",
		sim.For, sim.Warmup)
	if n := len(sim.Tenants); n == 0 || n > maxTenants {
		l.Addf("tenants", "give 1 to 256", "are %d", n)
	}
	for i, t := range sim.Tenants {
		t.check(&l, fmt.Sprintf("tenants[%d]", i))
	}
	return l.Err()
}

// BlamedOn returns the neighbour that r waited for longest and the share of all its waiting, switches included,
// that fell to it; false when it never waited.
func (r *TenantResult) BlamedOn() (tenant int, shareFraction float64, ok bool) {
	total := r.Switching
	for i, w := range r.WaitedOn {
		total += w
		if w > r.WaitedOn[tenant] {
			tenant = i
		}
	}
	if total == 0 {
		return 0, 0, false
	}
	return tenant, float64(r.WaitedOn[tenant]) / float64(total), true
}

// Latency is a histogram of simulated latencies, to three significant figures
// and 100 ns. It must not be copied. Reading is safe for concurrent use.
type Latency struct {
	h   *hdrhistogram.Histogram
	sum time.Duration
}

const latencyUnit = 100 * time.Nanosecond

func newLatency(longest time.Duration) *Latency {
	return &Latency{h: hdrhistogram.New(1, max(1000, 1+int64(longest/latencyUnit)), 3)}
}

func (l *Latency) record(d time.Duration) {
	// No latency exceeds the simulated time, for which the histogram is built.
	if l.h.RecordValue(int64(d/latencyUnit)) == nil {
		l.sum += d
	}
}

// Count is the number of latencies.
func (l *Latency) Count() int64 { return l.h.TotalCount() }

// Mean is their exact mean; false when there are none.
func (l *Latency) Mean() (time.Duration, bool) {
	if l.Count() == 0 {
		return 0, false
	}
	return l.sum / time.Duration(l.Count()), true
}

// Quantile is the latency that a share q (0 to 1) of them does not exceed; false when there are none.
func (l *Latency) Quantile(q float64) (time.Duration, bool) {
	if l.Count() == 0 {
		return 0, false
	}
	return time.Duration(l.h.ValueAtQuantile(100*min(max(q, 0), 1))) * latencyUnit, true
}

// MarshalJSON writes the count, and in milliseconds the mean, p50, p90, p95,
// p99 and max, which are absent when there are no latencies.
func (l *Latency) MarshalJSON() ([]byte, error) {
	out := struct {
		Count int64    `json:"count"`
		Mean  *float64 `json:"mean_ms,omitempty"`
		P50   *float64 `json:"p50_ms,omitempty"`
		P90   *float64 `json:"p90_ms,omitempty"`
		P95   *float64 `json:"p95_ms,omitempty"`
		P99   *float64 `json:"p99_ms,omitempty"`
		Max   *float64 `json:"max_ms,omitempty"`
	}{Count: l.Count()}
	if mean, ok := l.Mean(); ok {
		ms := func(d time.Duration) *float64 { v := float64(d.Microseconds()) / 1e3; return &v }
		q := func(f float64) *float64 { v, _ := l.Quantile(f); return ms(v) }
		out.Mean, out.P50, out.P90, out.P95, out.P99, out.Max = ms(mean), q(.5), q(.9), q(.95), q(.99), q(1)
	}
	return json.Marshal(out)
}
