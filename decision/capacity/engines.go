package capacity

import (
	"cmp"
	"fmt"
	"math"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// gpu is a GPU of the plan with what the tables know of it.
type gpu struct {
	GPU
	row    *sharing.GPU
	whole  sharing.Bytes
	memory sharing.Bytes // that its servers may take
	mig    *mig.Model    // nil without MIG
}

func (p *Plan) resolve(g GPU) (*gpu, error) {
	row, err := sharing.LookupGPU(g.Name)
	if err != nil {
		return nil, err
	}
	memory, known := row.Memory.Get()
	if !known {
		return nil, fmt.Errorf("the memory of %s is not known", g.Name)
	}
	if m := costs.MachineOf(row); m.Bandwidth <= 0 || m.FLOPs <= 0 {
		return nil, fmt.Errorf("the bandwidth or the compute of %s is not known: nothing can be predicted there", g.Name)
	}
	g.Most = cmp.Or(g.Most, defaultMost)
	out := &gpu{GPU: g, row: row, whole: memory, memory: usable(memory)}
	if m, err := mig.Lookup(row.Name); err == nil && m.PlacementsKnown() {
		out.mig = m
	}
	return out, nil
}

// engine is a server of a tenant on a GPU, or on a slice of it with so much memory, configured as the tenant's are. It
// says how its steps are made up.
func (s *search) engine(tenant int, g *gpu, memory sharing.Bytes) (e costs.Engine, schedule string, err error) {
	t := &s.plan.Tenants[tenant]
	shape := t.Shape.At(s.traffic.tenants[tenant].context())
	if err = shape.Runs(g.row); err != nil {
		return e, "", err
	}
	if e, err = s.costs(t, shape, g); err != nil {
		return e, "", err
	}
	limit := e.Sequences // a profile's
	if schedule, err = s.plan.Scheduling.Schedule(&e, g.row, memory); err != nil {
		return e, "", err
	}
	if s.plan.ProfiledLimits && limit > 0 {
		e.Sequences = limit
		schedule += fmt.Sprintf(", %d as the profiled server", limit)
	}
	if t.Configure != nil {
		t.Configure(&e)
	}
	return e, schedule, nil
}

// costs is a server of a tenant on a GPU, its costs from the tenant's profiles where there are any.
func (s *search) costs(t *Tenant, shape costs.Model, g *gpu) (costs.Engine, error) {
	prior := costs.NewEngine(shape, costs.MachineOf(g.row))
	prior.Adapters = adaptersOf(prior.Adapters, t.Adapters)
	if len(t.Profiles) == 0 {
		return prior, nil
	}
	var solo *profile.Solo
	for i := range t.Profiles {
		at := s.profileGPU(&t.Profiles[i])
		if row, err := sharing.LookupGPU(at); err == nil && row == g.row {
			e, err := s.predictor.Engine(prior, t.Profiles[i])
			if err != nil {
				return prior, fmt.Errorf("tenant %s: %w", t.Name, err)
			}
			return e, nil
		}
		solo = cmp.Or(solo, &t.Profiles[i])
	}
	at := s.profileGPU(solo)
	row, err := sharing.LookupGPU(at)
	if err != nil {
		return prior, fmt.Errorf("tenant %s: its profile is of %q: %w", t.Name, at, err)
	}
	there := costs.NewEngine(shape, costs.MachineOf(row))
	there.Adapters = prior.Adapters
	measured, err := s.predictor.Engine(there, *solo)
	if err != nil {
		return prior, fmt.Errorf("tenant %s: %w", t.Name, err)
	}
	return transfer(measured, there, prior, row.Architecture == g.row.Architecture), nil
}

func adaptersOf(priors, own costs.Adapters) costs.Adapters {
	priors.Slots, priors.HostSlots, priors.Rank, priors.Targets = own.Slots, own.HostSlots, own.Rank, own.Targets
	for _, c := range []struct{ to, from *costs.Cost }{
		{&priors.Step, &own.Step}, {&priors.Each, &own.Each}, {&priors.Prefill, &own.Prefill}, {&priors.Load, &own.Load},
		{&priors.Fetch, &own.Fetch},
	} {
		if c.from.Basis != sharing.BasisUnknown {
			*c.to = *c.from
		}
	}
	return priors
}

// profileGPU is the GPU that a workload was measured on: the predictor's where its profiles do not say.
func (s *search) profileGPU(of *profile.Solo) string {
	for _, p := range []*profile.SoloProfile{of.TimeSlicing, of.MPS} {
		if p != nil && p.GPU != "" {
			return p.GPU
		}
	}
	return s.predictor.GPU
}

// How much less sure a measured cost is on another GPU, as a standard deviation of its logarithm: of the same
// architecture (an H100 with an H200's figures is off by 3 to 10%), and of another, for which nothing was measured.
const (
	transferSigma      = 0.08
	transferSigmaOther = 0.2
)

// transfer takes an engine that was measured on one GPU to another: each cost changes
// as the priors of the two GPUs say.
func transfer(measured, priorThere, priorHere costs.Engine, same bool) costs.Engine {
	out := priorHere
	out.Sequences, out.Captured, out.Adds = measured.Sequences, measured.Captured, measured.Adds
	sigma := transferSigma
	if !same {
		sigma = transferSigmaOther
	}
	to, from, base := costsOf(&out), costsOf(&measured), costsOf(&priorThere)
	for i := range to {
		if from[i].Basis == sharing.BasisPrior || base[i].Value <= 0 {
			continue
		}
		*to[i] = costs.Cost{
			Value: to[i].Value * from[i].Value / base[i].Value, Sigma: math.Hypot(from[i].Sigma, sigma),
			Basis: sharing.BasisTransferred, Source: from[i].Source,
		}
	}
	return out
}

func costsOf(e *costs.Engine) []*costs.Cost {
	return []*costs.Cost{&e.Step, &e.StepMatrix, &e.StepSequence, &e.StepContext, &e.StepExperts,
		&e.HostFraction, &e.Prefill, &e.PrefillToken, &e.PrefillContext, &e.PrefillBusy, &e.DecodeSM, &e.PrefillSM,
		&e.MPSStep}
}

// capped is the engine under an active thread percentage of MPS: prefills have that
// part of the SMs, the bandwidth is everybody's.
func capped(e costs.Engine, percent float64) costs.Engine {
	share := percent / 100
	e = e.On(costs.Share{Mechanism: sharing.MechanismMPS, SMs: share, Bandwidth: 1})
	// A decode step that needs more SMs than it may have takes longer by as much.
	if need := e.DecodeSM.Value; need > share && need > 0 {
		e.Step.Value *= need / share
		e.Step.Basis = sharing.BasisPrior
	}
	e.DecodeSM.Value, e.PrefillSM.Value = min(e.DecodeSM.Value, share), min(e.PrefillSM.Value, share)
	return e
}

// basisOf is the weakest basis of the costs of engines.
func basisOf(servers []server) sharing.Basis {
	worst := sharing.BasisMeasured
	rank := map[sharing.Basis]int{sharing.BasisMeasured: 3, sharing.BasisFitted: 2, sharing.BasisTransferred: 1,
		sharing.BasisPrior: 0}
	for i := range servers {
		// The steps and the prefill make the answer; what MPS and sleep cost is of the constants of sharing.
		for _, c := range []costs.Cost{servers[i].engine.Step, servers[i].engine.PrefillToken} {
			if c.Basis != sharing.BasisUnknown && rank[c.Basis] < rank[worst] {
				worst = c.Basis
			}
		}
	}
	return worst
}
