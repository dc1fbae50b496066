package discover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// traps finds the traps that workloads walk into as they run today.
func (b *build) traps() {
	pools := map[string]*decision.CompiledPool{}
	for i := range b.Fleet.Pools {
		p, err := decision.CompilePool(&b.Fleet.Pools[i])
		if err == nil {
			pools[b.Fleet.Pools[i].Name] = p
		}
	}
	type hit struct {
		trap  decision.TrapHit
		names []string
	}
	var hits []*hit
	byTrap := map[string]*hit{}
	for _, w := range b.workloads {
		v := &b.Fleet.Workloads[w.index]
		if v.Request == nil {
			continue
		}
		n, _ := b.home(w)
		var at *decision.CompiledPool
		if p := b.poolOf[n]; p != nil {
			at = pools[p.name]
		}
		for _, t := range decision.TrapsToday(decision.CompileWorkload(v), at) {
			h := byTrap[t.ID]
			if h == nil {
				h = &hit{trap: t}
				byTrap[t.ID] = h
				hits = append(hits, h)
			}
			h.names = append(h.names, w.name)
		}
	}
	for _, h := range hits {
		names := plaintext.Some(h.names, 1, len(h.names))
		source := ""
		if len(h.trap.Sources) > 0 {
			source = string(h.trap.Sources[0])
		}
		b.find("trap-"+h.trap.ID, h.trap.Severity, "workload "+names, source, "%s", h.trap.Message)
	}
}

// onMIG is a workload that has MIG instances of a pool.
type onMIG struct {
	w         *workload
	model     *mig.Model
	from, to  *mig.Profile
	instances int
}

// rightsize finds MIG instances that are larger than their tenants' memory,
// measured or given by the user, and what smaller ones free, both packed exactly.
func (b *build) rightsize() {
	for _, p := range b.pools {
		var tenants []*onMIG
		for _, w := range b.workloads {
			if t := b.tenantOn(w, p); t != nil {
				tenants = append(tenants, t)
			}
		}
		smaller := slices.DeleteFunc(slices.Clone(tenants), func(t *onMIG) bool { return t.to == nil })
		if len(smaller) == 0 {
			continue
		}
		slices.SortStableFunc(smaller, func(x, y *onMIG) int {
			saved := func(t *onMIG) int { return (t.from.PlacementUnits - t.to.PlacementUnits) * t.instances }
			return cmp.Or(cmp.Compare(saved(y), saved(x)), strings.Compare(x.w.name, y.w.name))
		})
		now := map[*onMIG]*mig.Profile{}
		for _, t := range tenants {
			now[t] = t.from
		}
		gpus := packed(tenants, now)
		for _, t := range smaller {
			now[t] = t.to
			after := packed(tenants, now)
			r := Rightsize{Workload: t.w.name, From: t.from.Name, To: t.to.Name}
			if gpus >= 0 && after >= 0 {
				r.Frees = gpus - after
				gpus = after
			}
			b.Rightsize = append(b.Rightsize, r)
		}
	}
}

// tenantOn is a workload's instances in a pool, nil without. Its profile to is set where a smaller one has the
// memory that is known, and the slices for how busy it is, where that is known.
func (b *build) tenantOn(w *workload, p *pool) *onMIG {
	v := &b.Fleet.Workloads[w.index]
	if v.Request == nil || v.Request.Mechanism != sharing.MechanismMIG {
		return nil
	}
	t := &onMIG{w: w}
	for _, k := range w.pods {
		if n := b.byName[k.node]; n != nil && k.running && b.poolOf[n] == p {
			t.instances += k.ask.gpus
			t.model = n.model()
		}
	}
	if t.model == nil || t.instances == 0 {
		return nil
	}
	from, err := t.model.Profile(v.Request.Profile)
	if err != nil {
		return nil
	}
	t.from = from
	need, ok := v.Memory.Get()
	if basis := b.Provenance[fmt.Sprintf("workloads[%d].memory", w.index)].Basis; !ok || basis != BasisMeasured &&
		basis != BasisGiven {
		return t
	}
	busy := v.PeakBusy.Or(v.GPUBusy.Or(0))
	have, _ := from.Memory.Get()
	for _, prof := range t.model.Profiles {
		memory, known := prof.Memory.Get()
		name, err := mig.ParseName(prof.Name)
		switch {
		case !known || memory < need || memory >= have || prof.PlacementUnits == 0 ||
			prof.PlacementUnits >= from.PlacementUnits:
		case err != nil || len(name.Attributes) > 0 || len(name.Without) > 0: // media engines are few
		case busy*float64(t.model.ComputeSlices) > float64(prof.ComputeSlices):
		case t.to == nil || prof.PlacementUnits < t.to.PlacementUnits:
			t.to = prof
		case prof.PlacementUnits == t.to.PlacementUnits && (busy > 0) == (prof.ComputeSlices < t.to.ComputeSlices):
			t.to = prof // less compute only where it is known to be enough
		}
	}
	return t
}

// packed is the fewest GPUs that hold the tenants' instances, -1 where none was found.
func packed(tenants []*onMIG, profiles map[*onMIG]*mig.Profile) int {
	n := map[string]int{}
	for _, t := range tenants {
		n[profiles[t].Name] += t.instances
	}
	p, err := mig.Pack(counts(n), []mig.Bin{{Model: tenants[0].model}}, mig.PackOptions{SearchNodes: 50_000})
	if err != nil {
		return -1
	}
	return p.GPUs
}
