package predict

import (
	"math"
	"time"
)

// runConcurrently simulates engines whose kernels run at the same time, as
// under MPS. While a neighbour's kernels hold SMs, one's own wait: with w_j the
// share of the GPU that tenant j's work takes when it runs at full speed and s_i
// the robustness of tenant i's (see tenantModel.robust), all that have work now
// run at speeds v with v_i = 1 - sum over the others of w_j v_j / s_i, and
// everybody's work takes a little longer as soon as there is anybody else.
func (p *Predictor) runConcurrently(engines []*engine, until time.Duration) {
	type job struct {
		at, left, share, robust, speed float64 // ms; left is GPU time at full speed
		active                         bool
	}
	jobs := make([]job, len(engines))
	end := inMillis(until)
	now := 0.0
	fetch := func(i int) {
		w, _ := engines[i].Next(millis(now)) // an engine always has more to do
		t := engines[i].t
		jobs[i] = job{at: max(now, inMillis(w.At)), left: inMillis(w.GPU), share: p.share(t, engines[i].act.kind), robust: t.robust}
	}
	for i := range jobs {
		fetch(i)
	}
	for now < end {
		var all contention
		active := 0
		for i := range jobs {
			if j := &jobs[i]; j.at <= now+1e-9 {
				j.active = true
				all.add(j.share, j.robust)
				active++
			}
		}
		extra := 0.0
		if active > 1 {
			extra = p.Parameters.Arbitration.Value
		}
		event, done := end, -1
		for i := range jobs {
			j := &jobs[i]
			if !j.active {
				if j.at < event {
					event, done = j.at, -1
				}
				continue
			}
			j.speed = 1 / (all.slowed(j.share, j.robust) + extra)
			if t := now + j.left/j.speed; t < event {
				event, done = t, i
			}
		}
		for i := range jobs {
			if j := &jobs[i]; j.active {
				j.left -= (event - now) * j.speed
			}
		}
		now = event
		if done >= 0 {
			fetch(done)
		}
	}
}

// share is the share of the GPU that a tenant's work blocks for others.
func (p *Predictor) share(t *tenantModel, ph phase) float64 {
	u := t.held
	if ph == prefilling {
		u = t.prefillSM
	}
	return min(max(p.Parameters.SMBlocking.Value*u+p.Parameters.QueueShare.Value, 0.001), maxShare)
}

// maxShare bounds the share of the GPU that one tenant takes, and leastRobust
// its robustness from below: beyond, others would not run at all.
const maxShare, leastRobust = 0.9, 0.92

// typicalShare is the share of the GPU for which robustness is 1, that of the middle one
// among the servers that were measured; typicalStep is the GPU time of its decode step,
// in ms, for a Cluster's engines, of which only steps are known.
const typicalShare, typicalStep = 0.3, 4.0

// robustness is by how much less work is held up by others that is larger than usual by
// a factor: in the share of the GPU that it takes. A small kernel waits for what is left
// of a large one's blocks, a large one hardly notices a small one.
func (p *Predictor) robustness(larger float64) float64 {
	return max(math.Pow(larger, p.Parameters.SizeExponent.Value), leastRobust)
}

// cappedRobustness is the robustness of work with an active thread percentage. What
// it waits for is the memory: the less of the bandwidth it takes, the less others
// hold it up. The exponent was chosen with heldCapped.
func cappedRobustness(b *SoloProfile) float64 {
	const typicalBandwidth, exponent = 0.25, 0.15
	taken, ok := b.bandwidth()
	if !ok {
		return 1
	}
	return max(math.Pow(typicalBandwidth/taken, exponent), leastRobust)
}

// contention sums up those who have work, for the solution of
// v_i = 1 - sum over the others of w_j v_j / s_i.
type contention struct{ shares, robust float64 }

func (c *contention) add(share, robust float64) {
	c.shares += share / (robust - share)
	c.robust += robust * share / (robust - share)
}

// slowed is how many times longer work takes, itself being among those added.
func (c *contention) slowed(share, robust float64) float64 {
	return (robust - share) / max(robust-c.robust/(1+c.shares), 0.05*(robust-share))
}
