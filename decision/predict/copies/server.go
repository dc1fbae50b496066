// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Server has the figures of one isolated copy on its GPU under its load. Busy, SMActive, GPUTime with Rate, or HostTime
// with Latency is enough for a specific prediction; without them it uses typical published figures of other servers.
type Server struct {
	Rate    float64       // requests, items or tokens a second
	Latency time.Duration // of a request, or of a step of a decoder

	Busy      sharing.Optional[float64] // fraction of the time with a kernel running: NVML's utilization
	SMActive  sharing.Optional[float64] // fraction of SM time with work, DCGM's and GPM's SM activity
	Bandwidth sharing.Optional[float64] // fraction of the memory bandwidth in use by its kernels
	GPUTime   time.Duration             // of a request, at its batch
	HostTime  time.Duration             // of a request, while its GPU part waits

	// Decodes is set if a step of the server serves a batch of sequences, as in LLM engines and token-based speech
	// synthesizers: a smaller batch takes only slightly less time.
	Decodes bool
	// OwnProcesses is set if instances of one server are separate processes (Triton's Python backend).
	OwnProcesses bool
	// PythonThreads is set if instances are threads of one Python process: only one at a time works on the host.
	PythonThreads bool
	Clients       int           // requests in flight; 0 where unknown
	SliceLatency  time.Duration // Latency on one MIG instance of the requested profile
	HostThreads   float64       // cores that it keeps busy; 0 means 1 if Setting.Cores is set
	Memory        sharing.Bytes
}

// ServerOf returns the figures of a workload that was measured isolated; a server's are those of its decode step.
func ServerOf(p *profile.SoloProfile) Server {
	step := p.ITL.P50.Or(p.Step.P50.Or(0)) // ms
	return Server{Rate: p.TokensPerS.Or(p.StepsPerS.Or(0)), Latency: time.Duration(step * float64(time.Millisecond)),
		Busy: p.GPUBusyFraction, SMActive: p.SMFraction, Bandwidth: p.DRAMFraction, Memory: p.MemoryUsed.Or(0),
		Decodes: p.Kind == profile.KindServer, Clients: p.Load.Concurrency}
}

// Load is the load of the copies.
type Load uint8

// The loads.
const (
	LoadGrows   Load = iota // every copy has the load of the single one
	LoadDivided             // the load of the single one is divided over the copies
	LoadOpen                // every copy gets requests at the rate of the single one, regardless of latency
)

// Setting holds the conditions under which copies run.
type Setting struct {
	// Mechanism is time-slicing, mps, mig, hami, or in-server: instances in one process.
	Mechanism sharing.Mechanism
	Copies    int
	Load      Load
	SlicePart float64       // of the GPU's SMs in one MIG instance
	Cores     float64       // of the host, for all copies; 0 where unknown
	GPUMemory sharing.Bytes // 0 where unknown
}

// The limits of the copies' rate.
const (
	boundGPU       = "gpu"       // kernels follow one another
	boundBandwidth = "bandwidth" // of the GPU's memory
	boundHost      = "host"      // cores, or the copy's own part on the host
	boundMemory    = "memory"    // no room for the copies
	boundLoad      = "load"      // there is no more to do
)

const oneFigure = "one of GPU busy, SM activity, GPU time of a request with the rate, or host time with the latency " +
	"is enough"

// problems collects the faults of a server and a setting, at the names of their fields.
func (s *Server) problems(q *Setting, l *problem.List) {
	fraction := func(path string, f sharing.Optional[float64]) {
		v, is := f.Get()
		l.If(is && !(v > 0 && v <= 1), path, "give a fraction above 0 and at most 1; leave out what is not known",
			"%v is no fraction of the time that a server under load is busy", v)
	}
	fraction("gpu_busy", s.Busy)
	fraction("sm_active", s.SMActive)
	fraction("bandwidth", s.Bandwidth)
	l.If(s.Rate < 0 || s.Rate != s.Rate, "rate", "give requests a second", "%v is no rate", s.Rate)
	l.If(s.Latency < 0 || s.GPUTime < 0 || s.HostTime < 0 || s.SliceLatency < 0, "time", "give times above 0",
		"a time is negative")
	l.If(s.Rate > 0 && s.gpuShare() > 1.005, "gpu_time",
		"GPU time is that of one request: divide a batch's by its requests",
		"%.4g requests/s of %v are %.2f seconds of GPU time a second", s.Rate, s.GPUTime, s.gpuShare())
	l.If(s.Rate == 0 && s.gpuShare() > 1.005, "gpu_time", "GPU time is a part of the latency",
		"%v is more than the latency of %v", s.GPUTime, s.Latency)
	l.If(s.Latency > 0 && s.HostTime > s.Latency, "host_time", "host time is a part of the latency",
		"%v is more than the latency of %v", s.HostTime, s.Latency)
	busy, sm := s.Busy.Or(1), s.SMActive.Or(0)
	l.If(sm > busy*1.02, "sm_active", "SMs can't be active while no kernel runs: check which counter is which",
		"%v is more than the GPU busy of %v", sm, busy)
	l.If(q.Copies < 1 || q.Copies > 64, "copies", "give 1 to 64", "%d copies can't be predicted", q.Copies)
	switch q.Mechanism {
	case sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismHAMi, sharing.MechanismInServer:
	case sharing.MechanismMIG:
		l.If(s.SliceLatency == 0 && !(q.SlicePart > 0 && q.SlicePart <= 1), "mechanism",
			"name the instances' profile (mig:1g.10gb)",
			"the size of the MIG instances is not known")
		l.If(q.SlicePart > 0 && float64(q.Copies)*q.SlicePart > 1.01, "copies", "take a smaller profile or fewer copies",
			"%d instances of %.2f of the GPU don't fit on it", q.Copies, q.SlicePart)
	default:
		l.Addf("mechanism", "time-slicing, mps, mig, hami or in-server", "no figures of copies under %v", q.Mechanism)
	}
}

// figured reports whether any figure gives one copy's GPU busy.
func (s *Server) figured() bool {
	_, busy := s.Busy.Get()
	_, sm := s.SMActive.Get()
	_, bandwidth := s.Bandwidth.Get()
	return busy || sm || bandwidth || s.gpuShare() > 0 || s.HostTime > 0 && s.Latency > 0 ||
		s.SliceLatency > 0
}

// gpuShare is the part of the time that requests take the GPU, at their rate or one after another; 0 where unknown.
func (s *Server) gpuShare() float64 {
	if s.Rate == 0 && s.Latency > 0 {
		return s.GPUTime.Seconds() / s.Latency.Seconds()
	}
	return s.Rate * s.GPUTime.Seconds()
}

// narrow is the measurement of one copy, or of two, that the prediction misses most.
func (s *Server) narrow(q *Setting) string {
	_, busy := s.Busy.Get()
	_, sm := s.SMActive.Get()
	overlaps := q.Mechanism == sharing.MechanismMPS || q.Mechanism == sharing.MechanismInServer
	switch {
	case q.Mechanism == sharing.MechanismMIG && s.SliceLatency == 0:
		return "the latency of one copy on one MIG instance"
	case q.Load == LoadDivided && s.Decodes && s.Clients == 0:
		return "the requests in flight of one copy: they say what a smaller batch costs"
	case overlaps && !sm:
		return "SM activity of one copy under this load (DCGM_FI_PROF_SM_ACTIVE)"
	case !busy:
		return "GPU busy of one copy under this load (DCGM_FI_PROF_GR_ENGINE_ACTIVE, or nvidia-smi's utilization)"
	}
	return "two copies for a minute: cotenant measure -copies 1,2"
}
