package placement

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Code says what a verdict rests on. Codes are stable: their texts are part of
// output. Later codes are closer to a fit.
type Code uint8

// The codes.
const (
	CodeFits Code = iota
	CodeCPU
	CodeMemory
	CodeModel
	CodeGPUCount
	CodeMIGMode
	CodeNotMIG
	CodeProfile
	CodeNoMechanism
	CodeMechanism
	CodeMemoryUnknown
	CodeTenants
	CodeTrust
	CodeSlices
	CodeGPUMemory
	CodeGPUShare
	CodeSlowdownUnknown
	CodeTTFT
	CodeTPOT
	CodeE2E
	CodeSlowdown
	codeCount
)

var codeNames = [codeCount]string{"fits", "cpu", "memory", "model", "gpu-count", "mig-mode", "not-mig", "profile", "no-mechanism",
	"mechanism", "gpu-memory-unknown", "tenants", "trust", "slices", "gpu-memory", "gpu-share", "slowdown-unknown", "ttft", "tpot", "e2e", "slowdown"}

// String returns the code's text, for example "gpu-share".
func (c Code) String() string {
	if c >= codeCount {
		return fmt.Sprintf("code-%d", c)
	}
	return codeNames[c]
}

// MarshalText returns the code's text.
func (c Code) MarshalText() ([]byte, error) {
	if c >= codeCount {
		return nil, fmt.Errorf("%w: %d is no code", ErrInvalid, uint8(c))
	}
	return []byte(c.String()), nil
}

// UnmarshalText reads a code's text.
func (c *Code) UnmarshalText(b []byte) error {
	i := slices.Index(codeNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("%w: unknown code %.40q", ErrInvalid, b)
	}
	*c = Code(i)
	return nil
}

// Fit is the filter's word on a node: a verdict and its reason.
type Fit struct {
	Verdict decision.Verdict
	Code    Code
	// Need and Have are what is asked for and the best that there is, in the
	// code's unit: thousandths, bytes, GPUs, thousandths of a slowdown,
	// microseconds of a latency.
	Need, Have int64
	// Low and High bound a prediction, Have, with a probability of 90%. With
	// Need below High and not below Low the verdict is unknown: only a
	// measurement settles it. 0 where nothing was predicted.
	Low, High int64
}

// String puts the reason into words.
func (f Fit) String() string {
	b := func(n int64) sharing.Bytes { return sharing.Bytes(n) }
	switch f.Code {
	case CodeFits:
		return "it fits"
	case CodeCPU:
		return fmt.Sprintf("needs %dm CPU, %dm are free", f.Need, f.Have)
	case CodeMemory:
		return fmt.Sprintf("needs %v of memory, %v are free", b(f.Need), b(f.Have))
	case CodeModel:
		return "the GPU's model is not among those asked for"
	case CodeGPUCount:
		return fmt.Sprintf("needs %d GPUs with one mechanism, %d would do", f.Need, f.Have)
	case CodeMIGMode:
		return "the GPU is in MIG mode: ask for a profile"
	case CodeNotMIG:
		return "a MIG instance is asked for and the GPU is not in MIG mode"
	case CodeProfile:
		return "the GPU has no such MIG profile"
	case CodeNoMechanism:
		return "the GPU runs no sharing mechanism yet and the request names none"
	case CodeMechanism:
		return "the GPU runs a mechanism that the request does not accept"
	case CodeMemoryUnknown:
		return "whether GPU memory suffices is not known: state the GPU's memory"
	case CodeTenants:
		return "the GPU has as many tenants as it takes"
	case CodeTrust:
		return "a tenant on the GPU is not trusted and the mechanism does not isolate"
	case CodeSlices:
		return "no start of the profile is free"
	case CodeGPUMemory:
		return fmt.Sprintf("needs %v of GPU memory, the most free is %v", b(f.Need), b(f.Have))
	case CodeGPUShare:
		return fmt.Sprintf("needs %d thousandths of a GPU, the most free is %d", f.Need, f.Have)
	case CodeSlowdownUnknown:
		return "how much neighbours slow it down, or it them, is not known and there is an objective"
	case CodeSlowdown, CodeTTFT, CodeTPOT, CodeE2E:
		return f.objective()
	}
	return f.Code.String()
}

func pass() Fit { return Fit{Verdict: decision.VerdictPass} }

func reject(c Code, need, have int64) Fit {
	v := decision.VerdictReject
	switch c {
	case CodeMemoryUnknown, CodeSlowdownUnknown:
		v = decision.VerdictUnknown
	case CodeNoMechanism, CodeMIGMode, CodeNotMIG:
		v = decision.VerdictFixable
	}
	return Fit{Verdict: v, Code: c, Need: need, Have: have}
}

// closer keeps the reason that came nearest to a fit.
func (f *Fit) closer(g Fit) {
	if g.Code > f.Code || g.Code == f.Code && (g.Verdict == decision.VerdictUnknown && f.Verdict != g.Verdict || g.Verdict == f.Verdict && g.Have > f.Have) {
		*f = g
	}
}

func onesCount(m uint32) int { return bits.OnesCount32(m) }

// Fit filters one node: whether the request fits it now, and if not why. p
// judges objectives, and may be nil: then requests that have one and would get
// neighbours are unknown. It does not allocate where there is no forecaster.
func (s *Snapshot) Fit(i int, r *Request, p Forecaster) Fit {
	n := s.node(i)
	f := fitNode(n, r)
	if f.Verdict != decision.VerdictPass || r.GPUs == 0 {
		return f
	}
	var j *judge
	if p != nil {
		j = &judge{p: p}
	}
	why, count := Fit{}, 0
	var takes [MaxGPUs]take
	for g := range n.view.GPUs[:n.view.Len] {
		t, f := fitGPU(n, g, r, j)
		if f.Verdict == decision.VerdictPass && t.profile != nil {
			f = fitSlices(&n.view.GPUs[g], t.profile)
		}
		if f.Verdict != decision.VerdictPass {
			why.closer(f)
			continue
		}
		takes[count] = t
		if count++; alike(takes[:count], t) == r.GPUs {
			return pass()
		}
	}
	if count > 0 || why.Code == CodeFits {
		best := 0
		for _, t := range takes[:count] {
			best = max(best, alike(takes[:count], t))
		}
		return reject(CodeGPUCount, int64(r.GPUs), int64(best))
	}
	return why
}

// alike counts the GPUs on which a request would take the same by the same
// mechanism as t: the GPUs of one request are alike.
func alike(takes []take, t take) int {
	n := 0
	for i := range takes {
		if takes[i].mechanism == t.mechanism && takes[i].milli == t.milli {
			n++
		}
	}
	return n
}

func fitSlices(g *GPUView, p *mig.Profile) Fit {
	for _, pl := range p.Placements {
		if _, ok := g.Slices.With(p, pl.Start); ok {
			return pass()
		}
	}
	return reject(CodeSlices, 0, 0)
}

func fitNode(n *node, r *Request) Fit {
	v := &n.view
	switch {
	case r.CPUMilli > v.CPUMilli:
		return reject(CodeCPU, r.CPUMilli, v.CPUMilli)
	case r.Memory > v.Memory:
		return reject(CodeMemory, int64(r.Memory), int64(v.Memory))
	case r.GPUs > 0 && len(r.Models) > 0 && !slices.Contains(r.Models, v.Model):
		return reject(CodeModel, 0, 0)
	case r.GPUs > v.Len:
		return reject(CodeGPUCount, int64(r.GPUs), int64(v.Len))
	}
	return pass()
}

// take is what a request takes of one GPU.
type take struct {
	mechanism sharing.Mechanism
	milli     int32
	memory    sharing.Bytes
	profile   *mig.Profile
	slowdown  float64 // the worst that is predicted for anyone; 0 = not predicted
	lost      float64 // thousandths of work that all on the GPU lose more than before
	unknown   int32   // tenants of which that is not predicted
}

// fitGPU says what r would take of a GPU and whether that is free, but for the
// starts of a MIG profile.
func fitGPU(n *node, i int, r *Request, j *judge) (take, Fit) {
	g := &n.view.GPUs[i]
	if r.Profile != "" {
		return fitMIG(g, r)
	}
	if g.MIG != nil {
		return take{}, reject(CodeMIGMode, 0, 0)
	}
	t := take{mechanism: g.Mechanism, milli: int32(r.Milli), memory: r.GPUMemory}
	if f := chooseMechanism(g, r, &t); f.Verdict != decision.VerdictPass {
		return t, f
	}
	if r.GPUMemory > 0 && g.Total == 0 {
		return t, reject(CodeMemoryUnknown, int64(r.GPUMemory), 0)
	}
	if r.Milli == 0 {
		t.milli = milliOf(r.GPUMemory, g.Total)
	}
	switch {
	case g.Room == 0 || g.Tenants >= bound(t.mechanism):
		if g.Milli < t.milli {
			return t, reject(CodeGPUShare, int64(t.milli), int64(g.Milli))
		}
		return t, reject(CodeTenants, 1, 0)
	case g.Tenants > 0 && !separates(t.mechanism) && !n.trusted(i, r):
		return t, reject(CodeTrust, 0, 0)
	case r.GPUMemory > 0 && r.GPUMemory > g.Memory:
		return t, reject(CodeGPUMemory, int64(r.GPUMemory), int64(g.Memory))
	case t.milli > g.Milli:
		return t, reject(CodeGPUShare, int64(t.milli), int64(g.Milli))
	}
	if g.Tenants > 0 {
		return t, n.predict(i, r, &t, j)
	}
	return t, pass()
}

func fitMIG(g *GPUView, r *Request) (take, Fit) {
	if g.MIG == nil {
		return take{}, reject(CodeNotMIG, 0, 0)
	}
	if len(r.Mechanisms) > 0 && !slices.Contains(r.Mechanisms, sharing.MechanismMIG) {
		return take{}, reject(CodeMechanism, 0, 0)
	}
	prof := profileOf(g.MIG, r.Profile)
	if prof == nil {
		return take{}, reject(CodeProfile, 0, 0)
	}
	if prof.Memory.Known && r.GPUMemory > prof.Memory.Value {
		return take{}, reject(CodeGPUMemory, int64(r.GPUMemory), int64(prof.Memory.Value))
	}
	return take{mechanism: sharing.MechanismMIG, profile: prof, memory: r.GPUMemory}, pass()
}

// profileOf finds a profile by its canonical name without allocating, and only
// then by another of its names; nil when the GPU has none.
func profileOf(m *mig.Model, name string) *mig.Profile {
	for _, p := range m.Profiles {
		if p.Name == name {
			return p
		}
	}
	p, err := m.Profile(name)
	if err != nil {
		return nil
	}
	return p
}

// chooseMechanism sets what the request would run under on a GPU.
func chooseMechanism(g *GPUView, r *Request, t *take) Fit {
	if r.whole() {
		if len(r.Mechanisms) > 0 && !slices.Contains(r.Mechanisms, sharing.MechanismExclusive) && !slices.Contains(r.Mechanisms, g.Mechanism) {
			return reject(CodeMechanism, 0, 0)
		}
		if g.Mechanism == sharing.MechanismNone {
			t.mechanism = sharing.MechanismExclusive
		}
		return pass()
	}
	switch {
	case g.Mechanism == sharing.MechanismExclusive:
		return reject(CodeMechanism, 0, 0)
	case g.Mechanism != sharing.MechanismNone:
		if len(r.Mechanisms) > 0 && !slices.Contains(r.Mechanisms, g.Mechanism) {
			return reject(CodeMechanism, 0, 0)
		}
		return pass()
	}
	for _, m := range r.Mechanisms {
		if m != sharing.MechanismExclusive && m != sharing.MechanismMIG {
			t.mechanism = m
			return pass()
		}
	}
	return reject(CodeNoMechanism, 0, 0)
}

// milliOf is the share of a GPU that goes with a part of its memory, rounded up.
func milliOf(b, total sharing.Bytes) int32 {
	if b >= total {
		if b > total {
			return 1001
		}
		return 1000
	}
	return int32((1000*b + total - 1) / total)
}

// trusted reports whether all tenants of a GPU and r trust each other.
func (n *node) trusted(gpu int, r *Request) bool {
	if !n.mixed && n.tenant == r.Tenant {
		return true
	}
	for _, p := range n.placed {
		if slices.Contains(p.GPUs, gpu) && !trusts(p.Request, r) {
			return false
		}
	}
	return true
}
