package decision

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// CompiledPool is a pool prepared for [Evaluate]. It is read-only once made
// and safe for concurrent use.
type CompiledPool struct {
	pool  *Pool
	gpu   *sharing.GPU
	env   sharing.Environment
	model *mig.Model // nil where the catalogue has none

	memory      sharing.Bytes // 0 = not known
	price       cost.Money
	priced      bool
	allowed     [sharing.MechanismCount]bool
	available   [sharing.MechanismCount]sharing.Finding
	isolation   [sharing.MechanismCount][sharing.AxisCount]sharing.Property
	isolationMu [sharing.MechanismCount]float64 // mean level, 0 to 1
	// answers and levels repeat what the gates read of available and isolation
	// without the words, so that it stays in cache.
	answers  [sharing.MechanismCount]sharing.Answer
	levels   [sharing.MechanismCount][sharing.AxisCount]sharing.Level
	clients  int     // MPS client limit; 0 = not known
	profiles []slice // base profiles but the whole GPU's, most per GPU first
}

// slice is a MIG profile as the gates need it.
type slice struct {
	profile  *mig.Profile
	memory   sharing.Bytes // 0 = not known
	capacity int           // instances on an empty GPU
	inverse  float64       // the whole GPU's SMs over the slice's: the most it can slow down
	slowdown float64       // against the whole GPU, prior
}

// Pool returns the pool as it was given.
func (p *CompiledPool) Pool() *Pool { return p.pool }

// GPU returns the capability row of the pool's GPU. It must not be modified.
func (p *CompiledPool) GPU() *sharing.GPU { return p.gpu }

// Profile returns the name of the MIG profile of a candidate, or "".
func (p *CompiledPool) Profile(s *Scored) string {
	if s.profile < 0 || int(s.profile) >= len(p.profiles) {
		return ""
	}
	return p.profiles[s.profile].profile.Name
}

// CompilePool prepares a pool. It fails for a GPU that is not known.
func CompilePool(pool *Pool) (*CompiledPool, error) {
	gpu, err := sharing.LookupGPU(pool.GPU)
	if err != nil {
		return nil, fmt.Errorf("decision: pool %q: %w", pool.Name, err)
	}
	p := &CompiledPool{pool: pool, gpu: gpu, env: sharing.Environment{GPU: gpu, Driver: pool.Driver}}
	if pool.StaticPartitions != nil {
		p.env.StaticPartitions = sharing.AnswerOf(*pool.StaticPartitions)
	}
	p.memory, _ = gpu.Memory.Get()
	if p.price, p.priced, err = pool.gpuPrice(); err != nil {
		return nil, fmt.Errorf("decision: pool %q: %w", pool.Name, err)
	}
	for m := range traits {
		mech := sharing.Mechanism(m)
		p.allowed[m] = len(pool.Mechanisms) == 0 || mech == sharing.MechanismExclusive || slices.Contains(pool.Mechanisms, mech)
		p.available[m] = sharing.Available(mech, p.env)
		p.answers[m] = p.available[m].Answer
		sum := 0.0
		for a := range sharing.AxisCount {
			p.isolation[m][a] = sharing.IsolationIn(mech, sharing.Axis(a), p.env)
			p.levels[m][a] = p.isolation[m][a].Level
			sum += levelValue(p.levels[m][a])
		}
		p.isolationMu[m] = sum / float64(sharing.AxisCount)
	}
	if limit, _ := sharing.MPSClientLimit(gpu, pool.Driver); limit.Known {
		p.clients = limit.Value
	}
	p.compileProfiles()
	return p, nil
}

// levelValue places a level between 0 (none, or not known) and 1 (hardware).
func levelValue(l sharing.Level) float64 {
	if l <= sharing.LevelNone {
		return 0
	}
	return float64(l-sharing.LevelNone) / float64(sharing.LevelHardware-sharing.LevelNone)
}

func (p *CompiledPool) compileProfiles() {
	model, err := mig.Lookup(p.gpu.Name)
	if err != nil || p.gpu.MIG.Known && p.gpu.MIG.Value == sharing.AnswerNo {
		return
	}
	p.model = model
	whole, wholeKnown := p.gpu.SMs.Get()
	for _, prof := range model.Profiles {
		if strings.ContainsAny(prof.Name, "+-") || len(prof.Placements) == 0 || prof.PlacementUnits >= model.Units {
			continue
		}
		s := slice{profile: prof, capacity: prof.MaxInstances}
		s.memory, _ = prof.Memory.Get()
		share := float64(prof.ComputeSlices) / float64(max(1, model.ComputeSlices))
		if sms, known := prof.SMs.Get(); known && wholeKnown && whole > 0 {
			share = float64(sms) / float64(whole)
		}
		s.inverse = 1 / share
		s.slowdown = math.Pow(s.inverse, predict.SliceExponent)
		p.profiles = append(p.profiles, s)
	}
	slices.SortFunc(p.profiles, func(a, b slice) int {
		if a.capacity != b.capacity {
			return b.capacity - a.capacity
		}
		if a.profile.PlacementUnits != b.profile.PlacementUnits {
			return a.profile.PlacementUnits - b.profile.PlacementUnits
		}
		return strings.Compare(a.profile.Name, b.profile.Name)
	})
}

// gpuPrice is what one GPU costs for an hour, if the pool says.
func (p *Pool) gpuPrice() (cost.Money, bool, error) {
	switch {
	case p.PricePerGPUHour != nil:
		return *p.PricePerGPUHour, true, nil
	case p.NodePricePerHour != nil && p.GPUsPerNode > 0:
		m, err := p.NodePricePerHour.MulFrac(1, int64(p.GPUsPerNode))
		return m, err == nil, err
	}
	return cost.Money{}, false, nil
}

// CompiledWorkload is a workload prepared for [Evaluate]. It is read-only once
// made and safe for concurrent use.
type CompiledWorkload struct {
	workload *Workload
	need     MemoryNeed
	arch     *Archetype
	weights  [CriterionCount]float64
	busy     float64 // planned busy share of one replica, 0 when not known
	busyHow  busyBasis
	solo     [3]float64 // seconds, 0 = not given: TTFT, TPOT, E2E
	slo      [3]float64
	hasSLO   bool
	demands  bool // any isolation demand
	// evidenced says that a prediction will judge the latency objectives.
	evidenced bool
}

type busyBasis uint8

const (
	busyUnknown busyBasis = iota
	busyStated
	busyPrior
)

// Workload returns the workload as it was given.
func (w *CompiledWorkload) Workload() *Workload { return w.workload }

// CompileWorkload prepares a workload.
func CompileWorkload(w *Workload) *CompiledWorkload {
	c := &CompiledWorkload{workload: w, need: w.MemoryNeed(), arch: &archetypes[0]}
	if w.Kind < kindCount {
		c.arch = &archetypes[w.Kind]
	}
	c.demands = w.Isolation != Isolation{}
	weights := c.arch.Weights
	if !c.demands {
		weights.Isolation = min(weights.Isolation, 1)
	}
	if w.Weights != nil {
		weights = *w.Weights
	}
	c.weights = weights.normalised()
	for i, pair := range [3][2]*predict.Duration{{w.Solo.TTFTP99, w.SLO.TTFTP99}, {w.Solo.TPOTP99, w.SLO.TPOTP99}, {w.Solo.E2EP99, w.SLO.E2EP99}} {
		if pair[0] != nil {
			c.solo[i] = pair[0].Seconds()
		}
		if pair[1] != nil {
			c.slo[i], c.hasSLO = pair[1].Seconds(), true
		}
	}
	switch {
	case w.GPUBusy != nil:
		c.busy, c.busyHow = *w.GPUBusy, busyStated
		if c.hasSLO && w.PeakBusy != nil {
			c.busy = *w.PeakBusy
		}
	case c.arch.BusyPrior > 0:
		c.busy, c.busyHow = c.arch.BusyPrior, busyPrior
	}
	return c
}
