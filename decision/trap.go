// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// TrapHit is a trap that an input walks into, or that a layout accepts or avoids.
type TrapHit struct {
	ID       string           `json:"id"`
	Severity sharing.Severity `json:"severity"`
	Message  string           `json:"message"`
	// Sources are given where a result lists its traps, and not again where a decision does.
	Sources []sharing.SourceID `json:"sources,omitempty"`
}

// trapScene is the input of a detector: a workload, its request, the decision, and the pool of either.
type trapScene struct {
	w         *Workload
	f         Framework   // the workload's, zero without
	r         fleet.Asked // likewise
	cw        *CompiledWorkload
	p         *CompiledPool // nil when nothing was decided and no pool is pinned
	chosen    sharing.Mechanism
	profile   string // of MIG, that was chosen
	tenants   int    // on its fullest GPU
	here      int    // pods that share its fullest GPU today; 0 = not known
	untrusted bool
	uids      bool   // workloads of other user ids share its MPS group
	unequal   bool   // tenants of its GPUs differ in kind or demand
	filler    string // describes a workload of the pool whose kernels fill the GPU; "" = none known
}

// newScene takes a workload with its request, on a pool that may be nil.
func newScene(cw *CompiledWorkload, p *CompiledPool) *trapScene {
	w := cw.Workload()
	return &trapScene{w: w, cw: cw, p: p, f: *cmp.Or(w.Framework, &Framework{}), r: *cmp.Or(w.Request, &fleet.Asked{})}
}

// in reports whether the chosen or requested mechanism is one of ms.
func (s *trapScene) in(ms ...sharing.Mechanism) bool {
	return slices.Contains(ms, s.chosen) || slices.Contains(ms, s.r.Mechanism)
}

// shares reports whether the chosen or requested mechanism shares GPUs.
func (s *trapScene) shares() bool {
	return s.chosen > sharing.MechanismExclusive || s.r.Mechanism > sharing.MechanismExclusive
}

func (s *trapScene) framework(names ...string) bool {
	return slices.Contains(names, s.f.Name)
}

var mpsFamily = []sharing.Mechanism{sharing.MechanismMPS, sharing.MechanismHAMiWithMPS, sharing.MechanismMIGWithMPS,
	sharing.MechanismMIGLikeEmulation}

var migFamily = []sharing.Mechanism{sharing.MechanismMIG, sharing.MechanismMIGWithMPS, sharing.MechanismMIGBackedVGPU}

func (s *trapScene) mps() bool { return s.in(mpsFamily...) }

// perGPU counts the tenants of a GPU: today's where known, else the replicas that were requested or decided.
func (s *trapScene) perGPU() int {
	if s.here > 0 {
		return s.here
	}
	if s.r.Replicas > 0 {
		return s.r.Replicas
	}
	return s.tenants
}

// doubleMemoryCI is the compute-instance profile that spans a 1g with double memory
// (NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1).
const doubleMemoryCI = 7

// detectors has a function for each trap; it returns a message, or "".
var detectors = map[string]func(*trapScene) string{
	"time-slicing-takes-turns": func(s *trapScene) string {
		return say(s.in(sharing.MechanismTimeSlicing) && s.here != 1 &&
			(s.cw.Demand().SLO != (profile.SLO{}) || s.w.Kind == KindOnlineInference),
			"%s takes turns: with %d busy tenants each waits for the others", sharing.MechanismTimeSlicing, max(2, s.perGPU()))
	},
	"mps-is-not-isolation": func(s *trapScene) string {
		return say(s.mps() && (s.w.Isolation.Fault > sharing.LevelNone || s.w.Isolation.Memory > sharing.LevelDriver ||
			s.untrusted && slices.Contains(mpsFamily, s.r.Mechanism)),
			"MPS clients share the GPU's fault domain; only address spaces are a client's own")
	},
	"mig-needs-idle-instances": func(s *trapScene) string {
		return say(s.in(sharing.MechanismMIG, sharing.MechanismMIGWithMPS) && s.p != nil && len(s.p.Pool.Layouts) > 0,
			"instances must be empty before they are destroyed: the migration needs the pods on them drained")
	},
	"hami-can-be-bypassed": func(s *trapScene) string {
		return say(s.in(sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS) &&
			(s.w.Isolation != (Isolation{}) || s.bypasses()),
			"HAMi's limits live in the process; %s", pick(s.bypasses(), "this workload's settings get round them",
				"it is no hardware isolation"))
	},
	"emulation-is-not-mig": func(s *trapScene) string {
		return say(s.in(sharing.MechanismMIGLikeEmulation),
			"an MPS percentage and a memory fraction imitate MIG's sizes, not its isolation")
	},
	"figures-of-others": func(s *trapScene) string {
		return say(s.w.Evidence == fleet.EvidenceVendor,
			"gpu_busy comes from a vendor's or paper's figure; measure it on this GPU")
	},
	"memory-fractions-add-up": func(s *trapScene) string {
		f, n := s.f.MemoryFraction.Or(0), s.perGPU()
		return say(n > 1 && s.in(sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIGLikeEmulation) &&
			f*float64(n) > 1,
			"memory fraction %.2f times %d on one GPU is more than the GPU; the written configuration sets a fraction that "+
				"fits", f, n)
	},
	"prefill-memory": func(s *trapScene) string {
		return say(s.framework("tgi") && s.shares() && s.f.MaxPrefill > 4096,
			"max_batch_prefill_tokens %d ran out of memory in warm-up on a shared GPU where 4096 works", s.f.MaxPrefill)
	},
	"node-group-without-driver": func(s *trapScene) string {
		return say(s.p != nil && strings.HasPrefix(s.p.Pool.Platform, "eks") &&
			strings.HasPrefix(s.p.Pool.InstanceType, "g6e"),
			"EKS managed node groups came up without the GPU driver on g6e; install it before the device plugin")
	},
	"turns-against-p99": func(s *trapScene) string {
		return say(s.in(sharing.MechanismTimeSlicing, sharing.MechanismHAMi, sharing.MechanismVGPU) && s.tightSLO(),
			"turns last milliseconds (2.09 ms and a switch of 0.153 ms on an H200), against a P99 limit in the tens")
	},
	"mps-needs-idle-sms": func(s *trapScene) string {
		return say(s.mps() && s.cw.Demand().BusyBasis == gate.BusyStated && s.cw.Demand().Busy >= 0.8,
			"the job keeps %.0f%% of the GPU busy; MPS gains only where SMs idle", s.cw.Demand().Busy*100)
	},
	"mps-chains-starve": func(s *trapScene) string {
		return say((s.mps() || s.chosen != sharing.MechanismNone) && s.filler != "" && s.w.Kind == KindOnlineInference,
			"%s: under MPS each kernel of a step waits for what that leaves, "+
				"and an 8B server took 6 times as long beside an FFT", s.filler)
	},
	"training-fills-the-gpu": func(s *trapScene) string {
		return say(s.shares() && (s.w.Kind == KindTraining || s.w.Kind == KindDistributedTraining) &&
			s.cw.Demand().BusyBasis == gate.BusyStated && s.cw.Demand().Busy >= 0.7,
			"a training job at %.0f%% slows down by what its neighbours take", s.cw.Demand().Busy*100)
	},
	"replicas-share-memory": func(s *trapScene) string {
		if s.p == nil || !s.in(sharing.MechanismTimeSlicing) || s.p.Memory == 0 || s.here == 1 {
			return ""
		}
		n := max(2, s.perGPU())
		if s.cw.Demand().Memory.Unknown {
			return say(true, "nothing divides the %s of one %s among its %d shares, and how much each takes is not known",
				s.p.Memory, s.p.Ground().GPU().Name, n)
		}
		total := s.cw.Demand().Memory.Total * sharing.Bytes(n)
		return say(true, "%d shares of one %s hold %s together, and nothing divides its %s", n, s.p.Ground().GPU().Name,
			total, s.p.Memory)
	},
	"mps-fault-spreads": func(s *trapScene) string {
		return say(s.mps() && s.perGPU() > 1, "a fatal GPU fault of one MPS client ends all %d on its GPU", s.perGPU())
	},
	"synthetic-figures": func(s *trapScene) string {
		return say(s.w.Evidence == fleet.EvidenceSynthetic,
			"gpu_busy comes from generated example data, not from a measurement")
	},
	"model-exceeds-slice": func(s *trapScene) string {
		if s.r.Profile == "" || s.p == nil || s.p.Ground().Model() == nil {
			return ""
		}
		prof, err := s.p.Ground().Model().Profile(s.r.Profile)
		if err != nil {
			return ""
		}
		have, known := prof.Memory.Get()
		need := s.cw.Demand().Memory
		return say(known && need.Total > have, "needs %s and %s has %s", need, prof.Name, have)
	},
	"unequal-slowdowns": func(s *trapScene) string {
		return say(s.in(sharing.MechanismTimeSlicing) && s.unequal,
			"unlike tenants slow by unlike factors under fair turns: the shorter to twice its time, the longer to the sum; "+
				"it is predictable")
	},
	"unlike-cost-sides": func(s *trapScene) string {
		if s.p == nil || s.p.Pool.CPUNodes == nil {
			return ""
		}
		n := s.p.Pool.CPUNodes
		return say(n.Shared != n.Dedicated, "%d CPU nodes stand on the shared side and %d on the dedicated one; compare "+
			"like with like", n.Shared, n.Dedicated)
	},
	"utilisation-is-not-load": func(s *trapScene) string {
		return say(s.w.Evidence == fleet.EvidenceNVML,
			"gpu_busy is NVML utilisation: one thread block reads 100%%, so it says nothing of the room that is left")
	},
	"shared-gpu-metrics": func(s *trapScene) string {
		return say(s.w.Evidence == fleet.EvidenceNVML && s.in(sharing.MechanismTimeSlicing, sharing.MechanismMPS,
			sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS) && s.r.Mechanism != sharing.MechanismNone,
			"gpu_busy may be everybody's: before 4.5.3-4.8.2, and without hostPID, dcgm-exporter shows the utilisation of a "+
				"shared "+
				"GPU at each of its pods")
	},
	"mig-gone-after-reboot": func(s *trapScene) string {
		return say(s.in(sharing.MechanismMIG, sharing.MechanismMIGWithMPS) && s.p != nil &&
			s.p.Pool.Delivery == sharing.DeliveryDevicePlugin &&
			!strings.HasPrefix(s.p.Pool.Platform, "gke") && !strings.HasPrefix(s.p.Pool.Platform, "aks"),
			// they partition a node when it starts
			"instances do not survive a reboot, and the device plugin does not make them again")
	},
	"double-memory-slice": func(s *trapScene) string {
		name := cmp.Or(s.r.Profile, s.profile)
		if name == "" || s.p == nil || s.p.Pool.Delivery != sharing.DeliveryDRA || s.p.Ground().Model() == nil {
			return ""
		}
		prof, err := s.p.Ground().Model().Profile(name)
		if err != nil {
			return ""
		}
		ci, known := prof.DefaultCI.Get()
		sms, listed := prof.SMs.Get()
		return say(known && ci == doubleMemoryCI, "%s%s may come with the SMs of a plain 1g: the DRA driver took the "+
			"smaller of its two compute instances", prof.Name, pick(listed, fmt.Sprintf(", listed with %d SMs,", sms), ""))
	},
	"first-fit-blocks-4g": func(s *trapScene) string {
		if s.p == nil || s.p.Ground().Model() == nil {
			return ""
		}
		return blockedLarge(s.p)
	},
	"replicas-are-not-capacity": func(s *trapScene) string {
		n := s.perGPU()
		return say(s.in(sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismHAMi) && n > 1 &&
			s.cw.Demand().BusyBasis == gate.BusyStated && float64(n)*s.cw.Demand().Busy > 1,
			"%d shares that each keep %.0f%% busy want %.1f GPUs: replicas are not capacity", n, s.cw.Demand().Busy*100,
			float64(n)*s.cw.Demand().Busy)
	},
	"two-shares-one-gpu": func(s *trapScene) string {
		return say(s.r.SharedGPUs > 1 && s.in(sharing.MechanismTimeSlicing, sharing.MechanismMPS),
			"%d shares of a GPU give no more compute than one", s.r.SharedGPUs)
	},
	"mps-limit-per-process": func(s *trapScene) string {
		return say(s.mps() && s.w.ProcessCount() > 1, "an MPS memory limit holds for each of the %d processes, not for the "+
			"container", s.w.ProcessCount())
	},
	"mps-pipe-directory": func(s *trapScene) string {
		dir, set := s.w.Env["CUDA_MPS_PIPE_DIRECTORY"]
		return say(s.mps() && set && (dir == "" || !strings.HasPrefix(dir, "/")),
			"CUDA_MPS_PIPE_DIRECTORY=%q reaches no daemon: the client then silently has the whole GPU", problem.Clip(dir))
	},
	"mps-memory-fraction": func(s *trapScene) string {
		f := s.f.MemoryFraction.Or(0)
		return say(s.in(sharing.MechanismMPS, sharing.MechanismHAMiWithMPS) && s.framework("vllm", "sglang", "tgi") &&
			s.perGPU() > 1 && f > 1/float64(s.perGPU()),
			"under an MPS limit the framework sees the whole GPU's memory, so its fraction must be limit over total, not %.2f",
			f)
	},
	"mps-device-ordinals": func(s *trapScene) string {
		v, set := s.w.Env["CUDA_VISIBLE_DEVICES"]
		return say(s.mps() && set && len(ordinals(v)) > 0,
			"CUDA_VISIBLE_DEVICES=%q names ordinals, which the MPS server has renumbered; use UUIDs", problem.Clip(v))
	},
	"mps-limit-dropped": func(s *trapScene) string {
		v, set := s.w.Env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]
		return say(s.mps() && set && slices.Max(append(ordinals(v), -1)) >= s.w.GPUCount(),
			"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%q has an entry for a GPU that the process cannot see, which drops every limit",
			problem.Clip(v))
	},
	"mps-one-user-per-server": func(s *trapScene) string {
		return say(s.in(sharing.MechanismMPS) && s.uids && (s.p == nil || s.p.Pool.MPSProtocol != 3),
			"an MPS server runs for one user: clients of another user id wait until all of the first have gone")
	},
	"mps-client-killed": func(s *trapScene) string {
		return say(s.mps() && s.perGPU() > 1, "a client that is killed without terminate_client first may take the server "+
			"and its neighbours along; pod deletion ends in SIGKILL")
	},
	"mps-fault-state-lasts": func(s *trapScene) string {
		return say(s.mps() && s.perGPU() > 1, "after a fault the server takes no client until every affected one has "+
			"exited: one that lingers blocks all")
	},
	"hami-graphs-unlimited": func(s *trapScene) string {
		return say(s.in(sharing.MechanismHAMi) && (s.f.CUDAGraphs.Or(false) || s.r.Cores > 0 && s.framework("vllm")),
			"HAMi's gpucores does not hold CUDA graphs back, which the framework launches by default")
	},
	"parallelism-across-slices": func(s *trapScene) string {
		return say(s.w.GPUCount() > 1 && slices.Contains(migFamily, s.r.Mechanism),
			"a replica over %d MIG instances cannot run in parallel over them: they have no peer access", s.w.GPUCount())
	},
	"mps-on-mig-delivery": func(s *trapScene) string {
		return say(s.in(sharing.MechanismMIGWithMPS) && (s.p == nil || s.p.Pool.Delivery <= sharing.DeliveryGPUOperator),
			"the device plugin refuses MPS on MIG devices")
	},
	"mps-namespace-limits": func(s *trapScene) string {
		return say(s.r.MPSNamespace != "" && s.r.MPSNamespace != "default",
			"namespace %q inherits none of its server's limits; set them on the namespace", problem.Clip(s.r.MPSNamespace))
	},
	"mps-q-flag": func(s *trapScene) string {
		return say(s.mps() && s.p != nil && (s.p.Pool.MPSProtocol == 3 || s.p.Pool.Driver.Major >= 615),
			"-q asks a protocol-2 daemon to query devices and a protocol-3 one to quit")
	},
	"timeslice-setting": func(s *trapScene) string {
		if s.p == nil || !s.in(sharing.MechanismTimeSlicing) || s.p.Pool.Timeslice == timeslice.LevelDefault {
			return ""
		}
		set, known := s.p.Ground().GPU().TimesliceSetting.Get()
		return say(!known || set != sharing.AnswerYes, "no source confirms that %s lets its time slice be set; probe "+
			"before relying on %q", problem.A(s.p.Ground().GPU().Name), s.p.Pool.TimesliceName())
	},
	"equal-load-per-model": func(s *trapScene) string {
		return say(s.w.Evidence == fleet.EvidenceEqualConcurrency,
			"figures at equal load per model flatter sharing; compare at equal load per GPU")
	},
}

func (s *trapScene) bypasses() bool {
	return s.f.Privileged || s.f.StaticCUDA
}

func (s *trapScene) tightSLO() bool {
	for _, limit := range s.w.SLO.Limits() {
		if limit < 100*time.Millisecond {
			return true
		}
	}
	return false
}

func say(hit bool, format string, args ...any) string {
	if !hit {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func pick(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// ordinals are the GPUs that a list names by number, each before its value where it has one.
func ordinals(list string) (out []int) {
	for e := range strings.SplitSeq(list, ",") {
		key, _, _ := strings.Cut(strings.TrimSpace(e), "=")
		if i, err := strconv.Atoi(key); err == nil {
			out = append(out, i)
		}
	}
	return out
}

// blockedLarge finds a layout in which a 3g at start 0 keeps a free half from holding the 4g that only starts there.
func blockedLarge(p *CompiledPool) string {
	for i, text := range p.Pool.Layouts {
		layout, err := p.Ground().Model().ParseLayout(text)
		if err != nil {
			continue
		}
		low, high := false, false
		for _, in := range layout.Instances {
			low = low || in.Start == 0 && in.Profile.ComputeSlices == 3
			high = high || in.Start >= 4
		}
		if low && !high {
			return fmt.Sprintf("layouts[%d] has a 3g at start 0, so no 4g can be placed although half of the GPU is free; a "+
				"3g belongs at start 4", i)
		}
	}
	return ""
}

// sortHits puts the worst first, and keeps the order of hits as bad.
func sortHits(hits []TrapHit) {
	slices.SortStableFunc(hits, func(a, b TrapHit) int { return cmp.Compare(b.Severity, a.Severity) })
}
