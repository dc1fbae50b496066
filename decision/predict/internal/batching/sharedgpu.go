package batching

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// GPU is a GPU with the replicas on it. Times are in ms.
type GPU struct {
	Constants *costs.Parameters
	Mechanism sharing.Mechanism
	Beside    func(*GPU) // sets how long units take beside each other; nil = by the mechanism and p
	Replicas  []*Replica
	Memory    float64 // bytes; 0 = not stated
	wanted    []*Replica
	paced     bool    // the units are those of the activities that there are
	Next      float64 // when the next activity ends
	Heap      int     // place among the GPUs
	changed   float64 // when the active replicas last changed
	Active    float64 // ms in which any replica worked
}

// Retime works out how long the units of all activities, which are up to now, take beside each other from now on.
func (g *GPU) Retime() {
	if len(g.Replicas) > 1 && !g.paced {
		busy := 0
		for _, r := range g.Replicas {
			if r.Act.Kind.Works() {
				busy++
			}
		}
		switch {
		case busy < 2:
			for _, r := range g.Replicas {
				r.Act.Unit = r.Act.Alone()
			}
		case g.Beside != nil:
			g.Beside(g)
		case g.Mechanism == sharing.MechanismMPS:
			g.concurrently()
		default:
			g.inTurns()
		}
		g.paced = g.Beside != nil || g.Mechanism != sharing.MechanismMPS // concurrently goes on from the last units
	}
	g.Next = math.Inf(1)
	for _, r := range g.Replicas {
		if due := r.Act.due(); due < g.Next {
			g.Next = due
		}
	}
}

// Works says that the GPU is used.
func (k phase) Works() bool { return k == Prefilling || k == Decoding }

// inTurns sets the units under time-slicing, as Predictor.besideTurns does for the mean: each of one's turns is
// followed by those of the others that have work, a whole slice of one whose kernels queue up, and what has piled
// up of one that leaves gaps.
func (g *GPU) inTurns() {
	quantum, change := g.Constants.Quantum.Value, g.Constants.Switch.Value
	for _, r := range g.Replicas {
		a := &r.Act
		if a.Unit = a.Alone(); !a.Kind.Works() {
			continue
		}
		work, turns := g.turns(r)
		slice := work / turns
		wait := change
		for _, o := range g.Replicas {
			b := &o.Act
			if o == r || !b.Kind.Works() {
				continue
			}
			w, n := g.turns(o)
			if b.Kind == Prefilling {
				wait += min(quantum, b.GPU/b.Alone()*(slice+2*change)) + change
			} else {
				wait += w/n + change
			}
		}
		alone := a.Unit
		if a.Kind == Prefilling {
			alone += wait
		}
		a.Unit = max(alone, work+turns*wait)
	}
}

// turns is a unit's time on the GPU beside others and the turns that it takes.
func (g *GPU) turns(r *Replica) (work, turns float64) {
	a := &r.Act
	if work = a.GPU; a.launchBound() {
		work *= g.Constants.PrefillCatchUp.Value
	}
	tolerance := timeslice.BoundaryTolerance
	counted := r.Rates.turns
	if a.Kind == Decoding && len(counted) > 0 {
		tolerance = costs.CountedTolerance
	}
	turns = g.Constants.TurnsFor(work, tolerance)
	if a.Kind == Decoding {
		b := float64(costs.Padded(r.Rates.captured, a.decodes))
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
	return work + (turns-1)*g.Constants.SliceLoss.Value, turns
}

// launchBound says that a prefill leaves the GPU gaps.
func (a *Activity) launchBound() bool { return a.Kind == Prefilling && a.Host > 0.1*a.GPU }

// What the shares of the SMs, which is all that is known of a Cluster's engines, say of the time in which others'
// kernels hold up one's own under MPS: chosen on the H200 series of decision/predict/testdata.
var (
	SMBlocking, SMQueueShare      = costs.Value("sm_blocking"), costs.Value("sm_queue_share")
	SMArbitration, PrefillOverlap = costs.Value("sm_arbitration"), costs.Value("prefill_overlap")
	SizeExponent, typicalStep     = costs.Value("size_exponent"), costs.Value("typical_step")
	leastRobustness               = costs.Value("least_robustness")
)

// concurrently sets the units under MPS: while others' kernels hold the SMs, one's own wait.
func (g *GPU) concurrently() {
	for range 4 {
		for _, r := range g.Replicas {
			a := &r.Act
			if !a.Kind.Works() {
				a.Unit = a.Alone()
				continue
			}
			held, nobody := 0.0, 1.0
			for _, o := range g.Replicas {
				b := &o.Act
				if o == r || !b.Kind.Works() {
					continue
				}
				on := b.GPU / max(b.Unit, b.Alone())
				if b.launchBound() {
					on *= PrefillOverlap
				}
				held += on * min(max(SMBlocking*b.Share+SMQueueShare, 0.001), 0.95)
				nobody *= 1 - min(1, on)
			}
			if a.Kind == Decoding {
				held /= max(math.Pow(a.GPU/typicalStep, SizeExponent), leastRobustness)
			}
			slow := 1/(1-min(held, 0.95)) + SMArbitration*(1-nobody)
			if a.Unit = max(a.Alone(), a.Host+a.GPU*slow); a.launchBound() {
				a.Unit = max(a.Alone(), a.GPU*slow) // it goes on launching while its kernels wait
			}
		}
	}
}

// Fire ends what is due at the GPU's next event.
func (g *GPU) Fire() {
	now := g.Next
	g.Account(now)
	for _, r := range g.Replicas {
		r.Act.advance(now)
	}
	for _, r := range g.Replicas {
		if r.Act.Kind != idle && r.Act.due() <= now+1e-9 {
			r.Act.done = r.Act.units
			g.paced = false
			r.Finish(now)
		}
	}
	g.Retime()
}

// Arrive hands a request to a replica of the GPU.
func (g *GPU) Arrive(r *Replica, f *Flight, now float64) {
	g.Account(now)
	units := r.Act.units
	if r.arrive(f, now); g.paced && r.Act.units == units {
		return // it waits
	}
	if !g.paced {
		for _, o := range g.Replicas {
			o.Act.advance(now)
		}
	}
	g.Retime()
}

// Account adds up the time in which the GPU had work.
func (g *GPU) Account(now float64) {
	for _, r := range g.Replicas {
		if r.Act.Kind.Works() {
			g.Active += now - g.changed
			break
		}
	}
	g.changed = now
}
