// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"cmp"
	"math"

	"github.com/cotenant/cotenant/sharing"
)

// law has the constants of the model. Those without a source of their own are fitted on testdata.
type law struct {
	// smExponent: GPU busy = SM activity to this power (0.06 where nvidia-smi has 0.31; 0.2 where copies gain as at 0.5).
	smExponent float64
	// widths: the part of the GPU that a running kernel keeps from kernels of others under MPS: of decoders, which read
	// their weights at the bandwidth of the memory, of other models, and of either between streams of one process.
	widthDecoding, width, widthStreams float64
	// contention is the SM time of a kernel that shares the GPU, with its L2 cache and power, over the isolated one.
	contention float64
	// sliceKeeps is the part of the time that time-slicing leaves to work: a slice of 2.09 ms and a switch of 0.153 ms,
	// measured on H100 and H200. hamiKeeps is the part of that left by HAMi's limiter.
	sliceKeeps, hamiKeeps float64
	// mpsStep is the part that MPS adds to a decode step of 1 ms which keeps the GPU busy; of longer ones, which have
	// more layers but also longer kernels, it falls with the square root. Measured on an H200 with models of 1B to 8B.
	mpsStep float64
	// fixedClients: a step of a decoder takes as long as one that reads the weights for this many sequences in addition.
	fixedClients float64
	// busyDecoding and busy replace an unknown GPU busy: with them two copies get the published middle.
	busyDecoding, busy float64
	// busyOpen replaces that of a server with a load below its capacity.
	busyOpen float64
}

// published has the constants that TestConstants finds again in testdata.
var published = law{smExponent: 0.384, widthDecoding: 0.798, width: 0.611, widthStreams: 0.939, contention: 1.25,
	sliceKeeps: 0.93, hamiKeeps: 0.865, mpsStep: 0.9, fixedClients: 17.33, busyDecoding: 0.95, busy: 0.87, busyOpen: 0.6}

// demand is the GPU demand of one copy.
type demand struct {
	busy, width float64
	measured    bool // busy follows from a figure of this server
}

// demand derives busy and width from the figures at hand, the best first.
func (l *law) demand(s *Server) demand {
	d := demand{width: l.width, busy: l.busy}
	if s.Decodes {
		d.width, d.busy = l.widthDecoding, l.busyDecoding
	}
	sm, hasSM := s.SMActive.Get()
	busy, hasBusy := s.Busy.Get()
	share := s.gpuShare()
	switch {
	case hasBusy:
	case hasSM:
		busy = math.Pow(sm, l.smExponent)
	case share > 0:
		busy = share
	case s.HostTime > 0 && s.Latency > 0:
		busy = 1 - s.HostTime.Seconds()/s.Latency.Seconds()
	default:
		if bw, is := s.Bandwidth.Get(); is {
			d.width, d.busy = bw, max(bw, l.busyDecoding)
		}
		return d
	}
	d.busy, d.measured = min(1, max(0.01, busy)), true
	if hasSM {
		d.width = min(1, l.contention*sm/d.busy)
	}
	if bw, is := s.Bandwidth.Get(); is {
		d.width = max(d.width, bw)
	}
	return d
}

// divided returns one copy's rate, and its busy, when it has a part of the load: a decoder's step keeps
// the time that does not depend on its batch.
func (l *law) divided(s *Server, d demand, copies int) (float64, demand) {
	n := float64(copies)
	if !s.Decodes {
		return 1, d
	}
	fixed := 0.5
	if s.Clients > 0 {
		fixed = l.fixedClients / (l.fixedClients + float64(s.Clients))
	}
	if bw, is := s.Bandwidth.Get(); is {
		fixed = 1 - (1-fixed)*(1-bw)
	}
	gpu := d.busy * (fixed + (1-fixed)/n)
	step := 1 - d.busy + gpu
	d.busy = gpu / step
	return 1 / n / step, d
}

// queued is the rate of copies that alternate between a part of their own and one on a GPU that is shared between them
// and keeps a part of its time for work, over that of one: mean value analysis of a closed network.
func queued(copies int, busy, keeps float64) float64 {
	waiting, rate := 0.0, 1.0
	for n := 1; n <= copies; n++ {
		stay := busy / keeps * (1 + waiting)
		rate = float64(n) / (1 - busy + stay)
		waiting = rate * stay
	}
	return rate
}

// underMPS is the factor by which MPS makes a decoder's step longer, without neighbours too: a time for its many short
// kernels, as far as the step waits for the GPU and not for the host. Longer steps are not affected.
func (l *law) underMPS(s *Server, d demand) float64 {
	if !s.Decodes || s.Latency == 0 {
		return 1
	}
	return 1 + l.mpsStep*d.busy*d.busy*d.busy/math.Sqrt(1e3*s.Latency.Seconds())
}

// ratio is the copies' rate over that of one, and the resource that bounds it.
func (l *law) ratio(s *Server, q *Setting) (float64, string) {
	d, rest, copies := l.demand(s), 1.0, q.Copies
	if isolated(q) {
		return 1, boundGPU
	}
	if q.Load == LoadDivided {
		rest, d = l.divided(s, d, copies)
		if s.Clients > 0 {
			copies = min(copies, s.Clients)
		}
	}
	rate, width := l.together(s, q, d, copies)
	bound := l.bound(s, d, rate*d.busy*width)
	if threads := cmp.Or(s.HostThreads, 1); q.Cores > 0 && rate > max(1, q.Cores/threads) {
		rate, bound = max(1, q.Cores/threads), boundHost
	}
	return rate * rest, bound
}

// open is the rate of copies with requests at the rate of the one, busy for a part of the time, over that rate, and the
// factor on the latency, 0 where requests queue without end: the GPU's part of a request waits while the others',
// in proportion to their load, are served.
func (l *law) open(s *Server, q *Setting) (rate, latency float64, bound string) {
	d := l.demand(s)
	if !d.measured {
		d.busy = l.busyOpen
	}
	full := d
	full.busy = 1
	capacity, width := l.together(s, q, full, q.Copies)
	n := float64(q.Copies)
	if threads := cmp.Or(s.HostThreads, 1); q.Cores > 0 {
		capacity = min(capacity, max(1, q.Cores/threads)*d.busy)
	}
	if capacity /= d.busy; capacity < n {
		return capacity, 0, l.bound(s, d, 1)
	}
	return n, 1 - d.busy + d.busy/(1-(n-1)*min(d.busy*width, 0.99/n)), boundLoad
}

// isolated reports whether a copy has the whole GPU, as when it was measured.
func isolated(q *Setting) bool {
	return q.Copies == 1 && q.Mechanism != sharing.MechanismMIG && q.Mechanism != sharing.MechanismMPS
}

// bound returns the limit of a rate that keeps a part of the GPU in use.
func (l *law) bound(s *Server, d demand, used float64) string {
	switch {
	case used < 0.7:
		return boundHost
	case s.Bandwidth.Or(0) > 0.6 || s.Decodes && d.width >= l.widthDecoding:
		return boundBandwidth
	}
	return boundGPU
}

// together is the rate of copies by a mechanism, each as busy as d, and the part of the GPU that a kernel takes by it.
func (l *law) together(s *Server, q *Setting, d demand, copies int) (rate, width float64) {
	streams := d
	streams.width = max(d.width, l.widthStreams)
	switch m := q.Mechanism; {
	case m == sharing.MechanismMPS:
		return queued(copies, d.width*d.busy, 1) / l.underMPS(s, d), d.width
	case m == sharing.MechanismInServer && !s.OwnProcesses:
		rate = queued(copies, streams.width*d.busy, 1)
		if s.PythonThreads && d.busy < 1 {
			rate = min(rate, 1/(1-d.busy))
		}
		return max(1, rate), streams.width
	case m == sharing.MechanismHAMi:
		return queued(copies, d.busy, l.sliceKeeps*l.hamiKeeps), 1
	case m == sharing.MechanismMIG && s.SliceLatency > 0 && s.Latency > 0:
		return float64(copies) * s.Latency.Seconds() / s.SliceLatency.Seconds(), 1
	case m == sharing.MechanismMIG:
		return float64(copies) / (1 - d.busy + d.busy*max(1, d.width/q.SlicePart)), 1
	}
	return queued(copies, d.busy, l.sliceKeeps), 1
}
