package decision

import (
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// row is a printed row of a source's flow or matrix: a situation and the
// source's answer.
type row struct {
	id    string
	gpu   string // default A100-SXM4-80GB
	pool  func(*Pool)
	w     Workload
	with  *Workload           // a neighbour that is also there
	print []sharing.Mechanism // the source's answers, in its order
	avoid []sharing.Mechanism
	// because names the trap or contradiction where we answer otherwise; empty
	// where we must agree.
	because sharing.SourceID
	want    sharing.Mechanism // our answer where because is set
}

func mechs(ms ...sharing.Mechanism) []sharing.Mechanism { return ms }

var (
	busy10   = 0.10
	busy25   = 0.25
	busy95   = 0.95
	gib2     = 2 * sharing.GiB
	gib5     = 5 * sharing.GiB
	gib8     = 8 * sharing.GiB
	gib40    = 40 * sharing.GiB
	ms50     = predict.Duration(50e6)
	ms800    = predict.Duration(800e6)
	s1       = predict.Duration(1e9)
	hard     = Isolation{Memory: sharing.LevelHardware, Fault: sharing.LevelHardware}
	online   = Workload{Name: "w", Kind: KindOnlineInference, Replicas: Replicas{Max: 4}, Memory: &gib8, GPUBusy: &busy10}
	strict   = Workload{Name: "w", Kind: KindOnlineInference, Replicas: Replicas{Max: 4}, Memory: &gib8, GPUBusy: &busy10, SLO: predict.SLO{E2EP99: &s1, TPOTP99: &ms50}, Isolation: hard}
	devtest  = Workload{Name: "w", Kind: KindNotebook, Replicas: Replicas{Max: 4}, Memory: &gib5}
	batch    = Workload{Name: "w", Kind: KindBatch, Replicas: Replicas{Max: 4}, Memory: &gib8, GPUBusy: &busy25}
	gang     = Workload{Name: "w", Kind: KindDistributedTraining, Replicas: Replicas{Max: 2}, GPUs: 4, Memory: &gib40, GPUBusy: &busy95}
	research = Workload{Name: "w", Kind: KindHPC, Replicas: Replicas{Max: 4}, Memory: &gib8, GPUBusy: &busy10}
)

func with(w Workload, f func(*Workload)) Workload {
	f(&w)
	return w
}

func foreign(w Workload) *Workload {
	w.Name, w.Tenant = "other", "other-tenant"
	return &w
}

// rows are the printed rows of F1 to F8, A2, A3, A6, A7, A8, A9 and A19 that
// give an answer for a situation.
var rows = []row{
	// F1, five steps with both answers.
	{id: "F1", w: strict, print: mechs(sharing.MechanismMIG, sharing.MechanismExclusive), avoid: mechs(sharing.MechanismTimeSlicing)},
	{id: "F1", gpu: "L4", w: with(devtest, func(w *Workload) { w.Memory = &gib2 }), print: mechs(sharing.MechanismTimeSlicing)},
	{id: "F1", w: with(online, func(w *Workload) { w.Isolation = hard }), print: mechs(sharing.MechanismMIG)},
	{id: "F1", gpu: "T4", w: devtest, print: mechs(sharing.MechanismTimeSlicing, sharing.MechanismMPS)},
	// "Ampere+" has MIG: false for A10 and L4 (D4).
	{id: "F1", gpu: "A10", w: with(online, func(w *Workload) { w.Isolation = hard }), print: mechs(sharing.MechanismMIG), because: "D4", want: sharing.MechanismExclusive},
	{id: "F1", w: with(strict, func(w *Workload) { w.Tenant = "a" }), with: foreign(strict), print: mechs(sharing.MechanismVGPU, sharing.MechanismMIG)},
	// Medium security: time-slicing with monitoring. Untrusted tenants never do (D9).
	{id: "F1", w: with(batch, func(w *Workload) { w.Tenant, w.Replicas.Max = "a", 1 }), with: foreign(with(batch, func(w *Workload) { w.Replicas.Max = 1 })),
		gpu: "T4", print: mechs(sharing.MechanismTimeSlicing), because: "D9", want: sharing.MechanismExclusive},
	{id: "F1", w: devtest, print: mechs(sharing.MechanismTimeSlicing)},
	{id: "F1", w: with(strict, func(w *Workload) { w.Replicas.Max = 1 }), print: mechs(sharing.MechanismMIG, sharing.MechanismExclusive)},
	// Who can manage complexity gets fine-grained systems: none can be had.
	{id: "F1", w: research, print: mechs(sharing.MechanismResearch), because: "TESS", want: sharing.MechanismMPS},
	// F2, choose X when.
	{id: "F2", w: strict, print: mechs(sharing.MechanismMIG)},
	{id: "F2", w: with(strict, func(w *Workload) { w.Tenant = "a" }), with: foreign(strict), print: mechs(sharing.MechanismMIG)},
	{id: "F2", w: with(online, func(w *Workload) { w.Isolation = hard }), print: mechs(sharing.MechanismMIG)},
	{id: "F2", w: research, print: mechs(sharing.MechanismMPS)},
	{id: "F2", gpu: "L40S", w: with(batch, func(w *Workload) { w.GPUBusy = &busy10 }), print: mechs(sharing.MechanismMPS)},
	{id: "F2", gpu: "A10", w: devtest, print: mechs(sharing.MechanismTimeSlicing)},
	{id: "F2", gpu: "T4", w: with(devtest, func(w *Workload) { w.Kind = KindCI }), print: mechs(sharing.MechanismTimeSlicing)},
	// F3, the three archetypes.
	{id: "F3", w: gang, print: mechs(sharing.MechanismExclusive)},
	{id: "F3", gpu: "L40S", w: online, print: mechs(sharing.MechanismMPS), avoid: mechs(sharing.MechanismTimeSlicing)},
	{id: "F3", w: with(online, func(w *Workload) { w.Isolation = hard }), print: mechs(sharing.MechanismMIG), avoid: mechs(sharing.MechanismTimeSlicing)},
	{id: "F3", gpu: "T4", w: devtest, print: mechs(sharing.MechanismTimeSlicing, sharing.MechanismHAMi)},
	// F4, hardware gates the choice.
	{id: "F4", gpu: "H100 80GB HBM3", w: with(online, func(w *Workload) { w.Isolation = hard }), print: mechs(sharing.MechanismMIG)},
	{id: "F4", gpu: "T4", w: devtest, print: mechs(sharing.MechanismTimeSlicing, sharing.MechanismHAMi)},
	// F5, no sharing is a legitimate answer.
	{id: "F5", gpu: "T4", w: with(online, func(w *Workload) { w.Isolation = hard }), print: mechs(sharing.MechanismExclusive)},
	// F6, the hybrid: time-slicing for development, MIG for production.
	{id: "F6", w: devtest, with: foreign(strict), print: mechs(sharing.MechanismTimeSlicing)},
	{id: "F6", w: strict, with: foreign(devtest), print: mechs(sharing.MechanismMIG, sharing.MechanismVGPU)},
	// F7, idle work is shared, not given a GPU each.
	{id: "F7", w: with(devtest, func(w *Workload) { w.Replicas.Max = 8 }), print: mechs(sharing.MechanismTimeSlicing, sharing.MechanismHAMi)},
	// F8, emulation where MIG is missing: allowed, and never isolation (T5).
	{id: "F8", gpu: "L4", w: with(online, func(w *Workload) {
		w.Memory, w.Isolation = &gib5, hard
		w.Framework = &Framework{Name: "vllm"}
	}), print: mechs(sharing.MechanismMIGLikeEmulation), because: "T5", want: sharing.MechanismExclusive},
	// A2, business fit by strategy.
	{id: "A2", w: strict, print: mechs(sharing.MechanismMIG)},
	{id: "A2", w: devtest, print: mechs(sharing.MechanismTimeSlicing)},
	{id: "A2", gpu: "L40S", w: research, print: mechs(sharing.MechanismMPS)},
	{id: "A2", pool: func(p *Pool) { p.VGPU = true }, w: with(strict, func(w *Workload) { w.Tenant = "a" }), with: foreign(strict),
		print: mechs(sharing.MechanismVGPU), because: "C18", want: sharing.MechanismMIG},
	{id: "A2", w: research, print: mechs(sharing.MechanismResearch), because: "TESS", want: sharing.MechanismMPS},
	// Container-native is a delivery of another mechanism.
	{id: "A2", pool: func(p *Pool) { p.Delivery = "dra" }, w: devtest, print: mechs(sharing.MechanismTimeSlicing)},
	// A3, use cases with their order.
	{id: "A3", w: strict, print: mechs(sharing.MechanismMIG, sharing.MechanismVGPU, sharing.MechanismExclusive), avoid: mechs(sharing.MechanismTimeSlicing)},
	{id: "A3", w: devtest, print: mechs(sharing.MechanismTimeSlicing)},
	{id: "A3", w: with(strict, func(w *Workload) { w.Tenant = "a" }), with: foreign(strict), print: mechs(sharing.MechanismVGPU, sharing.MechanismMIG, sharing.MechanismResearch)},
	{id: "A3", w: research, print: mechs(sharing.MechanismResearch, sharing.MechanismMPS, sharing.MechanismTimeSlicing)},
	// A6, risk classes under time-slicing.
	{id: "A6", w: devtest, print: mechs(sharing.MechanismTimeSlicing)},
	{id: "A6", gpu: "T4", w: with(batch, func(w *Workload) { w.Memory = &gib5 }), print: mechs(sharing.MechanismTimeSlicing, sharing.MechanismMPS)},
	{id: "A6", gpu: "T4", w: with(online, func(w *Workload) { w.Memory, w.SLO = &gib5, predict.SLO{E2EP99: &ms800} }), print: mechs(sharing.MechanismMPS, sharing.MechanismExclusive), avoid: mechs(sharing.MechanismTimeSlicing)},
	// A7, the register's worst risk: latency under contention.
	{id: "A7", gpu: "T4", w: with(strict, func(w *Workload) { w.Memory, w.Isolation = &gib5, Isolation{} }), avoid: mechs(sharing.MechanismTimeSlicing), print: mechs(sharing.MechanismMPS, sharing.MechanismExclusive)},
	// A8, opportunities.
	{id: "A8", w: with(devtest, func(w *Workload) { w.Kind = KindCI }), print: mechs(sharing.MechanismTimeSlicing)},
	{id: "A8", w: strict, print: mechs(sharing.MechanismMIG)},
	// A9 and A19: a well-packed node before a second one.
	{id: "A9", w: with(devtest, func(w *Workload) { w.Replicas.Max = 4 }), print: mechs(sharing.MechanismTimeSlicing)},
	{id: "A19", w: with(online, func(w *Workload) { w.Isolation = hard }), print: mechs(sharing.MechanismMIG)},
}

func TestPrintedRows(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		seen[r.id] = true
		if _, ok := sharing.SourceByID(sharing.SourceID(r.id)); !ok {
			t.Errorf("%s is no source", r.id)
		}
		gpu := r.gpu
		if gpu == "" {
			gpu = "A100-SXM4-80GB"
		}
		p := Pool{Name: "p", GPU: gpu, Count: 16}
		if r.pool != nil {
			r.pool(&p)
		}
		f := Fleet{Version: "v1", Pools: []Pool{p}, Workloads: []Workload{r.w}}
		if r.with != nil {
			f.Workloads = append(f.Workloads, *r.with)
		}
		res, err := Decide(&f, Options{})
		if err != nil {
			t.Errorf("%s: %v", r.id, err)
			continue
		}
		d := res.Decision("w")
		if slices.Contains(r.avoid, d.Mechanism) {
			t.Errorf("%s (%s, %s): chose %s, which the row says to avoid", r.id, gpu, r.w.Kind, d.Mechanism)
		}
		if r.because == "" {
			if !slices.Contains(r.print, d.Mechanism) {
				t.Errorf("%s (%s, %s): chose %s, the row prints %v\n%s", r.id, gpu, r.w.Kind, d.Mechanism, r.print, passing(d))
			}
			continue
		}
		if _, ok := sharing.SourceByID(r.because); !ok {
			t.Errorf("%s: %s is no source", r.id, r.because)
		}
		if d.Mechanism != r.want || slices.Contains(r.print, d.Mechanism) {
			t.Errorf("%s (%s, %s): chose %s, want %s against the row's %v because of %s", r.id, gpu, r.w.Kind, d.Mechanism, r.want, r.print, r.because)
		}
	}
	for _, id := range []string{"F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "A2", "A3", "A6", "A7", "A8", "A9", "A19"} {
		if !seen[id] {
			t.Errorf("no row of %s is tested", id)
		}
	}
}

func passing(d *Decision) string {
	var b strings.Builder
	for _, c := range d.Candidates {
		if c.Verdict != gate.VerdictReject {
			b.WriteString(c.Mechanism.String() + " " + c.Verdict.String() + "\n")
		}
	}
	return b.String()
}
