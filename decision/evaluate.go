package decision

import (
	"math"

	"github.com/cotenant/cotenant/sharing"
)

// Neighbours says how many replicas could stand beside one of a workload's on
// the same GPU: those whose tenants trust one another (other replicas of the
// workload included), and those of tenants that do not.
type Neighbours struct {
	Trusted   int
	Untrusted int
}

// maxReasons bounds the reasons of a candidate; no path through the gates
// gives more.
const maxReasons = 12

// Scored is one candidate: a mechanism for a workload on a pool.
type Scored struct {
	Mechanism sharing.Mechanism
	Verdict   Verdict
	// Tenants is the number of replicas expected on one GPU.
	Tenants int
	// Score is 0 to 100 and stands for every candidate that is not rejected.
	Score float64
	// Raw, Normalised and Weighted are the parts of the score by Criterion;
	// Weighted sums to Score/100.
	Raw, Normalised, Weighted [CriterionCount]float64

	profile int16 // index into the pool's profiles, -1 = none
	n       uint8
	reasons [maxReasons]Reason
}

// Reasons returns the candidate's reasons, the gates' in their order. The
// slice is the candidate's own.
func (s *Scored) Reasons() []Reason { return s.reasons[:s.n] }

func (s *Scored) add(v Verdict, c Code, a, b int64) {
	s.Verdict = worse(s.Verdict, v)
	if s.n < maxReasons {
		s.reasons[s.n] = Reason{Code: c, Mechanism: s.Mechanism, Verdict: v, A: a, B: b}
		s.n++
	}
}

// Evaluation holds every mechanism's candidate for one workload on one pool,
// in the order of sharing.Mechanisms.
type Evaluation struct {
	Candidates [sharing.MechanismCount - 1]Scored
}

// Best returns the passing candidate with the highest score, or nil. Equal
// scores go to the mechanism that stands first.
func (e *Evaluation) Best() *Scored {
	var best *Scored
	for i := range e.Candidates {
		c := &e.Candidates[i]
		if c.Verdict == VerdictPass && (best == nil || c.Score > best.Score) {
			best = c
		}
	}
	return best
}

// Evaluate filters and scores one workload against one pool into ev, which it
// overwrites. It does not allocate and is safe for concurrent use with
// different evs.
func Evaluate(w *CompiledWorkload, p *CompiledPool, nb Neighbours, ev *Evaluation) {
	for i := range ev.Candidates {
		c := &ev.Candidates[i]
		c.Mechanism = sharing.Mechanism(i + 1)
		c.Verdict, c.Tenants, c.Score, c.profile, c.n = VerdictPass, 1, 0, -1, 0
		gates(w, p, nb, c)
		if c.Verdict == VerdictReject {
			c.Raw, c.Normalised, c.Weighted = [CriterionCount]float64{}, [CriterionCount]float64{}, [CriterionCount]float64{}
			continue
		}
		score(w, p, c)
	}
}

// gates runs every gate, so that a rejected candidate has all its reasons.
func gates(w *CompiledWorkload, p *CompiledPool, nb Neighbours, c *Scored) {
	m, t := c.Mechanism, &traits[c.Mechanism]
	gatePool(w, p, c)
	gateHardware(p, c)
	if m == sharing.MechanismInServer {
		gateInServer(w, c)
	}
	if m != sharing.MechanismExclusive {
		gateKind(w, c)
		gateIsolation(w, p, c)
		gateTrust(nb, t, c)
		gateMultiGPU(w, c)
		gateFramework(w, p, c)
	}
	gateFit(w, p, nb, t, c)
	gateSLO(w, p, t, c)
}

func gatePool(w *CompiledWorkload, p *CompiledPool, c *Scored) {
	if pin := w.workload.Pool; pin != "" && pin != p.pool.Name {
		c.add(VerdictReject, CodePinnedElsewhere, 0, 0)
	}
	if !p.allowed[c.Mechanism] {
		c.add(VerdictReject, CodeNotAllowedInPool, 0, 0)
	}
	limit := p.pool.Count
	if p.pool.GPUsPerNode > 0 {
		limit = min(limit, p.pool.GPUsPerNode)
	}
	if g := w.workload.gpus(); g > limit {
		c.add(VerdictReject, CodeTooManyGPUs, int64(g), int64(limit))
	}
}

func gateHardware(p *CompiledPool, c *Scored) {
	switch c.Mechanism {
	case sharing.MechanismExclusive, sharing.MechanismInServer:
		return
	case sharing.MechanismResearch:
		c.add(VerdictReject, CodeResearch, 0, 0)
		return
	}
	switch p.answers[c.Mechanism] {
	case sharing.AnswerNo:
		c.add(VerdictReject, CodeHardware, 0, 0)
	case sharing.AnswerUnknown:
		c.add(VerdictUnknown, CodeHardwareUnknown, 0, 0)
	}
	if (c.Mechanism == sharing.MechanismVGPU || c.Mechanism == sharing.MechanismMIGBackedVGPU) && !p.pool.VGPU {
		c.add(VerdictFixable, CodeNeedsVGPUHost, 0, 0)
	}
	if c.Mechanism == sharing.MechanismMIGWithMPS && (p.pool.Delivery == "" || p.pool.Delivery == "device-plugin" || p.pool.Delivery == "gpu-operator") {
		c.add(VerdictFixable, CodeMIGMPSDelivery, 0, 0)
	}
}

// gateInServer: one server can take the place of several replicas of the same
// model, which only its team can do.
func gateInServer(w *CompiledWorkload, c *Scored) {
	k := w.workload.Kind
	if k != KindOnlineInference && k != KindOfflineInference {
		c.add(VerdictReject, CodeNotAServer, 0, 0)
	} else if w.workload.replicas() < 2 {
		c.add(VerdictReject, CodeOneReplica, 0, 0)
	} else {
		c.add(VerdictFixable, CodeMergeReplicas, int64(w.workload.replicas()), 0)
	}
}

func gateKind(w *CompiledWorkload, c *Scored) {
	if w.arch.NeverShares {
		c.add(VerdictReject, CodeGang, 0, 0)
		return
	}
	if !traits[c.Mechanism].contends {
		return
	}
	switch {
	case w.busyHow == busyUnknown:
		c.add(VerdictUnknown, CodeBusyUnknown, 0, 0)
	case w.busyHow == busyPrior:
		c.add(VerdictPass, CodeBusyPrior, permille(w.busy), 0)
	case w.busy >= w.arch.SaturatedFrom:
		c.add(VerdictReject, CodeSaturated, permille(w.busy), permille(w.arch.SaturatedFrom))
	}
}

func gateIsolation(w *CompiledWorkload, p *CompiledPool, c *Scored) {
	if !w.demands {
		return
	}
	for a := sharing.Axis(0); int(a) < sharing.AxisCount; a++ {
		want := w.workload.Isolation.Level(a)
		if want == sharing.LevelUnknown {
			continue
		}
		have := p.levels[c.Mechanism][a]
		switch have.AtLeast(want) {
		case sharing.AnswerNo:
			c.add(VerdictReject, CodeIsolation, int64(a), int64(want))
		case sharing.AnswerUnknown:
			c.add(VerdictUnknown, CodeIsolationUnknown, int64(a), int64(want))
		}
	}
}

func gateTrust(nb Neighbours, t *trait, c *Scored) {
	if !t.trusted || nb.Trusted > 0 {
		return
	}
	if nb.Untrusted > 0 {
		c.add(VerdictReject, CodeUntrusted, int64(nb.Untrusted), 0)
	} else {
		c.add(VerdictReject, CodeAlone, 0, 0)
	}
}

func gateMultiGPU(w *CompiledWorkload, c *Scored) {
	if g := w.workload.gpus(); g > 1 && c.Mechanism != sharing.MechanismInServer {
		c.add(VerdictReject, CodeMultiGPU, int64(g), 0)
	}
}

func gateFramework(w *CompiledWorkload, p *CompiledPool, c *Scored) {
	f := w.workload.Framework
	switch c.Mechanism {
	case sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		if f != nil && (f.Privileged || f.StaticCUDA) {
			c.add(VerdictFixable, CodeHAMiBypass, 0, 0)
		}
	case sharing.MechanismMIGLikeEmulation:
		if f == nil || !takesMemoryFraction(f.Name) {
			c.add(VerdictReject, CodeNoMemoryFraction, 0, 0)
		}
		if p.answers[sharing.MechanismMIG] == sharing.AnswerYes {
			c.add(VerdictPass, CodeMIGIsThere, 0, 0)
		}
	}
}

// takesMemoryFraction: the frameworks whose memory fraction is known.
func takesMemoryFraction(name string) bool {
	switch name {
	case "vllm", "tgi", "sglang":
		return true
	}
	return false
}

// gateFit decides memory and compute, and with them the profile and how many
// replicas one GPU carries.
func gateFit(w *CompiledWorkload, p *CompiledPool, nb Neighbours, t *trait, c *Scored) {
	need := w.need.Total
	if w.need.KVPrior {
		c.add(VerdictPass, CodeKVPrior, int64(w.need.KVCache), 0)
	}
	if c.Mechanism == sharing.MechanismExclusive || c.Mechanism == sharing.MechanismResearch || c.Mechanism == sharing.MechanismInServer {
		switch {
		case p.memory == 0:
			c.add(VerdictUnknown, CodeMemoryUnknown, int64(need), 0)
		case need > p.memory:
			c.add(VerdictReject, CodeMemory, int64(need), int64(p.memory))
		default:
			noteFraction(w, need, p.memory, c)
		}
		if c.Mechanism == sharing.MechanismInServer {
			c.Tenants = w.workload.replicas()
		}
		return
	}
	if t.sliced {
		gateSlice(w, p, nb, c)
		return
	}
	if t.limited {
		need += ContextMemory // what a limit holds back (a.7)
	}
	if p.memory == 0 {
		c.add(VerdictUnknown, CodeMemoryUnknown, int64(need), 0)
		return
	}
	n := int(p.memory / max(1, need))
	if n < 1 {
		c.add(VerdictReject, CodeMemory, int64(need), int64(p.memory))
		return
	}
	if n < 2 {
		c.add(VerdictReject, CodeMemoryForTwo, int64(need), int64(p.memory))
		return
	}
	if byBusy := fitBusy(w.busy, t.capacity); byBusy < n {
		n = byBusy
		if n < 2 && w.busyHow == busyStated {
			c.add(VerdictReject, CodeBusyForTwo, permille(w.busy), permille(t.capacity))
		}
	}
	if t.clients && p.clients > 0 {
		n = min(n, p.clients/w.workload.processes())
	}
	if t.maxTenants > 0 {
		n = min(n, t.maxTenants)
	}
	around := nb.Trusted
	if !t.trusted {
		around += nb.Untrusted
	}
	c.Tenants = max(1, min(n, around+1))
}

// noteFraction: a framework takes only its fraction of the memory it sees.
func noteFraction(w *CompiledWorkload, need, visible sharing.Bytes, c *Scored) {
	if f := w.workload.Framework; f != nil && f.MemoryFraction != nil && float64(need) > *f.MemoryFraction*float64(visible) {
		c.add(VerdictPass, CodeFraction, int64(need), int64(visible))
	}
}

// fitBusy is how many replicas of a busy share fit the capacity of a GPU.
func fitBusy(busy, capacity float64) int {
	if busy <= 0 {
		return math.MaxInt16
	}
	return int(min(capacity/busy+1e-9, math.MaxInt16))
}

// gateSlice picks the smallest profile with enough memory in which the
// workload's work gets done.
func gateSlice(w *CompiledWorkload, p *CompiledPool, nb Neighbours, c *Scored) {
	if p.model == nil || len(p.profiles) == 0 {
		if p.answers[c.Mechanism] != sharing.AnswerNo {
			c.add(VerdictUnknown, CodeProfilesUnknown, 0, 0)
		}
		return
	}
	inside := 1
	need := w.need.Total
	if c.Mechanism == sharing.MechanismMIGWithMPS {
		inside = 2
		need = 2 * (need + ContextMemory)
	}
	unknown, tooSmall, saturated := false, -1, -1
	for i := range p.profiles {
		s := &p.profiles[i]
		switch {
		case s.memory == 0:
			unknown = true
		case s.memory < need:
			if tooSmall < 0 || s.memory > p.profiles[tooSmall].memory {
				tooSmall = i
			}
		case w.busyHow == busyStated && w.busy*s.slowdown*float64(inside) > 1:
			saturated = i
		default:
			c.profile = int16(i)
			noteSlice(w, p, nb, s, need, inside, c)
			return
		}
	}
	switch {
	case saturated >= 0:
		c.add(VerdictReject, CodeSliceSaturated, permille(w.busy), int64(saturated))
	case unknown:
		c.add(VerdictUnknown, CodeMemoryUnknown, int64(need), 0)
	case tooSmall >= 0:
		c.add(VerdictReject, CodeMemorySlice, int64(need), int64(tooSmall))
	}
}

func noteSlice(w *CompiledWorkload, p *CompiledPool, nb Neighbours, s *slice, need sharing.Bytes, inside int, c *Scored) {
	// Name the next smaller profile that the memory rules out.
	for i := range p.profiles {
		if o := &p.profiles[i]; o.memory > 0 && o.memory < need && o.capacity >= s.capacity {
			c.add(VerdictPass, CodeSliceTooSmall, int64(need), int64(i))
			break
		}
	}
	c.add(VerdictPass, CodeSliceFits, int64(need), int64(c.profile))
	noteFraction(w, need, s.memory, c)
	if w.busyHow == busyStated && w.busy > 0 {
		c.add(VerdictPass, CodeSliceLoad, permille(w.busy*s.slowdown*float64(inside)), int64(math.Round(s.slowdown*100)))
	}
	c.Tenants = max(1, min(s.capacity*inside, nb.Trusted+nb.Untrusted+1))
	if inside > 1 {
		c.Tenants = max(1, min(s.capacity*inside, nb.Trusted+1))
	}
}

// gateSLO compares the latencies measured alone, times what neighbours or a
// slice may do to them, with the limits.
func gateSLO(w *CompiledWorkload, p *CompiledPool, t *trait, c *Scored) {
	if !w.hasSLO {
		return
	}
	_, low, high := slowdownBy(c.Mechanism, c.Tenants, w.busy)
	if t.sliced && c.profile >= 0 {
		s := &p.profiles[c.profile]
		high *= s.inverse
	}
	if w.evidenced && (c.Mechanism == sharing.MechanismTimeSlicing || c.Mechanism == sharing.MechanismMPS) {
		c.add(VerdictPass, CodeSLOPredicted, int64(c.Tenants), 0)
		return
	}
	unmeasured, bounded := false, true
	for i := range w.slo {
		if w.slo[i] == 0 {
			continue
		}
		switch solo := w.solo[i]; {
		case solo == 0:
			unmeasured, bounded = true, false
		case solo*low > w.slo[i]:
			c.add(VerdictReject, CodeSLOMissed, int64(i), int64(solo*low*1e6))
			bounded = false
		case solo*high > w.slo[i]:
			c.add(VerdictUnknown, CodeSLOOpen, int64(i), int64(solo*high*1e6))
			bounded = false
		}
	}
	if t.turns && w.arch.LatencyBound && !bounded {
		c.add(VerdictReject, CodeSLOTurns, 0, 0)
		return
	}
	switch {
	case !unmeasured || c.Mechanism == sharing.MechanismExclusive:
	case t.turns:
		c.add(VerdictUnknown, CodeSLOUnmeasured, int64(c.Tenants), 0)
	default:
		c.add(VerdictPass, CodeSLOUnmeasured, int64(c.Tenants), 0)
	}
}

func permille(f float64) int64 { return int64(math.Round(f * 1000)) }

// score fills the parts of the score; see Anchors.
func score(w *CompiledWorkload, p *CompiledPool, c *Scored) {
	t := &traits[c.Mechanism]
	expected, _, _ := slowdownBy(c.Mechanism, c.Tenants, w.busy)
	c.Raw[CriterionIsolation] = p.isolationMu[c.Mechanism]
	c.Raw[CriterionLatency] = expected
	if t.sliced && c.profile >= 0 && !w.arch.LatencyBound {
		c.Raw[CriterionLatency] *= p.profiles[c.profile].slowdown
	}
	c.Raw[CriterionThroughput] = t.aggregate
	c.Raw[CriterionCost] = 1 / float64(c.Tenants)
	c.Raw[CriterionComplexity] = t.complexity
	c.Raw[CriterionDensity] = float64(c.Tenants)
	total := 0.0
	for i := range CriterionCount {
		c.Normalised[i] = normalise(Criterion(i), c.Raw[i])
		c.Weighted[i] = c.Normalised[i] * w.weights[i]
		total += c.Weighted[i]
	}
	c.Score = 100 * total
}
