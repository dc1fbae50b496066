package migrate

import (
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// The figures that have to be known of a workload before it shares a GPU otherwise than today, by the keys that state
// them.
const (
	KeyMemory = "memory"
	KeyBusy   = "gpu_busy"
	KeySLO    = "slo"
)

// NotKnown lists those that are missing of a workload that runs.
func NotKnown(w *decision.Workload) (keys []string) {
	if w.MemoryNeed().Unknown {
		keys = append(keys, KeyMemory)
	}
	if w.GPUBusy.IsZero() && w.Load == nil && w.Profile == nil {
		keys = append(keys, KeyBusy)
	}
	if w.Kind == decision.KindOnlineInference && w.SLO == (profile.SLO{}) {
		keys = append(keys, KeySLO)
	}
	return keys
}

// bounded is a fleet in which each workload that runs and of which not enough is known needs all of the devices that it
// was given, and no weaker isolation: it may move to another of the same kind. Shares of a GPU have no such bound. bounds
// has what is not known of each.
func bounded(f *decision.Fleet) (out *decision.Fleet, bounds map[string]string) {
	bounds = map[string]string{}
	with := *f
	out = &with
	out.Workloads = slices.Clone(f.Workloads)
	pools := map[string]map[string]bool{} // by workload
	for i := range f.Today.Nodes {
		n := &f.Today.Nodes[i]
		for k := range n.Assignments {
			w := n.Assignments[k].Workload.Name
			if pools[w] == nil {
				pools[w] = map[string]bool{}
			}
			pools[w][n.Pool] = true
		}
	}
	for i := range out.Workloads {
		w := &out.Workloads[i]
		keys := strings.Join(NotKnown(w), ", ")
		if w.Today == nil || len(pools[w.Name]) != 1 || keys == "" {
			continue
		}
		at := slices.IndexFunc(f.Pools, func(p decision.Pool) bool { return pools[w.Name][p.Name] })
		pool, err := decision.CompilePool(&f.Pools[at])
		if err != nil || pool.Memory == 0 {
			continue
		}
		busy := 1.0
		switch model := layout.GPUOf(pool.Pool.GPU).MIG; {
		case w.Today.Mechanism == sharing.MechanismMIG && model != nil:
			p, err := model.Profile(w.Today.Profile)
			if err != nil {
				continue
			}
			busy = float64(p.ComputeSlices) / float64(model.ComputeSlices)
			if m, ok := p.Memory.Get(); ok {
				w.Memory, w.Model = decision.Some(m), nil
			}
		case w.Today.Mechanism == sharing.MechanismExclusive:
			w.Memory, w.Model = decision.Some(pool.Memory/4*3), nil // no part of the GPU has that
		default:
			continue
		}
		w.GPUBusy, w.PeakBusy, w.Load, w.Profile = decision.Some(busy), decision.Optional[float64]{}, nil, nil
		w.Kind, w.SLO, w.Solo, w.Pool = decision.KindBatch, profile.SLO{}, profile.SLO{}, pool.Pool.Name
		bounds[w.Name] = notKnown + keys + "; it may only move to a device of the same kind"
		w.Isolation.Memory, w.Isolation.Compute = sharing.LevelHardware, sharing.LevelHardware
	}
	return out, bounds
}
