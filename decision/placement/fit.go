package placement

import (
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Fit filters one node: whether the request fits it now, and if not why, as the GPU says that came nearest to a
// fit. p judges objectives, and may be nil: then requests that have one and would get neighbours are unknown. It
// does not allocate where there is no forecaster.
func (s *Snapshot) Fit(i int, r *Request, p Forecaster) gate.Reason {
	n := s.node(i)
	var why, nearest gate.Reason
	if !n.fits(r, &why) {
		return why
	}
	if r.GPUs == 0 {
		return gate.Pass()
	}
	var j *judge
	if p != nil {
		j = &judge{p: p}
	}
	count := 0
	var takes [MaxGPUs]take
	for g := range n.view.GPUs[:n.view.Len] {
		t := &takes[count]
		*t = take{}
		if !n.fit(g, r, j, t, &why) || t.profile != nil && !fitSlices(&n.view.GPUs[g], t.profile, &why) {
			nearest.Closer(why)
			continue
		}
		if count++; alike(takes[:count], *t) == r.GPUs {
			return gate.Pass()
		}
	}
	if count > 0 || nearest.Code == gate.CodeFits {
		best := 0
		for _, t := range takes[:count] {
			best = max(best, alike(takes[:count], t))
		}
		return gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeGPUCount, Need: int64(r.GPUs), Have: int64(best)}
	}
	return nearest
}

// alike counts the GPUs on which a request would take the same by the same
// mechanism as t: the GPUs of one request are alike.
func alike(takes []take, t take) int {
	n := 0
	for i := range takes {
		if takes[i].mechanism == t.mechanism && takes[i].milli == t.milli {
			n++
		}
	}
	return n
}

func fitSlices(g *GPUView, p *mig.Profile, why *gate.Reason) bool {
	return slices.ContainsFunc(p.Placements, func(at mig.Placement) bool {
		_, ok := g.Slices.With(p, at.Start)
		return ok
	}) || refuse(why, gate.CodeSlices)
}

// refuse gives a reason without numbers; it is always false.
func refuse(why *gate.Reason, c gate.Code) bool {
	v := gate.VerdictReject
	switch c {
	case gate.CodeSlowdownUnknown:
		v = gate.VerdictUnknown
	case gate.CodeNoMechanism, gate.CodeMIGMode, gate.CodeNotMIG:
		v = gate.VerdictFixable
	}
	*why = gate.Reason{Verdict: v, Code: c}
	return false
}

// fits asks what a node has beside its GPUs, and how many of these.
func (n *node) fits(r *Request, why *gate.Reason) bool {
	v := &n.view
	switch {
	case r.CPUMilli > v.CPUMilli:
		*why = gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeCPU, Need: r.CPUMilli, Have: v.CPUMilli}
	case r.Memory > v.Memory:
		*why = gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeMemory, Need: int64(r.Memory), Have: int64(v.Memory)}
	case r.GPUs > 0 && len(r.Models) > 0 && !slices.Contains(r.Models, v.Model):
		return refuse(why, gate.CodeModel)
	case r.GPUs > v.Len:
		*why = gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeGPUCount, Need: int64(r.GPUs), Have: int64(v.Len)}
	default:
		return true
	}
	return false
}

// take holds the resources that a request takes of one GPU.
type take struct {
	mechanism sharing.Mechanism
	milli     int32
	memory    sharing.Bytes
	profile   *mig.Profile
	slowdown  float64 // the worst that is predicted for anyone; 0 = not predicted
	lost      float64 // thousandths of work that all on the GPU lose more than before
	unknown   int32   // tenants of which that is not predicted
}

// fit computes what r would take of a GPU, and reports whether that is free but for the starts of a MIG profile.
func (n *node) fit(i int, r *Request, j *judge, t *take, why *gate.Reason) bool {
	g := &n.view.GPUs[i]
	if r.Profile != "" {
		return fitMIG(g, r, t, why) && n.admits(g, r, t, why)
	}
	if g.MIG != nil {
		return refuse(why, gate.CodeMIGMode)
	}
	t.mechanism, t.milli, t.memory = g.Mechanism, int32(r.Milli), r.GPUMemory
	if !chooseMechanism(g.Mechanism, r, t, why) || !n.admits(g, r, t, why) || !g.Known(r.GPUMemory, why) {
		return false
	}
	if r.Milli == 0 {
		t.milli = milliOf(r.GPUMemory, g.Total.Or(0))
	}
	if !g.Seated(n.ground.Seats(t.mechanism, int(g.seats)), t.milli, why) {
		return false
	}
	if g.Tenants > 0 && gate.TraitsOf(t.mechanism).Trusting && !n.trusted(i, r) {
		return refuse(why, gate.CodeTrust)
	}
	return g.Suffices(r.GPUMemory, t.milli, why) && (g.Tenants == 0 || n.predict(i, r, t, j, why))
}

// admits asks the gates of the workload that r is a replica of, where it and the kind of GPU are known.
func (n *node) admits(g *GPUView, r *Request, t *take, why *gate.Reason) bool {
	if r.Demand == nil || n.ground == nil {
		return true
	}
	seat := gate.Seat{Mechanism: t.mechanism, Profile: t.profile, Fixed: g.Mechanism != sharing.MechanismNone}
	if r.whole() {
		seat.Mechanism = sharing.MechanismExclusive
	}
	*why = n.ground.Admit(r.Demand, seat)
	return why.Verdict == gate.VerdictPass
}

func fitMIG(g *GPUView, r *Request, t *take, why *gate.Reason) bool {
	model := g.partition()
	if model == nil {
		return refuse(why, gate.CodeNotMIG)
	}
	if len(r.Mechanisms) > 0 && !slices.Contains(r.Mechanisms, sharing.MechanismMIG) {
		return refuse(why, gate.CodeMechanism)
	}
	prof := profileOf(model, r.Profile)
	if prof == nil {
		return refuse(why, gate.CodeProfile)
	}
	t.mechanism, t.profile, t.memory = sharing.MechanismMIG, prof, r.GPUMemory
	slice := gate.Left{Memory: prof.Memory.Value}
	return !prof.Memory.Known || slice.Suffices(r.GPUMemory, 0, why)
}

// profileOf finds a profile by its canonical name without allocating, and only
// then by another of its names; nil when the GPU has none.
func profileOf(m *mig.Model, name string) *mig.Profile {
	for _, p := range m.Profiles {
		if p.Name == name {
			return p
		}
	}
	p, err := m.Profile(name)
	if err != nil {
		return nil
	}
	return p
}

// chooseMechanism sets what the request would run under on a GPU that runs m.
func chooseMechanism(m sharing.Mechanism, r *Request, t *take, why *gate.Reason) bool {
	any := len(r.Mechanisms) == 0
	switch {
	case r.whole():
		if !any && !slices.Contains(r.Mechanisms, sharing.MechanismExclusive) && !slices.Contains(r.Mechanisms, m) {
			return refuse(why, gate.CodeMechanism)
		}
		if m == sharing.MechanismNone {
			t.mechanism = sharing.MechanismExclusive
		}
		return true
	case m == sharing.MechanismExclusive, m != sharing.MechanismNone && !any && !slices.Contains(r.Mechanisms, m):
		return refuse(why, gate.CodeMechanism)
	case m != sharing.MechanismNone:
		return true
	}
	for _, m := range r.Mechanisms {
		if m != sharing.MechanismExclusive && m != sharing.MechanismMIG {
			t.mechanism = m
			return true
		}
	}
	return refuse(why, gate.CodeNoMechanism)
}

// milliOf is the share of a GPU that goes with a part of its memory, rounded up.
func milliOf(b, total sharing.Bytes) int32 {
	if b >= total {
		if b > total {
			return 1001
		}
		return 1000
	}
	return int32((1000*b + total - 1) / total)
}

// trusted reports whether all tenants of a GPU and r trust each other.
func (n *node) trusted(gpu int, r *Request) bool {
	return !n.mixed && n.tenant == r.Tenant || !slices.ContainsFunc(n.placed, func(p *Placement) bool {
		return slices.Contains(p.GPUs, gpu) && !trusts(p.Request, r)
	})
}
