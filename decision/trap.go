// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/score"
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

// trapInput has the facts that traps are found by: a workload, its request, the decision, and the pool of either.
type trapInput struct {
	w         *Workload
	f         Framework   // the workload's, zero without
	r         fleet.Asked // likewise
	cw        *score.CompiledWorkload
	p         *score.CompiledPool // nil when nothing was decided and no pool is pinned
	chosen    sharing.Mechanism
	profile   string // of MIG, that was chosen
	tenants   int    // on its fullest GPU
	here      int    // pods that share its fullest GPU today; 0 = not known
	untrusted bool
	uids      bool   // workloads of other user ids share its MPS group
	unequal   bool   // tenants of its GPUs differ in kind or demand
	filler    string // describes a workload of the pool with kernels that fill the GPU; "" = none known
}

// newTrapInput takes a workload with its request, on a pool that may be nil.
func newTrapInput(cw *score.CompiledWorkload, p *score.CompiledPool) *trapInput {
	w := cw.Workload()
	return &trapInput{w: w, cw: cw, p: p, f: *cmp.Or(w.Framework, &Framework{}), r: *cmp.Or(w.Request, &fleet.Asked{})}
}

// in reports whether the chosen or requested mechanism is one of ms.
func (s *trapInput) in(ms ...sharing.Mechanism) bool {
	return slices.Contains(ms, s.chosen) || slices.Contains(ms, s.r.Mechanism)
}

// shares reports whether the chosen or requested mechanism shares GPUs.
func (s *trapInput) shares() bool {
	return s.chosen > sharing.MechanismExclusive || s.r.Mechanism > sharing.MechanismExclusive
}

func (s *trapInput) framework(names ...string) bool {
	return slices.Contains(names, s.f.Name)
}

var mpsFamily = []sharing.Mechanism{sharing.MechanismMPS, sharing.MechanismHAMiWithMPS, sharing.MechanismMIGWithMPS,
	sharing.MechanismMIGLikeEmulation}

var migFamily = []sharing.Mechanism{sharing.MechanismMIG, sharing.MechanismMIGWithMPS, sharing.MechanismMIGBackedVGPU}

func (s *trapInput) mps() bool { return s.in(mpsFamily...) }

// perGPU counts the tenants of a GPU: today's where known, else the replicas that were requested or decided.
func (s *trapInput) perGPU() int {
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

// found holds the messages of traps by id.
type found map[string]string

// add notes a trap where it is there.
func (f found) add(id string, there bool, format string, args ...any) {
	if there {
		f[id] = fmt.Sprintf(format, args...)
	}
}

// find returns the message of each trap that is there.
func (s *trapInput) find() found {
	f := found{}
	s.ofShares(f)
	s.ofMPS(f)
	s.ofMIG(f)
	s.ofFigures(f)
	return f
}

// ofShares finds the traps of time-slicing and of replicas of any kind, HAMi's among them.
func (s *trapInput) ofShares(f found) {
	turns, n, fraction, need := s.in(sharing.MechanismTimeSlicing), s.perGPU(), s.f.MemoryFraction.Or(0), s.cw.Demand()
	f.add("time-slicing-takes-turns", turns && s.here != 1 &&
		(need.SLO != (profile.SLO{}) || s.w.Kind == KindOnlineInference),
		"%s takes turns: with %d busy tenants each waits for the others", sharing.MechanismTimeSlicing, max(2, n))
	f.add("turns-against-p99", s.in(sharing.MechanismTimeSlicing, sharing.MechanismHAMi, sharing.MechanismVGPU) &&
		s.tightSLO(), "turns last milliseconds (2.09 ms and a switch of 0.153 ms on an H200), against a P99 limit in the "+
		"tens")
	f.add("unequal-slowdowns", turns && s.unequal, "unlike tenants slow by unlike factors under fair turns: the shorter "+
		"to twice its time, the longer to the sum; it is predictable")
	f.add("memory-fractions-add-up", n > 1 && fraction*float64(n) > 1 &&
		s.in(sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIGLikeEmulation),
		"memory fraction %.2f times %d on one GPU is more than the GPU; the written configuration sets a fraction that fits",
		fraction, n)
	f.add("replicas-are-not-capacity", s.in(sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismHAMi) &&
		n > 1 && s.busy(0) && float64(n)*need.Busy > 1,
		"%d shares that each keep %.0f%% busy want %.1f GPUs: replicas are not capacity", n, need.Busy*100,
		float64(n)*need.Busy)
	f.add("two-shares-one-gpu", s.r.SharedGPUs > 1 && s.in(sharing.MechanismTimeSlicing, sharing.MechanismMPS),
		"%d shares of a GPU give no more compute than one", s.r.SharedGPUs)
	f.add("training-fills-the-gpu", s.shares() && s.busy(0.7) &&
		(s.w.Kind == KindTraining || s.w.Kind == KindDistributedTraining),
		"a training job at %.0f%% slows down by what its neighbours take", need.Busy*100)
	f.add("prefill-memory", s.framework("tgi") && s.shares() && s.f.MaxPrefill > 4096,
		"max_batch_prefill_tokens %d ran out of memory in warm-up on a shared GPU where 4096 works", s.f.MaxPrefill)
	f.add("hami-can-be-bypassed", s.in(sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS) &&
		(s.w.Isolation != (Isolation{}) || s.bypasses()), "HAMi's limits live in the process; %s",
		map[bool]string{true: "this workload's settings get round them", false: "it is no hardware isolation"}[s.bypasses()])
	f.add("hami-graphs-unlimited", s.in(sharing.MechanismHAMi) &&
		(s.f.CUDAGraphs.Or(false) || s.r.Cores > 0 && s.framework("vllm")),
		"HAMi's gpucores does not hold CUDA graphs back, which the framework launches by default")
	if s.p == nil || !turns {
		return
	}
	gpu := s.p.Target().GPU()
	set, known := gpu.TimesliceSetting.Get()
	f.add("timeslice-setting", s.p.Pool.Timeslice != timeslice.LevelDefault && !(known && set == sharing.AnswerYes),
		"no source confirms that %s lets its time slice be set; probe before relying on %q", problem.A(gpu.Name),
		s.p.Pool.TimesliceName())
	if n = max(2, n); s.p.Memory == 0 || s.here == 1 {
		return
	}
	f.add("replicas-share-memory", need.Memory.Unknown,
		"nothing divides the %s of one %s among its %d shares, and how much each takes is not known", s.p.Memory, gpu.Name, n)
	f.add("replicas-share-memory", !need.Memory.Unknown,
		"%d shares of one %s hold %s together, and nothing divides its %s", n, gpu.Name,
		need.Memory.Total*sharing.Bytes(n), s.p.Memory)
}

// ofMPS finds the traps of MPS.
func (s *trapInput) ofMPS(f found) {
	f.add("mps-chains-starve", (s.mps() || s.chosen != sharing.MechanismNone) && s.filler != "" &&
		s.w.Kind == KindOnlineInference, "%s: under MPS each kernel of a step waits for what that leaves, and an 8B server "+
		"took 6 times as long next to an FFT", s.filler)
	f.add("mps-namespace-limits", s.r.MPSNamespace != "" && s.r.MPSNamespace != "default",
		"namespace %q inherits none of its server's limits; set them on the namespace", problem.Clip(s.r.MPSNamespace))
	if !s.mps() {
		return
	}
	n, fraction, pool := s.perGPU(), s.f.MemoryFraction.Or(0), s.pool()
	f.add("mps-is-not-isolation", s.w.Isolation.Fault > sharing.LevelNone || s.w.Isolation.Memory > sharing.LevelDriver ||
		s.untrusted && slices.Contains(mpsFamily, s.r.Mechanism),
		"MPS clients share the GPU's fault domain; only address spaces are a client's own")
	f.add("mps-needs-idle-sms", s.busy(0.8), "the job keeps %.0f%% of the GPU busy; MPS gains only where SMs idle",
		s.cw.Demand().Busy*100)
	f.add("mps-fault-spreads", n > 1, "a fatal GPU fault of one MPS client ends all %d on its GPU", n)
	f.add("mps-client-killed", n > 1, "a client that is killed without terminate_client first may take the server "+
		"and its neighbours along; pod deletion ends in SIGKILL")
	f.add("mps-fault-state-lasts", n > 1, "after a fault the server takes no client until every affected one has "+
		"exited: one that lingers blocks all")
	f.add("mps-limit-per-process", s.w.ProcessCount() > 1, "an MPS memory limit holds for each of the %d processes, not "+
		"for the container", s.w.ProcessCount())
	f.add("mps-memory-fraction", s.in(sharing.MechanismMPS, sharing.MechanismHAMiWithMPS) && n > 1 &&
		s.framework("vllm", "sglang", "tgi") && fraction > 1/float64(n),
		"under an MPS limit the framework sees the whole GPU's memory, so its fraction must be limit over total, not %.2f",
		fraction)
	dir, set := s.w.Env["CUDA_MPS_PIPE_DIRECTORY"]
	f.add("mps-pipe-directory", set && (dir == "" || !strings.HasPrefix(dir, "/")),
		"CUDA_MPS_PIPE_DIRECTORY=%q reaches no daemon: the client then silently has the whole GPU", problem.Clip(dir))
	devices := s.w.Env["CUDA_VISIBLE_DEVICES"]
	f.add("mps-device-ordinals", len(ordinals(devices)) > 0,
		"CUDA_VISIBLE_DEVICES=%q names ordinals, which the MPS server has renumbered; use UUIDs", problem.Clip(devices))
	limits := s.w.Env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]
	f.add("mps-limit-dropped", slices.Max(append(ordinals(limits), -1)) >= s.w.GPUCount(),
		"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%q has an entry for a GPU that the process cannot see, which drops every limit",
		problem.Clip(limits))
	f.add("mps-one-user-per-server", s.in(sharing.MechanismMPS) && s.uids && pool.MPSProtocol != 3,
		"an MPS server runs for one user: clients of another user id wait until all of the first have gone")
	f.add("mps-on-mig-delivery", s.in(sharing.MechanismMIGWithMPS) && pool.Delivery <= sharing.DeliveryGPUOperator,
		"the device plugin refuses MPS on MIG devices")
	f.add("mps-q-flag", pool.MPSProtocol == 3 || pool.Driver.Major >= 615,
		"-q asks a protocol-2 daemon to query devices and a protocol-3 one to quit")
}

// ofMIG finds the traps of MIG and of its emulation.
func (s *trapInput) ofMIG(f found) {
	instances, pool := s.in(sharing.MechanismMIG, sharing.MechanismMIGWithMPS), s.pool()
	f.add("emulation-is-not-mig", s.in(sharing.MechanismMIGLikeEmulation),
		"an MPS percentage and a memory fraction imitate MIG's sizes, not its isolation")
	f.add("mig-needs-idle-instances", instances && len(pool.Layouts) > 0,
		"instances must be empty before they are destroyed: the migration needs the pods on them drained")
	f.add("mig-gone-after-reboot", instances && pool.Delivery == sharing.DeliveryDevicePlugin &&
		!strings.HasPrefix(pool.Platform, "gke") && !strings.HasPrefix(pool.Platform, "aks"),
		// they partition a node when it starts
		"instances do not survive a reboot, and the device plugin does not make them again")
	f.add("parallelism-across-slices", s.w.GPUCount() > 1 && slices.Contains(migFamily, s.r.Mechanism),
		"a replica over %d MIG instances cannot run in parallel over them: they have no peer access", s.w.GPUCount())
	if s.p == nil || s.p.Target().Model() == nil {
		return
	}
	if blocked := blockedLarge(s.p); blocked != "" {
		f["first-fit-blocks-4g"] = blocked
	}
	if asked, err := s.p.Target().Model().Profile(s.r.Profile); err == nil {
		have, known := asked.Memory.Get()
		need := s.cw.Demand().Memory
		f.add("model-exceeds-slice", known && need.Total > have, "needs %s and %s has %s", need, asked.Name, have)
	}
	if p, err := s.p.Target().Model().Profile(cmp.Or(s.r.Profile, s.profile)); err == nil {
		ci, known := p.DefaultCI.Get()
		listed := ""
		if sms, known := p.SMs.Get(); known {
			listed = fmt.Sprintf(", listed with %d SMs,", sms)
		}
		f.add("double-memory-slice", pool.Delivery == sharing.DeliveryDRA && known && ci == doubleMemoryCI,
			"%s%s may come with the SMs of a plain 1g: the DRA driver took the smaller of its two compute instances", p.Name,
			listed)
	}
}

// ofFigures finds the traps of figures and of cost, and of a pool's nodes.
func (s *trapInput) ofFigures(f found) {
	for evidence, message := range map[fleet.Evidence][2]string{
		"vendor": {"figures-of-others",
			"gpu_busy comes from a vendor's or paper's figure; measure it on this GPU"},
		"synthetic": {"synthetic-figures",
			"gpu_busy comes from generated example data, not from a measurement"},
		"nvml-utilization": {"utilisation-is-not-load",
			"gpu_busy is NVML utilisation: one thread block reads 100%, so the room that is left is not known"},
		"equal-concurrency": {"equal-load-per-model",
			"figures at equal load per model flatter sharing; compare at equal load per GPU"},
	} {
		f.add(message[0], s.w.Evidence == evidence, "%s", message[1])
	}
	f.add("shared-gpu-metrics", s.w.Evidence == "nvml-utilization" && s.r.Mechanism != sharing.MechanismNone &&
		s.in(sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS),
		"gpu_busy may be everybody's: before 4.5.3-4.8.2, and without hostPID, dcgm-exporter shows the utilisation of a "+
			"shared GPU at each of its pods")
	pool := s.pool()
	f.add("node-group-without-driver", strings.HasPrefix(pool.Platform, "eks") &&
		strings.HasPrefix(pool.InstanceType, "g6e"),
		"EKS managed node groups came up without the GPU driver on g6e; install it before the device plugin")
	if n := pool.CPUNodes; n != nil {
		f.add("unlike-cost-sides", n.Shared != n.Dedicated, "%d CPU nodes are on the shared side and %d on the dedicated "+
			"one; compare like with like", n.Shared, n.Dedicated)
	}
}

// pool returns the workload's pool, an empty one where none is known.
func (s *trapInput) pool() *Pool {
	if s.p == nil {
		return &Pool{}
	}
	return s.p.Pool
}

// busy reports whether the workload states that it keeps the GPU busy for so much of the time at least.
func (s *trapInput) busy(least float64) bool {
	return s.cw.Demand().BusyBasis == filter.BusyStated && s.cw.Demand().Busy >= least
}

func (s *trapInput) bypasses() bool {
	return s.f.Privileged || s.f.StaticCUDA
}

func (s *trapInput) tightSLO() bool {
	for _, limit := range s.w.SLO.Limits() {
		if limit < 100*time.Millisecond {
			return true
		}
	}
	return false
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
func blockedLarge(p *score.CompiledPool) string {
	for i, text := range p.Pool.Layouts {
		layout, err := p.Target().Model().ParseLayout(text)
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
