// SPDX-License-Identifier: Apache-2.0

// Package contention models clients of MPS: their kernels run at the same time and slow one another down.
//
// A [Law] holds the constants, [Law.Demand] converts a client's use of bandwidth and SMs into its effect on others, and
// [GPU] simulates clients event by event, as timeslice.GPU does for time-slicing. All results are simulated.
// Experimental: its API may change.
package contention

import (
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/timeslice"
)

// Law holds the constants of contention.
type Law struct {
	// KernelBandwidth is the share of the memory bandwidth that a kernel uses while it reads, and MostReading the largest
	// share of the time in which kernels read.
	KernelBandwidth, MostReading float64
	// MemoryBlocking is the share of a neighbour's reading time for which a client's kernels wait, and QueueShare the
	// share of the neighbour's other time.
	MemoryBlocking, QueueShare float64
	// For a client with an active thread percentage CappedBlocking is the factor on the waits that its reading causes,
	// CappedAlone the part of them that remains as its share of the SMs goes to 0, and CappedReading the part of its
	// reading time without waits.
	CappedBlocking, CappedAlone, CappedReading float64
	// Arbitration is the fraction by which all work grows as soon as another client is active.
	Arbitration float64
	// FillsGPU is the share of the SMs from which kernels count as filling the GPU, and SlowestSpeed the lowest speed of
	// work next to such kernels.
	FillsGPU, SlowestSpeed float64
}

// Demand holds the effect of a client's work on other clients, and of theirs on it.
type Demand struct {
	// Holds is the relative delay that it causes to others, and Waits its own delay by a neighbour with Holds of 1.
	Holds, Waits float64
	// SMs is the share of the time in which its kernels leave no SMs to others' kernels, and Filled the share in which
	// they leave none to kernels that fill the GPU; see [GPU.BySMs].
	SMs, Filled float64
}

// Demand returns the demand of kernels that take a share of the memory bandwidth while they run. A kernel reads at
// KernelBandwidth, and spends a fixed time without reading, so kernels that use the share u of the bandwidth read for
// u/KernelBandwidth of their time. Kernels of clients take turns: each waits for a part of a neighbour's. The delay of
// one client by another is thus the product of its Waits and the other's Holds, and the delays by several neighbours
// add up.
//
// A client with an active thread percentage, a share of the SMs below 1, has part of the SMs to itself: its kernels
// wait less for others', and the smaller its share, the less others wait for its kernels.
func (l *Law) Demand(bandwidthFraction, smShare float64) Demand {
	reads, blocking := min(bandwidthFraction/l.KernelBandwidth, l.MostReading), l.MemoryBlocking
	d := Demand{Waits: 1 - reads}
	if smShare < 1 {
		blocking *= l.CappedBlocking * (l.CappedAlone + (1-l.CappedAlone)*smShare)
		d.Waits = 1 - l.CappedReading*reads
	}
	d.Holds = l.QueueShare + blocking*reads/(1-reads)
	return d
}

// Client supplies the work of one client of MPS. Demand is that of the work that Next returned last.
type Client interface {
	timeslice.Submitter
	Demand() Demand
}

// GPU simulates clients under discriminatory processor sharing (L. Kleinrock, Time-shared systems, Journal of the ACM
// 14(2), 1967): with h_j = Holds of client j and w_i = Waits of client i, all clients with work run at speeds of 1/(1 +
// w_i x the sum of the others' h_j), and all work takes a little longer (Law.Arbitration) as soon as another client is
// active. The zero value with a Law is a GPU without clients. It is not safe for concurrent use.
type GPU struct {
	Law
	// BySMs limits speeds also by the SMs that kernels hold, where that speed is lower than the one by Holds and Waits or
	// a client has no Waits: set it for mixes with clients other than model servers.
	BySMs bool

	jobs      []*job
	now, busy float64 // ms
}

// job is a client's work. Times are in ms.
type job struct {
	client Client
	Demand
	at, left, speed float64 // left is GPU time at full speed
	active, idle    bool
	waits           bool    // for the kernels of another that fill the GPU
	taken           Demand  // of room, by its kernels and those that wait for them
	fills           float64 // the part of its own that do
}

// Attach adds a client. The next Advance takes its first work; the function returned removes the client.
func (g *GPU) Attach(c Client) (detach func()) {
	j := &job{client: c, idle: true}
	g.jobs = append(g.jobs, j)
	return func() { g.jobs = slices.DeleteFunc(g.jobs, func(o *job) bool { return o == j }) }
}

// Advance moves the clock to a time since the start, asks clients without work again, and returns the time of the next
// event; ok is false if there will be none.
func (g *GPU) Advance(to time.Duration) (next time.Duration, ok bool) {
	for end := inMillis(to); g.now < end; {
		event, done := g.next(end)
		for _, j := range g.jobs {
			if j.active {
				j.left -= (event - g.now) * j.speed
			}
		}
		if slices.ContainsFunc(g.jobs, func(j *job) bool { return j.active }) {
			g.busy += event - g.now
		}
		if g.now = event; done != nil {
			g.fetch(done)
		}
	}
	for _, j := range g.jobs {
		if j.idle {
			g.fetch(j)
		}
	}
	event, _ := g.next(math.Inf(1))
	if math.IsInf(event, 1) {
		return 0, false
	}
	return max(time.Duration(math.Ceil(event*float64(time.Millisecond))), to+1), true
}

// Busy returns the total time so far with work of any client running.
func (g *GPU) Busy() time.Duration { return millis(g.busy) }

func (g *GPU) fetch(j *job) {
	w, ok := j.client.Next(millis(g.now))
	j.active, j.idle = false, !ok
	if ok {
		j.Demand, j.at, j.left = j.client.Demand(), max(g.now, inMillis(w.At)), inMillis(w.GPU)
	}
}

// next sets the speeds of all work and returns the next event, at end at the latest, with the job that is done then.
func (g *GPU) next(end float64) (event float64, done *job) {
	held, active := 0.0, 0
	for _, j := range g.jobs {
		if !j.idle && j.at <= g.now+1e-9 {
			j.active = true
			held += j.Holds
			active++
		}
	}
	extra := 0.0
	if active > 1 {
		extra = g.Arbitration // kernels that fill the GPU lose nothing of it: their blocks wait for room anyway
	}
	if g.BySMs {
		g.shareSMs(extra)
	}
	event = end
	for _, j := range g.jobs {
		switch {
		case j.active:
			if law := 1 / (1 + j.Waits*(held-j.Holds) + extra); !g.BySMs || j.Waits > 0 && law < j.speed {
				j.speed = law
			}
			if t := g.now + j.left/j.speed; t < event {
				event, done = t, j
			}
		case !j.idle && j.at < event:
			event, done = j.at, nil
		}
	}
	return event, done
}

// shareSMs sets the speeds of works with kernels on the GPU at the same time: each goes on while the others' leave
// room, a_j of the time that they run. So the speeds are the fixed point of s_i = 1 - sum of a_j s_j. Blocks of a
// kernel that was launched earlier are placed first, and those of others wait for them (Gilman and Walls, Demystifying
// the Placement Policies of the NVIDIA GPU Thread Block Scheduler for Concurrent Kernels, 2021). So of kernels that
// fill the GPU one runs, and blocks of the others take all room that it leaves: together they hold up as much as the
// one of them that holds up most. The part of a client's that do grows from none to all around FillsGPU.
func (g *GPU) shareSMs(extra float64) {
	var first *job // of those that fill the GPU, the one launched first runs
	for _, j := range g.jobs {
		j.speed, j.taken, j.waits = 1, j.Demand, j.SMs >= g.FillsGPU
		j.fills = min(max(0.5+2*(j.SMs-g.FillsGPU)/max(1-g.FillsGPU, 1e-9), 0), 1)
		if j.active && j.waits && (first == nil || j.at < first.at) {
			first = j
		}
	}
	if first != nil {
		for _, j := range g.jobs {
			if j.active && j.waits {
				first.taken.SMs, first.taken.Filled = max(first.taken.SMs, j.SMs), max(first.taken.Filled, j.Filled)
			}
		}
		first.waits = false
	}
	for range 24 {
		for _, j := range g.jobs {
			if !j.active {
				continue
			}
			held := 0.0
			for _, o := range g.jobs {
				if o != j && !o.waits && o.active {
					held += (o.taken.SMs + j.fills*(o.taken.Filled-o.taken.SMs)) * o.speed
				}
			}
			if j.waits {
				held = 1
			}
			j.speed += (max(1-held, g.SlowestSpeed) - j.speed) / 2
		}
	}
	for _, j := range g.jobs {
		j.speed /= 1 + extra*(1-j.Filled)
	}
}

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func inMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
