// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	_ "embed"
	"encoding/json"
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
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// trapInput has the facts that traps are found by: a workload, its request, the decision, and the pool of either.
type trapInput struct {
	w         *Workload
	f         fleet.Framework // the workload's, zero without
	r         fleet.Asked     // likewise
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
	f, r := cmp.Or(w.Framework, &fleet.Framework{}), cmp.Or(w.Request, &fleet.Asked{})
	return &trapInput{w: w, cw: cw, p: p, f: *f, r: *r}
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

//go:embed traps.json
var trapsJSON []byte

// trapTexts has for each trap that is looked for how an input walks into it, with verbs for its figures, and what a
// layout that bears it takes: a precaution, or counted, where filters, predictions and the written configuration take
// the trap into account.
var trapTexts = func() (all map[string]struct {
	Found, Precaution string
	Counted           bool
}) {
	_ = json.Unmarshal(trapsJSON, &all) // a test reads the file that is built in
	return all
}()

// found holds the messages of traps by id.
type found map[string]string

// add notes a trap where it is there. A trap with several texts has them under its id, a slash and a word.
func (f found) add(key string, there bool, args ...any) {
	if there {
		id, _, _ := strings.Cut(key, "/")
		f[id] = fmt.Sprintf(trapTexts[key].Found, args...)
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
	sliced, n, fraction, need := s.in(sharing.MechanismTimeSlicing), s.perGPU(), s.f.MemoryFraction.Or(0), s.cw.Demand()
	trains := s.w.Kind == KindTraining || s.w.Kind == KindDistributedTraining
	f.add("time-slicing-takes-turns", sliced && s.here != 1 &&
		(need.SLO != (profile.SLO{}) || s.w.Kind == KindOnlineInference), sharing.MechanismTimeSlicing, max(2, n))
	tight := false
	for _, limit := range s.w.SLO.Limits() {
		tight = tight || limit < 100*time.Millisecond
	}
	f.add("turns-against-p99", tight &&
		s.in(sharing.MechanismTimeSlicing, sharing.MechanismHAMi, sharing.MechanismVGPU))
	f.add("unequal-slowdowns", sliced && s.unequal)
	f.add("memory-fractions-add-up", n > 1 && fraction*float64(n) > 1 &&
		s.in(sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIGLikeEmulation), fraction, n)
	f.add("replicas-are-not-capacity", s.in(sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismHAMi) &&
		n > 1 && s.busy(0) && float64(n)*need.Busy > 1, n, need.Busy*100, float64(n)*need.Busy)
	f.add("two-shares-one-gpu", s.r.SharedGPUs > 1 && s.in(sharing.MechanismTimeSlicing, sharing.MechanismMPS),
		s.r.SharedGPUs)
	f.add("training-fills-the-gpu", s.shares() && s.busy(0.7) && trains, need.Busy*100)
	f.add("prefill-memory", s.framework("tgi") && s.shares() && s.f.MaxPrefill > 4096, s.f.MaxPrefill)
	hami, bypasses := s.in(sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS), s.f.Privileged || s.f.StaticCUDA
	f.add("hami-can-be-bypassed", hami && s.w.Isolation != (fleet.Isolation{}))
	f.add("hami-can-be-bypassed/settings", hami && bypasses)
	f.add("hami-graphs-unlimited", s.in(sharing.MechanismHAMi) &&
		(s.f.CUDAGraphs.Or(false) || s.r.Cores > 0 && s.framework("vllm")))
	if s.p == nil || !sliced {
		return
	}
	gpu := s.p.Target().GPU()
	set, known := gpu.TimesliceSetting.Get()
	f.add("timeslice-setting", s.p.Pool.Timeslice > 0 && !(known && set == sharing.AnswerYes),
		problem.A(gpu.Name), s.p.Pool.TimesliceName())
	if n = max(2, n); s.p.Memory == 0 || s.here == 1 {
		return
	}
	f.add("replicas-share-memory/unknown", need.Memory.Unknown, s.p.Memory, gpu.Name, n)
	f.add("replicas-share-memory", !need.Memory.Unknown, n, gpu.Name, need.Memory.Total*sharing.Bytes(n), s.p.Memory)
}

// ofMPS finds the traps of MPS.
func (s *trapInput) ofMPS(f found) {
	f.add("mps-chains-starve", (s.mps() || s.chosen != sharing.MechanismNone) && s.filler != "" &&
		s.w.Kind == KindOnlineInference, s.filler)
	f.add("mps-namespace-limits", s.r.MPSNamespace != "" && s.r.MPSNamespace != "default", problem.Clip(s.r.MPSNamespace))
	if !s.mps() {
		return
	}
	n, fraction, pool := s.perGPU(), s.f.MemoryFraction.Or(0), s.pool()
	f.add("mps-is-not-isolation", s.w.Isolation.Fault > sharing.LevelNone || s.w.Isolation.Memory > sharing.LevelDriver ||
		s.untrusted && slices.Contains(mpsFamily, s.r.Mechanism))
	f.add("mps-needs-idle-sms", s.busy(0.8), s.cw.Demand().Busy*100)
	f.add("mps-fault-spreads", n > 1, n)
	f.add("mps-client-killed", n > 1)
	f.add("mps-fault-state-lasts", n > 1)
	f.add("mps-limit-per-process", s.w.ProcessCount() > 1, s.w.ProcessCount())
	f.add("mps-memory-fraction", s.in(sharing.MechanismMPS, sharing.MechanismHAMiWithMPS) && n > 1 &&
		s.framework("vllm", "sglang", "tgi") && fraction > 1/float64(n), fraction)
	dir, set := s.w.Env["CUDA_MPS_PIPE_DIRECTORY"]
	f.add("mps-pipe-directory", set && !strings.HasPrefix(dir, "/"), problem.Clip(dir))
	devices := s.w.Env["CUDA_VISIBLE_DEVICES"]
	f.add("mps-device-ordinals", len(ordinals(devices)) > 0, problem.Clip(devices))
	limits := s.w.Env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]
	f.add("mps-limit-dropped", slices.Max(append(ordinals(limits), -1)) >= s.w.GPUCount(), problem.Clip(limits))
	f.add("mps-one-user-per-server", s.in(sharing.MechanismMPS) && s.uids && pool.MPSProtocol != 3)
	f.add("mps-on-mig-delivery", s.in(sharing.MechanismMIGWithMPS) && pool.Delivery <= sharing.DeliveryGPUOperator)
	f.add("mps-q-flag", pool.MPSProtocol == 3 || pool.Driver.Major >= 615)
}

// ofMIG finds the traps of MIG and of its emulation.
func (s *trapInput) ofMIG(f found) {
	instances, pool := s.in(sharing.MechanismMIG, sharing.MechanismMIGWithMPS), s.pool()
	f.add("emulation-is-not-mig", s.in(sharing.MechanismMIGLikeEmulation))
	f.add("mig-needs-idle-instances", instances && len(pool.Layouts) > 0)
	f.add("mig-gone-after-reboot", instances && pool.Delivery == sharing.DeliveryDevicePlugin &&
		!strings.HasPrefix(pool.Platform, "gke") && !strings.HasPrefix(pool.Platform, "aks")) // they partition at start
	f.add("parallelism-across-slices", s.w.GPUCount() > 1 && slices.Contains(migFamily, s.r.Mechanism), s.w.GPUCount())
	if s.p == nil || s.p.Target().Model() == nil {
		return
	}
	model := s.p.Target().Model()
	blocked := slices.IndexFunc(pool.Layouts, func(text string) bool { return blocksLarge(model, text) })
	f.add("first-fit-blocks-4g", blocked >= 0, blocked)
	if asked, err := model.Profile(s.r.Profile); err == nil {
		have, known := asked.Memory.Get()
		need := s.cw.Demand().Memory
		f.add("model-exceeds-slice", known && need.Total > have, need, asked.Name, have)
	}
	if p, err := model.Profile(cmp.Or(s.r.Profile, s.profile)); err == nil {
		ci, known := p.DefaultCI.Get()
		listed := ""
		if sms, known := p.SMs.Get(); known {
			listed = fmt.Sprintf(", listed with %d SMs,", sms)
		}
		f.add("double-memory-slice", pool.Delivery == sharing.DeliveryDRA && known && ci == doubleMemoryCI, p.Name, listed)
	}
}

// ofFigures finds the traps of figures and of cost, and of a pool's nodes.
func (s *trapInput) ofFigures(f found) {
	for evidence, id := range map[fleet.Evidence]string{"vendor": "figures-of-others", "synthetic": "synthetic-figures",
		"nvml-utilization": "utilisation-is-not-load", "equal-concurrency": "equal-load-per-model"} {
		f.add(id, s.w.Evidence == evidence)
	}
	f.add("shared-gpu-metrics", s.w.Evidence == "nvml-utilization" && s.r.Mechanism != sharing.MechanismNone &&
		s.in(sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS))
	pool := s.pool()
	f.add("node-group-without-driver", strings.HasPrefix(pool.Platform, "eks") &&
		strings.HasPrefix(pool.InstanceType, "g6e"))
	if n := pool.CPUNodes; n != nil {
		f.add("unlike-cost-sides", n.Shared != n.Dedicated, n.Shared, n.Dedicated)
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

// blocksLarge reports whether a 3g at start 0 keeps a layout's free half from holding the 4g that only starts there.
func blocksLarge(model *mig.Model, text string) bool {
	layout, err := model.ParseLayout(text)
	if err != nil {
		return false
	}
	low, high := false, false
	for _, in := range layout.Instances {
		low = low || in.Start == 0 && in.Profile.ComputeSlices == 3
		high = high || in.Start >= 4
	}
	return low && !high
}

// sortHits puts the worst first, and keeps the order of hits as bad.
func sortHits(hits []TrapHit) {
	slices.SortStableFunc(hits, func(a, b TrapHit) int { return cmp.Compare(b.Severity, a.Severity) })
}

// findTraps fills in the traps of a decision: those in the input, and those that the layout accepts. A neighbour with
// kernels that leave a server no SMs is a reason against MPS.
func (s *trapInput) findTraps(d *Decision) {
	asked, chosen := *s, *s
	asked.chosen, asked.profile, asked.tenants = sharing.MechanismNone, "", 0
	chosen.r = fleet.Asked{}
	d.Traps = []TrapHit{}
	inInput, inLayout := asked.find(), chosen.find()
	for _, t := range sharing.Traps() {
		hit := TrapHit{ID: t.ID, Severity: t.Severity, Message: inInput[t.ID]}
		if hit.Message != "" {
			d.Traps = append(d.Traps, hit)
			continue
		}
		hit.Message = inLayout[t.ID]
		bears := trapTexts[t.ID]
		switch {
		case hit.Message == "":
		case t.ID == "mps-chains-starve" && !s.mps():
			d.NotChosen = append(d.NotChosen, hit.Message)
		case bears.Counted:
		case bears.Precaution != "":
			hit.Message += "; " + bears.Precaution
			d.Accepts = append(d.Accepts, hit)
		default:
			d.Traps = append(d.Traps, hit)
		}
	}
	sortHits(d.Traps)
	sortHits(d.Accepts)
}

// TrapsToday returns the traps of a workload with its present share of a GPU (Workload.Request) on p, which may be nil,
// the most severe first. here is the number of pods on its fullest GPU, 0 if unknown. A trap that occurs only once all
// advertised shares of a GPU are taken is reported as a future one, of at most medium severity.
func TrapsToday(w *Workload, p *Pool, here int) []TrapHit {
	var pool *score.CompiledPool
	if p != nil {
		pool, _ = score.CompilePool(p) // of a GPU that is not known, traps of pools are not known either
	}
	s := newTrapInput(score.CompileWorkload(w), pool)
	var full found
	if here > 0 && s.r.Replicas > here {
		full = s.find()
	}
	s.here = here
	now := s.find()
	var hits []TrapHit
	for _, t := range sharing.Traps() {
		message, severity := now[t.ID], t.Severity
		if then := full[t.ID]; message == "" && then != "" {
			message = fmt.Sprintf("once all %d places of a GPU are taken: %s", s.r.Replicas, then)
			severity = min(severity, sharing.SeverityMedium)
		}
		if message != "" {
			hits = append(hits, TrapHit{ID: t.ID, Severity: severity, Message: message, Sources: t.Sources})
		}
	}
	sortHits(hits)
	return hits
}
