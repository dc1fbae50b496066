package predict

import (
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict/internal/batching"
	"github.com/cotenant/cotenant/decision/predict/profile"
)

// runConcurrently simulates engines whose kernels run at the same time, as under MPS, and take turns where they
// meet: with h_j by how much tenant j's work holds up others and w_i how much that slows tenant i's, all that have
// work now run at speeds of 1/(1 + w_i x the sum of the others' h_j), and everybody's work takes a little longer as
// soon as there is anybody else.
func (p *Predictor) runConcurrently(engines []*engine, until time.Duration) {
	type job struct {
		at, left, waits, holds, speed float64 // ms; left is GPU time at full speed
		active                        bool
	}
	mixed := slices.ContainsFunc(engines, func(e *engine) bool { return e.t.kind != profile.KindServer })
	sms, speeds := make([]float64, len(engines)), make([]float64, len(engines))
	jobs := make([]job, len(engines))
	end := batching.InMillis(until)
	now := 0.0
	fetch := func(i int) {
		w, _ := engines[i].Next(batching.Millis(now)) // an engine always has more to do
		t := engines[i].t
		j := job{at: max(now, batching.InMillis(w.At)), left: batching.InMillis(w.GPU), waits: t.decodeWaits,
			holds: t.decodeHolds}
		if engines[i].Act.Kind == batching.Prefilling {
			j.waits, j.holds = t.prefillWaits, t.prefillHolds
		}
		jobs[i] = j
	}
	for i := range jobs {
		fetch(i)
	}
	for now < end {
		held, active := 0.0, 0
		for i := range jobs {
			if j := &jobs[i]; j.at <= now+1e-9 {
				j.active = true
				held += j.holds
				active++
			}
		}
		extra := 0.0
		if active > 1 {
			extra = p.Parameters.Arbitration.Value
		}
		if mixed {
			running, first := 0, -1
			for i := range jobs {
				if j := &jobs[i]; j.active {
					sms[running] = engines[i].t.sms
					running++
					if sms[running-1] >= fillsGPU && (first < 0 || j.at < jobs[first].at) {
						first = i // of those that fill the GPU, the one launched first runs
					}
				}
			}
			running = 0
			for i := range jobs {
				if jobs[i].active {
					if sms[running] >= fillsGPU && i != first {
						sms[running] = waits
					}
					running++
				}
			}
			shareSMs(sms[:running], speeds[:running])
		}
		event, done, k := end, -1, 0
		for i := range jobs {
			j := &jobs[i]
			if !j.active {
				if j.at < event {
					event, done = j.at, -1
				}
				continue
			}
			j.speed = 1 / (1 + j.waits*(held-j.holds) + extra)
			if mixed {
				j.speed = speeds[k] / (1 + extra)
				k++
			}
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
