package timeslice

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

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
