// SPDX-License-Identifier: Apache-2.0

// Package score filters one workload against one pool: every mechanism goes through the checks of decision/filter, and
// those that pass are ranked for equal cost. It does not allocate.
package score

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Scored is one candidate: a mechanism for a workload on a pool, with the verdict of the checks.
type Scored struct {
	filter.Report
	// Score orders candidates of equal cost, the higher the better: by the isolation that the mechanism gives on the pool,
	// then by how simple it is to run, or the other way around; see [Archetype.Simple]. It is 0 for a rejected candidate.
	Score float64
}

// Profile returns the name of the candidate's MIG profile, or "".
func (s *Scored) Profile() string {
	if slice := s.Slice(); slice != nil {
		return slice.Profile.Name
	}
	return ""
}

// Evaluate filters one workload against one pool by one mechanism into c, which it overwrites. It does not allocate and
// is safe for concurrent use with different cs.
func Evaluate(w *CompiledWorkload, p *CompiledPool, nb filter.Neighbours, m sharing.Mechanism, c *Scored) {
	p.target.Check(&w.demand, m, nb, &c.Report)
	c.Score = 0
	if c.Verdict == filter.VerdictReject {
		return
	}
	isolated, simple := p.isolation[m], 1-TraitOf(m).Complexity/4
	if c.Score = 100*isolated + simple; w.Archetype.Simple {
		c.Score = 100*simple + isolated
	}
}

// CompiledPool is a pool prepared for [Evaluate]. It is read-only once made and safe for concurrent use.
type CompiledPool struct {
	Pool      *fleet.Pool
	target    *filter.Target
	Memory    sharing.Bytes // of one GPU; 0 = not known
	Price     cost.Money
	Priced    bool
	Spot      fleet.Pricing                   // how many GPUs may be spot, where that is cheaper, and for how much
	Reserved  fleet.Pricing                   // likewise those that are paid for in any case
	isolation [sharing.MechanismCount]float64 // the mean level of each mechanism, 0 to 1
}

// Target returns the filter's data of the pool's GPUs.
func (p *CompiledPool) Target() *filter.Target { return p.target }

// CompilePool prepares a pool, as if the software for the installed mechanisms were there. It fails for an unknown GPU.
func CompilePool(pool *fleet.Pool, installed ...sharing.Mechanism) (*CompiledPool, error) {
	gpu, err := sharing.LookupGPU(pool.GPU)
	if err != nil {
		return nil, fmt.Errorf("decision: pool %q: %w", pool.Name, err)
	}
	kind := filter.GPUKind{Name: pool.Name, GPU: gpu, Driver: pool.Driver, Mechanisms: pool.Mechanisms,
		Delivery: pool.Delivery, Installed: installed, VGPU: pool.VGPU}
	kind.Together = min(pool.Count, pool.GPUsPerNode.Or(pool.Count))
	if on, stated := pool.StaticPartitions.Get(); stated {
		kind.StaticPartitions = sharing.AnswerOf(on)
	}
	p := &CompiledPool{Pool: pool}
	if p.target, err = filter.NewTarget(kind); err != nil {
		return nil, fmt.Errorf("decision: %w", err)
	}
	p.Memory, _ = gpu.Memory.Get()
	p.Price, p.Priced = pool.Price()
	p.Spot, p.Reserved = fleet.Pricing{PricePerGPUHour: p.Price}, fleet.Pricing{PricePerGPUHour: p.Price}
	if t := pool.Spot; t != nil && p.Priced && t.PricePerGPUHour.Micros() < p.Price.Micros() {
		p.Spot = fleet.Pricing{Count: cmp.Or(t.Count, pool.Count), PricePerGPUHour: t.PricePerGPUHour}
	}
	if t := pool.Reserved; t != nil {
		p.Reserved = fleet.Pricing{Count: cmp.Or(t.Count, pool.Count), PricePerGPUHour: t.PricePerGPUHour}
	}
	for m := range p.isolation {
		levels := 0.0
		for a := range sharing.AxisCount {
			if l := p.target.Isolation(sharing.Mechanism(m), sharing.Axis(a)).Level; l > sharing.LevelNone {
				levels += float64(l - sharing.LevelNone)
			}
		}
		p.isolation[m] = levels / float64(sharing.AxisCount*int(sharing.LevelHardware-sharing.LevelNone))
	}
	return p, nil
}

// Prices are those of pools, for the price of a layout; of one that has none, how many GPUs are reserved.
func Prices(pools []*CompiledPool) layout.Prices {
	out := layout.Prices{}
	for _, cp := range pools {
		p := layout.Price{PerGPU: cp.Price, SpotPerGPU: cp.Spot.PricePerGPUHour, Reserved: cp.Reserved.Count,
			ReservedPerGPU: cp.Reserved.PricePerGPUHour}
		if node, stated := cp.Pool.NodePricePerHour.Get(); stated {
			p.PerNode = node
		}
		out[cp.Pool.Name] = p
	}
	return out
}

// CompiledWorkload is a workload prepared for [Evaluate]. It is read-only once made and safe for concurrent use.
type CompiledWorkload struct {
	workload  *fleet.Workload
	demand    filter.Demand
	Archetype *Archetype
}

// Workload returns the workload as it was given.
func (w *CompiledWorkload) Workload() *fleet.Workload { return w.workload }

// Demand returns the demand of one replica. It must not be modified.
func (w *CompiledWorkload) Demand() *filter.Demand { return &w.demand }

// CompileWorkload prepares a workload.
func CompileWorkload(w *fleet.Workload) *CompiledWorkload {
	c := &CompiledWorkload{workload: w, Archetype: ArchetypeOf(w.Kind)}
	d := &c.demand
	*d = filter.Demand{Pool: w.Pool, Kind: string(w.Kind), Replicas: w.ReplicaCount(), GPUs: w.GPUCount(),
		Processes: w.ProcessCount(), Memory: w.MemoryNeed(), Decodes: w.Decodes(), Serves: w.Kind.Serves(),
		NeverShares: c.Archetype.NeverShares, LatencyBound: c.Archetype.LatencyBound,
		SaturatedFrom: c.Archetype.SaturatedFrom, SLO: w.SLO, Solo: w.Solo}
	for a := range d.Isolation {
		d.Isolation[a] = w.Isolation.Level(sharing.Axis(a))
	}
	if t := w.Today; t != nil && !t.MayWeaken {
		d.Today = t.Mechanism
	}
	d.Encodes = w.Video != nil && w.Video.NVENCBusy.Or(0) > 0
	if f := w.Framework; f != nil {
		d.Framework, d.MemoryFraction, d.Bypasses = f.Name, f.MemoryFraction, f.Privileged || f.StaticCUDA
	}
	if busy, stated := w.GPUBusy.Get(); stated {
		d.Busy, d.BusyBasis = busy, filter.BusyStated
		if d.SLO != (profile.SLO{}) {
			d.Busy = w.PeakBusy.Or(busy)
		}
	} else if prior, known := c.Archetype.BusyPrior.Get(); known {
		d.Busy, d.BusyBasis = prior, filter.BusyPrior
	}
	return c
}

// Paid counts the GPUs of a pool that are paid for, by their prices.
type Paid struct{ Spot, Reserved, OnDemand int }

// GPUs counts all of them.
func (p Paid) GPUs() int { return p.Spot + p.Reserved + p.OnDemand }

// Paid returns the GPUs that are paid for where n of the pool's are in use, spot of them by preemptible work: the
// reserved ones in any case, and beyond them whole nodes where the pool states gpus_per_node. No node is spot in part.
func (p *CompiledPool) Paid(n, spot int) Paid {
	firm := n - spot
	if each := p.Pool.GPUsPerNode.Or(1); each > 1 && n > p.Reserved.Count {
		n, firm = (n+each-1)/each*each, (firm+each-1)/each*each
	}
	spot = max(0, min(p.Spot.Count, n-max(firm, p.Reserved.Count)))
	return Paid{spot, p.Reserved.Count, max(0, n-spot-p.Reserved.Count)}
}

// Shareable reports whether a replica may have neighbours at all.
func (w *CompiledWorkload) Shareable() bool {
	return !w.Archetype.NeverShares && w.workload.GPUCount() == 1
}

// Trait holds the figures by which a mechanism is scored.
type Trait struct {
	Mechanism sharing.Mechanism
	// Complexity is operational: 0 nothing to run, 1 low, 2 medium, 3 high, 4
	// very high (cotenant-reading: by the processes to run and watch).
	Complexity float64
	// TradeOff is the drawback of choosing it.
	TradeOff       string
	TradeOffSource sharing.SourceID `json:"source"`
	// Risk is the worst of that in a few words; none of a whole GPU.
	Risk string
}

//go:embed tables.json
var tablesJSON []byte

// traits and archetypes are by mechanism and kind.
var traits, archetypes = func() (t [sharing.MechanismCount]Trait, a map[fleet.Kind]*Archetype) {
	var file struct {
		Kinds      []Archetype
		Mechanisms []Trait
	}
	_ = json.Unmarshal(tablesJSON, &file) // tests read the file that is built in
	a = map[fleet.Kind]*Archetype{}
	for i := range file.Kinds {
		k := &file.Kinds[i]
		k.Rank, a[k.Kind] = i+1, k
	}
	for _, m := range file.Mechanisms {
		t[m.Mechanism] = m
	}
	return t, a
}()

// TraitOf returns a mechanism's trait, which must not be modified.
func TraitOf(m sharing.Mechanism) *Trait { return &traits[m] }

// Archetype holds the priors of a workload's kind: archetypes, use
// cases and risk classes of widely read articles as data.
type Archetype struct {
	Kind fleet.Kind
	Rank int `json:"-"` // orders workloads that are alike in all else
	// Simple: of mechanisms that cost the same, the one that is simplest to run comes first, not the one that isolates
	// most: for work that idles for long and may be started again.
	Simple bool
	// NeverShares: the kind runs on whole GPUs.
	NeverShares bool
	// LatencyBound: time-slicing is out when it has latency objectives.
	LatencyBound bool
	// BusyPrior is used where gpu_busy is not stated: for notebooks and CI the mean GPU duty of a real serving
	// cluster with long idle stretches, 7.0 percent (alibaba-genai-trace).
	BusyPrior sharing.Optional[float64]
	// SaturatedFrom is the gpu_busy from which sharing gains nothing.
	SaturatedFrom float64
	Source        sharing.SourceID
}

// ArchetypeOf returns the priors of a kind, which must not be modified; the zero Archetype for one that is not known.
func ArchetypeOf(k fleet.Kind) *Archetype { return cmp.Or(archetypes[k], &Archetype{}) }
