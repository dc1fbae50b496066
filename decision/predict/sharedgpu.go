package predict

import (
	"math"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// gpuState is a GPU with the replicas on it. Times are in ms.
type gpuState struct {
	p         *Parameters
	mechanism sharing.Mechanism
	beside    func(*gpuState) // sets how long units take beside each other; nil = by the mechanism and p
	replicas  []*replica
	memory    float64 // bytes; 0 = not stated
	wanted    []*replica
	paced     bool    // the units are those of the activities that there are
	next      float64 // when the next activity ends
	heap      int     // place among the GPUs
	changed   float64 // when the active replicas last changed
	active    float64 // ms in which any replica worked
}

// retime works out how long the units of all activities, which are up to now, take beside each other from now on.
func (g *gpuState) retime() {
	if len(g.replicas) > 1 && !g.paced {
		busy := 0
		for _, r := range g.replicas {
			if r.act.kind.works() {
				busy++
			}
		}
		switch {
		case busy < 2:
			for _, r := range g.replicas {
				r.act.unit = r.act.alone()
			}
		case g.beside != nil:
			g.beside(g)
		case g.mechanism == sharing.MechanismMPS:
			g.concurrently()
		default:
			g.inTurns()
		}
		g.paced = g.beside != nil || g.mechanism != sharing.MechanismMPS // concurrently goes on from the last units
	}
	g.next = math.Inf(1)
	for _, r := range g.replicas {
		if due := r.act.due(); due < g.next {
			g.next = due
		}
	}
}

// works says that the GPU is used.
func (k phase) works() bool { return k == prefilling || k == decoding }

// inTurns sets the units under time-slicing, as Predictor.besideTurns does for the mean: each of one's turns is
// followed by those of the others that have work, a whole slice of one whose kernels queue up, and what has piled
// up of one that leaves gaps.
func (g *gpuState) inTurns() {
	quantum, change := g.p.Quantum.Value, g.p.Switch.Value
	for _, r := range g.replicas {
		a := &r.act
		if a.unit = a.alone(); !a.kind.works() {
			continue
		}
		work, turns := g.turns(r)
		slice := work / turns
		wait := change
		for _, o := range g.replicas {
			b := &o.act
			if o == r || !b.kind.works() {
				continue
			}
			w, n := g.turns(o)
			if b.kind == prefilling {
				wait += min(quantum, b.gpu/b.alone()*(slice+2*change)) + change
			} else {
				wait += w/n + change
			}
		}
		alone := a.unit
		if a.kind == prefilling {
			alone += wait
		}
		a.unit = max(alone, work+turns*wait)
	}
}

// turns is a unit's time on the GPU beside others and the turns that it takes.
func (g *gpuState) turns(r *replica) (work, turns float64) {
	a := &r.act
	if work = a.gpu; a.launchBound() {
		work *= g.p.PrefillCatchUp.Value
	}
	tolerance := timeslice.BoundaryTolerance
	counted := r.c.turns
	if a.kind == decoding && len(counted) > 0 {
		tolerance = countedTolerance
	}
	turns = g.p.turnsFor(work, tolerance)
	if a.kind == decoding {
		b := float64(padded(r.c.captured, a.decodes))
		for _, c := range counted {
			if c.Batch < b {
				turns = max(turns, c.Turns)
			} else if c.Batch == b {
				turns = c.Turns
			} else {
				turns = min(turns, c.Turns)
				break
			}
		}
	}
	return work + (turns-1)*g.p.SliceLoss.Value, turns
}

// launchBound says that a prefill leaves the GPU gaps.
func (a *activity) launchBound() bool { return a.kind == prefilling && a.host > 0.1*a.gpu }

// What the shares of the SMs, which is all that is known of a Cluster's engines, say of the time in which others'
// kernels hold up one's own under MPS: chosen on the H200 series of examples/predict/testdata.
const (
	smBlocking      = 1.07  // of a neighbour's SM time
	queueShare      = 0.015 // of the GPU, for each that is active
	smArbitration   = 0.07  // by which work takes longer as soon as anybody else is active
	prefillOverlap  = 0.65  // of a prefill's time on the GPU, where launches bind it
	sizeExponent    = 0.04  // of how much less work is held up that takes more of the GPU
	typicalStep     = 4.0   // ms on the GPU, for which that is 1
	leastRobustness = 0.92
)

// concurrently sets the units under MPS: while others' kernels hold the SMs, one's own wait.
func (g *gpuState) concurrently() {
	for range 4 {
		for _, r := range g.replicas {
			a := &r.act
			if !a.kind.works() {
				a.unit = a.alone()
				continue
			}
			held, nobody := 0.0, 1.0
			for _, o := range g.replicas {
				b := &o.act
				if o == r || !b.kind.works() {
					continue
				}
				on := b.gpu / max(b.unit, b.alone())
				if b.launchBound() {
					on *= prefillOverlap
				}
				held += on * min(max(smBlocking*b.share+queueShare, 0.001), 0.95)
				nobody *= 1 - min(1, on)
			}
			if a.kind == decoding {
				held /= max(math.Pow(a.gpu/typicalStep, sizeExponent), leastRobustness)
			}
			slow := 1/(1-min(held, 0.95)) + smArbitration*(1-nobody)
			if a.unit = max(a.alone(), a.host+a.gpu*slow); a.launchBound() {
				a.unit = max(a.alone(), a.gpu*slow) // it goes on launching while its kernels wait
			}
		}
	}
}

// fire ends what is due at the GPU's next event.
func (g *gpuState) fire() {
	now := g.next
	g.account(now)
	for _, r := range g.replicas {
		r.act.advance(now)
	}
	for _, r := range g.replicas {
		if r.act.kind != idle && r.act.due() <= now+1e-9 {
			r.act.done = r.act.units
			g.paced = false
			r.finish(now)
		}
	}
	g.retime()
}

// arrive hands a request to a replica of the GPU.
func (g *gpuState) arrive(r *replica, f *flight, now float64) {
	g.account(now)
	units := r.act.units
	if r.arrive(f, now); g.paced && r.act.units == units {
		return // it waits
	}
	if !g.paced {
		for _, o := range g.replicas {
			o.act.advance(now)
		}
	}
	g.retime()
}

// account adds up the time in which the GPU had work.
func (g *gpuState) account(now float64) {
	for _, r := range g.replicas {
		if r.act.kind.works() {
			g.active += now - g.changed
			break
		}
	}
	g.changed = now
}
