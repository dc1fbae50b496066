package decision

import (
	"fmt"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// CompiledPool is a pool prepared for [Evaluate]. It is read-only once made and safe for concurrent use.
type CompiledPool struct {
	pool        *Pool
	ground      *gate.Ground
	memory      sharing.Bytes // of one GPU; 0 = not known
	price       cost.Money
	priced      bool
	isolationMu [sharing.MechanismCount]float64 // mean level, 0 to 1
}

// Ground returns what the gates know of the pool's GPUs.
func (p *CompiledPool) Ground() *gate.Ground { return p.ground }

// CompilePool prepares a pool. It fails for a GPU that is not known.
func CompilePool(pool *Pool) (*CompiledPool, error) {
	gpu, err := sharing.LookupGPU(pool.GPU)
	if err != nil {
		return nil, fmt.Errorf("decision: pool %q: %w", pool.Name, err)
	}
	kind := gate.GPUKind{Name: pool.Name, GPU: gpu, Driver: pool.Driver, Mechanisms: pool.Mechanisms,
		Delivery: pool.Delivery, VGPU: pool.VGPU}
	kind.Together = min(pool.Count, pool.GPUsPerNode.Or(pool.Count))
	if on, stated := pool.StaticPartitions.Get(); stated {
		kind.StaticPartitions = sharing.AnswerOf(on)
	}
	p := &CompiledPool{pool: pool}
	if p.ground, err = gate.NewGround(kind); err != nil {
		return nil, fmt.Errorf("decision: %w", err)
	}
	p.memory, _ = gpu.Memory.Get()
	if p.price, p.priced, err = pool.gpuPrice(); err != nil {
		return nil, fmt.Errorf("decision: pool %q: %w", pool.Name, err)
	}
	for m := range p.isolationMu {
		sum := 0.0
		for a := range sharing.AxisCount {
			sum += levelValue(p.ground.Isolation(sharing.Mechanism(m), sharing.Axis(a)).Level)
		}
		p.isolationMu[m] = sum / float64(sharing.AxisCount)
	}
	return p, nil
}

// levelValue places a level between 0 (none, or not known) and 1 (hardware).
func levelValue(l sharing.Level) float64 {
	if l <= sharing.LevelNone {
		return 0
	}
	return float64(l-sharing.LevelNone) / float64(sharing.LevelHardware-sharing.LevelNone)
}

// CompiledWorkload is a workload prepared for [Evaluate]. It is read-only once made and safe for concurrent use.
type CompiledWorkload struct {
	workload *Workload
	demand   gate.Demand
	arch     *Archetype
	weights  [CriterionCount]float64
}

// Workload returns the workload as it was given.
func (w *CompiledWorkload) Workload() *Workload { return w.workload }

// Demand returns what one replica asks of a GPU. It must not be modified.
func (w *CompiledWorkload) Demand() *gate.Demand { return &w.demand }

// CompileWorkload prepares a workload.
func CompileWorkload(w *Workload) *CompiledWorkload {
	c := &CompiledWorkload{workload: w, arch: &archetypes[0]}
	if w.Kind < kindCount {
		c.arch = &archetypes[w.Kind]
	}
	weights := c.arch.Weights
	if w.Isolation == (Isolation{}) {
		weights.Isolation = min(weights.Isolation, 1)
	}
	if w.Weights != nil {
		weights = *w.Weights
	}
	c.weights = weights.normalised()
	d := &c.demand
	*d = gate.Demand{Pool: w.Pool, Kind: w.Kind.String(), Replicas: w.replicas(), GPUs: w.gpus(),
		Processes: w.processes(), Memory: w.MemoryNeed(),
		Decodes:     w.decodes(),
		Serves:      w.Kind == KindOnlineInference || w.Kind == KindOfflineInference,
		NeverShares: c.arch.NeverShares, LatencyBound: c.arch.LatencyBound, SaturatedFrom: c.arch.SaturatedFrom, SLO: w.SLO,
		Solo: w.Solo}
	for a := range d.Isolation {
		d.Isolation[a] = w.Isolation.level(sharing.Axis(a))
	}
	if t := w.Today; t != nil && !t.MayWeaken {
		d.Today = t.Mechanism
	}
	d.Encodes = w.Video != nil && w.Video.NVENCBusy.Or(0) > 0
	if f := w.Framework; f != nil {
		d.Framework, d.MemoryFraction, d.Bypasses = f.Name, f.MemoryFraction, f.Privileged || f.StaticCUDA
	}
	if busy, stated := w.GPUBusy.Get(); stated {
		d.Busy, d.BusyBasis = busy, gate.BusyStated
		if d.SLO != (profile.SLO{}) {
			d.Busy = w.PeakBusy.Or(busy)
		}
	} else if prior, known := c.arch.BusyPrior.Get(); known {
		d.Busy, d.BusyBasis = prior, gate.BusyPrior
	}
	return c
}

// spotOf returns the number of a pool's GPUs that may be spot, and their price; 0 where spot is not cheaper.
func (p *CompiledPool) spotOf() (int, cost.Money) {
	s := p.pool.Spot
	if s == nil || !p.priced || s.PricePerGPUHour.Micros() >= p.price.Micros() {
		return 0, p.price
	}
	if s.Count > 0 {
		return s.Count, s.PricePerGPUHour
	}
	return p.pool.Count, s.PricePerGPUHour
}

// reservedOf returns the number of a pool's reserved GPUs and their price.
func (p *CompiledPool) reservedOf() (int, cost.Money) {
	r := p.pool.Reserved
	if r == nil || !p.priced {
		return 0, p.price
	}
	if r.Count > 0 {
		return r.Count, r.PricePerGPUHour
	}
	return p.pool.Count, r.PricePerGPUHour
}

// shareable: a replica that may have neighbours at all.
func (w *CompiledWorkload) shareable() bool {
	return !w.arch.NeverShares && w.workload.gpus() == 1
}
