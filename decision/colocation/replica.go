package colocation

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/sharing"
)

// replica is one replica of a workload as the simulated GPU runs it: a server
// that decodes, or, for what serves nobody, kernels in bursts.
type replica struct {
	workload *decision.Workload
	model    loadgentest.Model
	slots    int
	load     profile.Load  // of a replica
	step     time.Duration // a decode step, or an iteration of a burst, alone
	prefill  time.Duration // of a whole prompt
	assumed  []string      // what the fleet file does not say
	offered  bool          // the load is the fleet file's
}

// What stands for what the fleet file does not say. A decode step reads all that the replica holds in memory once, at
// the share of the GPU's bandwidth at which LLM servers of 1B and 8B were seen to decode on an H200 (0.54 to 0.65); a
// prompt of the default length costs one step. Steps of lone servers were seen to vary by a few percent (ITL P90 1.01
// to 1.08 of its P50), hence the kernels'.
const (
	usualPrompt, usualOutput = 128, 16
	usualBusy                = 0.3
	decodeSM, decodeBW       = 0.4, 0.65
	prefillFLOPs             = 0.45 // of the peak, that a prompt reaches
	decodeKernels            = 12
	decodeCV                 = 0.1
	shortestStep             = time.Millisecond // or the timers of this machine would show
	mostPrompt, mostOutput   = 1 << 15, 1 << 12
)

// burst models a workload without requests: iterations of kernels. The figures are assumed to an order of magnitude.
type burst struct {
	iterations, kernels int
	kernel              time.Duration
	sm, bandwidth       float64
}

var (
	steadyBurst      = burst{8, 20, 2 * time.Millisecond, 0.8, 0.5} // training, batch, HPC
	interactiveBurst = burst{5, 10, 2 * time.Millisecond, 0.4, 0.4} // a notebook's cell, a CI job's test
)

// alwaysBusy is the busy share from which on a burst follows the one before.
const alwaysBusy = 0.7

// newReplica returns the simulation of a replica on a GPU, or the reason against it.
func newReplica(w *decision.Workload, gpu *sharing.GPU, profiles *profile.Profiles) (*replica, string) {
	if w.GPUs > 1 {
		return nil, fmt.Sprintf("a replica spans %d GPUs, and links between GPUs are not simulated", w.GPUs)
	}
	s := &replica{workload: w}
	switch w.Kind {
	case decision.KindOnlineInference, decision.KindOfflineInference:
		return s, s.server(gpu, profiles)
	case decision.KindDistributedTraining:
		return nil, "its traffic to other members of the job is not simulated"
	case decision.KindNotebook, decision.KindCI:
		s.bursts(interactiveBurst)
	default:
		s.bursts(steadyBurst)
	}
	return s, ""
}

func (s *replica) assume(format string, args ...any) {
	s.assumed = append(s.assumed, fmt.Sprintf(format, args...))
}

// server makes the workload an LLM server.
func (s *replica) server(gpu *sharing.GPU, profiles *profile.Profiles) (problem string) {
	w := s.workload
	s.load = profile.Load{Prompt: usualPrompt, Output: usualOutput}
	if w.Profile != nil {
		s.load = w.Profile.Load
		s.load.Server, s.load.Seed = 0, profile.Optional[int]{}
		s.slots = w.Profile.Server.Slots.Or(s.slots)
	} else if in, out, stated := lengths(w); stated {
		s.load.Prompt, s.load.Output = in, out
		s.assume("an LLM server")
	} else {
		s.assume("an LLM server, requests of %d tokens in and %d out", usualPrompt, usualOutput)
	}
	if s.load.Prompt > mostPrompt || s.load.Output > mostOutput || s.load.Output < 2 {
		return fmt.Sprintf("requests of %d tokens in and %d out: the simulation takes up to %d in and 2 to %d out",
			s.load.Prompt, s.load.Output, mostPrompt, mostOutput)
	}
	if problem := s.findStep(gpu, profiles); problem != "" {
		return problem
	}
	s.prefill = time.Duration(float64(s.step) * float64(s.load.Prompt) / usualPrompt)
	if flops := costs.MachineOf(gpu).FLOPs; w.Model != nil && flops > 0 {
		active := float64(cmp.Or(w.Model.Active, w.Model.Parameters))
		compute := 2 * active * float64(s.load.Prompt) / (prefillFLOPs * flops)
		s.prefill = max(time.Duration(1e9*compute), s.step)
	}
	s.model = loadgentest.Model{StepKernels: decodeKernels, KernelMean: s.step / decodeKernels,
		PrefillPerToken: s.prefill / time.Duration(s.load.Prompt),
		KernelCV:        decodeCV, SMDemand: decodeSM, BandwidthDemand: decodeBW}
	if w.Load != nil && w.Profile == nil && (w.GPUBusy.IsZero() || w.Model != nil) {
		s.load.Rate = round(w.Load.PeakPerS() / float64(max(1, w.Replicas.Max)))
		s.offered = true
		return ""
	}
	if w.Profile == nil {
		// Requests that overlap are decoded together, so the GPU is idle for as
		// long as nobody is there: exp(-rate x time), as in an M/G/infinity queue.
		s.load.Rate = round(-math.Log(1-min(s.busy(), 0.95)) / s.alone().Seconds())
		s.assume("%.3g requests/s for each replica, which keep a whole GPU %.0f%% busy", s.load.Rate, 100*s.busy())
	}
	return ""
}

// findStep finds the length of a decode step alone on the whole GPU.
func (s *replica) findStep(gpu *sharing.GPU, profiles *profile.Profiles) (problem string) {
	w := s.workload
	defer func() {
		if problem == "" && s.step < shortestStep {
			s.step = shortestStep
			s.assume("a decode step of %v at least", shortestStep)
		}
	}()
	if w.Profile != nil && profiles != nil {
		if solo, err := profiles.Solo(w.Profile.Server, w.Profile.Load); err == nil && solo.TimeSlicing != nil {
			if step, ok := solo.TimeSlicing.ITL.P50.Get(); ok {
				s.step = milliseconds(step)
				s.assume("a decode step of %v, as in its profile", s.step.Round(10*time.Microsecond))
				return ""
			}
		}
	}
	tpot, tpotKnown := w.Solo.TPOTP99.Get()
	e2e, e2eKnown := w.Solo.E2EP99.Get()
	switch {
	case tpotKnown:
		s.step = time.Duration(tpot)
		s.assume("a decode step of %v, its TPOT P99 alone", s.step)
	case e2eKnown:
		s.step = time.Duration(e2e) / time.Duration(s.load.Output+1)
		s.assume("a decode step of %v, for its E2E P99 alone of %v", s.step.Round(10*time.Microsecond), e2e)
	default:
		bandwidth, ok := gpu.MemoryBandwidthGBps.Get()
		if !ok {
			return "the bandwidth of " + gpu.Name + " is not known, and no latency alone is given (solo:)"
		}
		need := w.MemoryNeed()
		held := need.Total
		if w.Load != nil && need.Weights > 0 {
			held = need.Weights // the context is little beside them
		}
		s.step = time.Duration(float64(held) / (decodeBW * bandwidth)) // bytes over 1e9 bytes/s are ns
		s.assume("a decode step of %v: it reads %v of the replica's memory once", s.step.Round(10*time.Microsecond), held)
	}
	return ""
}

// bursts makes the workload kernels in bursts, each a request of as many tokens as it has iterations.
func (s *replica) bursts(b burst) {
	s.step = time.Duration(b.kernels) * b.kernel
	s.slots = 1
	s.model = loadgentest.Model{StepKernels: b.kernels, KernelMean: b.kernel, SMDemand: b.sm, BandwidthDemand: b.bandwidth}
	s.load = profile.Load{Prompt: 1, Output: b.iterations}
	s.assume("bursts of %d iterations of %d kernels of %v", b.iterations, b.kernels, b.kernel)
	if s.busy() >= alwaysBusy {
		s.load.Concurrency = 1
		s.assume("one after another")
		return
	}
	s.load.Rate = round(s.busy() / s.alone().Seconds())
	s.assume("%.3g bursts/s for each replica, which keep a whole GPU %.0f%% busy", s.load.Rate, 100*s.busy())
}

// lengths are the tokens of a request, where the fleet file has both.
func lengths(w *decision.Workload) (in, out int, stated bool) {
	if w.Load == nil {
		return 0, 0, false
	}
	in, a := w.Load.InputTokens.Get()
	out, b := w.Load.OutputTokens.Get()
	return in, out, a && b
}

// busy returns the fraction of a whole GPU that the replica keeps busy.
func (s *replica) busy() float64 {
	if s.offered {
		return 1 - math.Exp(-s.load.Rate*s.alone().Seconds())
	}
	if b, stated := s.workload.GPUBusy.Get(); stated {
		return b
	}
	return decision.ArchetypeOf(s.workload.Kind).BusyPrior.Or(usualBusy)
}

// alone is the time of a request or burst alone on the whole GPU.
func (s *replica) alone() time.Duration {
	return s.prefill + time.Duration(s.load.Output)*s.step
}

// eventsPerS is about how many events a replica alone sends.
func (s *replica) eventsPerS() float64 {
	if s.load.Closed() {
		return float64(s.load.Concurrency) / s.step.Seconds()
	}
	return s.load.Rate * float64(s.load.Output)
}

// serverKey is the replica's server as profiles know it.
func (s *replica) serverKey(percent float64) profile.Server {
	return serverKey(s.workload.Name, s.slots, percent)
}

// round keeps four digits, so that files are readable.
func round(v float64) float64 {
	scale := math.Pow(10, 3-math.Floor(math.Log10(v)))
	return math.Round(v*scale) / scale
}
