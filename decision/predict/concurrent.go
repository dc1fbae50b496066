package predict

import "time"

// runConcurrently simulates engines whose kernels run at the same time, as
// under MPS. While a neighbour's kernels hold SMs, one's own wait: with w_j the
// share of the GPU that tenant j's work takes when it runs at full speed, all
// that have work now run at speeds v with v_i = 1 - sum over the others of
// w_j v_j, and everybody's work takes a little longer as soon as there is
// anybody else.
func (p *Predictor) runConcurrently(engines []*engine, until time.Duration) {
	type job struct {
		at, left, share, speed float64 // ms; left is GPU time at full speed
		active                 bool
	}
	jobs := make([]job, len(engines))
	end := inMillis(until)
	now := 0.0
	fetch := func(i int) {
		w, _ := engines[i].Next(millis(now)) // an engine always has more to do
		jobs[i] = job{at: max(now, inMillis(w.At)), left: inMillis(w.GPU), share: p.share(engines[i].t, engines[i].act.kind)}
	}
	for i := range jobs {
		fetch(i)
	}
	for now < end {
		sum, active := 0.0, 0
		for i := range jobs {
			if j := &jobs[i]; j.at <= now+1e-9 {
				j.active = true
				sum += j.share / (1 - j.share)
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
			j.speed = 1 / (slowed(j.share, sum) + extra)
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
	u := t.decodeSM
	if ph == prefilling {
		u = t.prefillSM
	}
	return min(max(p.Parameters.SMBlocking.Value*u+p.Parameters.QueueShare.Value, 0.001), 0.95)
}

// slowed is how many times longer work with share w takes beside others, given
// the sum of w/(1-w) over all that are active, itself included: the solution of
// v_i = 1 - sum over the others of w_j v_j.
func slowed(w, sum float64) float64 { return (1 + sum) * (1 - w) }
