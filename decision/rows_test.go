package decision

import (
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// row is a printed row of a source's flow or matrix: a situation and the source's answer.
type row struct {
	id    string // the flow or matrix
	gpu   string // default A100-SXM4-80GB
	pool  func(*Pool)
	w     Workload
	with  *Workload           // a neighbour that is also there
	print []sharing.Mechanism // the source's answers, in its order
	avoid []sharing.Mechanism
	// because names the source by which we answer otherwise; empty where we must agree.
	because sharing.SourceID
	want    sharing.Mechanism // our answer where because is set
}

func mechs(ms ...sharing.Mechanism) []sharing.Mechanism { return ms }

var (
	busy10   = Some(0.10)
	busy25   = Some(0.25)
	busy95   = Some(0.95)
	gib2     = Some(2 * sharing.GiB)
	gib5     = Some(5 * sharing.GiB)
	gib8     = Some(8 * sharing.GiB)
	gib40    = Some(40 * sharing.GiB)
	ms10     = Some(profile.Duration(10e6))
	ms50     = Some(profile.Duration(50e6))
	ms200    = Some(profile.Duration(200e6))
	ms800    = Some(profile.Duration(800e6))
	s1       = Some(profile.Duration(1e9))
	hard     = Isolation{Memory: sharing.LevelHardware, Fault: sharing.LevelHardware}
	online   = Workload{Name: "w", Kind: KindOnlineInference, Replicas: Replicas{Max: 4}, Memory: gib8, GPUBusy: busy10}
	strict   = Workload{Name: "w", Kind: KindOnlineInference, Replicas: Replicas{Max: 4}, Memory: gib8, GPUBusy: busy10, SLO: profile.SLO{E2EP99: s1, TPOTP99: ms50}, Solo: profile.SLO{E2EP99: ms200, TPOTP99: ms10}, Isolation: hard}
	devtest  = Workload{Name: "w", Kind: KindNotebook, Replicas: Replicas{Max: 4}, Memory: gib5}
	batch    = Workload{Name: "w", Kind: KindBatch, Replicas: Replicas{Max: 4}, Memory: gib8, GPUBusy: busy25}
	gang     = Workload{Name: "w", Kind: KindDistributedTraining, Replicas: Replicas{Max: 2}, GPUs: 4, Memory: gib40, GPUBusy: busy95}
	research = Workload{Name: "w", Kind: KindHPC, Replicas: Replicas{Max: 4}, Memory: gib8, GPUBusy: busy10}
)

func with(w Workload, f func(*Workload)) Workload {
	f(&w)
	return w
}

func foreign(w Workload) *Workload {
	w.Name, w.Tenant = "other", "other-tenant"
	return &w
}

// rows are the printed rows of widely read flows and matrices that give an answer for a situation.
var rows = []row{
	// Five steps with both answers.
	{id: "five-step flow", w: strict, print: mechs(sharing.MechanismMIG, sharing.MechanismExclusive), avoid: mechs(sharing.MechanismTimeSlicing)},
	{id: "five-step flow", gpu: "L4", w: with(devtest, func(w *Workload) { w.Memory = gib2 }), print: mechs(sharing.MechanismTimeSlicing)},
	{id: "five-step flow", w: with(online, func(w *Workload) { w.Isolation = hard }), print: mechs(sharing.MechanismMIG)},
	{id: "five-step flow", gpu: "T4", w: devtest, print: mechs(sharing.MechanismTimeSlicing, sharing.MechanismMPS)},
	// "Ampere+" has MIG: false for A10 and L4.
	{id: "five-step flow", gpu: "A10", w: with(online, func(w *Workload) { w.Isolation = hard }), print: mechs(sharing.MechanismMIG), because: "nvidia-mig-guide-gpus", want: sharing.MechanismExclusive},
	{id: "five-step flow", w: with(strict, func(w *Workload) { w.Tenant = "a" }), with: foreign(strict), print: mechs(sharing.MechanismVGPU, sharing.MechanismMIG)},
	// Medium security: time-slicing with monitoring. Untrusted tenants never do.
	{id: "five-step flow", w: with(batch, func(w *Workload) { w.Tenant, w.Replicas.Max = "a", 1 }), with: foreign(with(batch, func(w *Workload) { w.Replicas.Max = 1 })),
		gpu: "T4", print: mechs(sharing.MechanismTimeSlicing), because: "nvidia-gpu-operator-sharing", want: sharing.MechanismExclusive},
	{id: "five-step flow", w: devtest, print: mechs(sharing.MechanismTimeSlicing)},
	{id: "five-step flow", w: with(strict, func(w *Workload) { w.Replicas.Max = 1 }), print: mechs(sharing.MechanismMIG, sharing.MechanismExclusive)},
	// Who can manage complexity gets fine-grained systems: none can be had.
	{id: "five-step flow", w: research, print: mechs(sharing.MechanismResearch), because: "cotenant-reading", want: sharing.MechanismMPS},
	// When to choose what.
	{id: "when to choose", w: strict, print: mechs(sharing.MechanismMIG)},
	{id: "when to choose", w: with(strict, func(w *Workload) { w.Tenant = "a" }), with: foreign(strict), print: mechs(sharing.MechanismMIG)},
	{id: "when to choose", w: with(online, func(w *Workload) { w.Isolation = hard }), print: mechs(sharing.MechanismMIG)},
	{id: "when to choose", w: research, print: mechs(sharing.MechanismMPS)},
	{id: "when to choose", gpu: "L40S", w: with(batch, func(w *Workload) { w.GPUBusy = busy10 }), print: mechs(sharing.MechanismMPS)},
	{id: "when to choose", gpu: "A10", w: devtest, print: mechs(sharing.MechanismTimeSlicing)},
	{id: "when to choose", gpu: "T4", w: with(devtest, func(w *Workload) { w.Kind = KindCI }), print: mechs(sharing.MechanismTimeSlicing)},
	// The three archetypes.
	{id: "archetypes", w: gang, print: mechs(sharing.MechanismExclusive)},
	{id: "archetypes", gpu: "L40S", w: online, print: mechs(sharing.MechanismMPS), avoid: mechs(sharing.MechanismTimeSlicing)},
	{id: "archetypes", w: with(online, func(w *Workload) { w.Isolation = hard }), print: mechs(sharing.MechanismMIG), avoid: mechs(sharing.MechanismTimeSlicing)},
	{id: "archetypes", gpu: "T4", w: devtest, print: mechs(sharing.MechanismTimeSlicing, sharing.MechanismHAMi)},
	// Hardware gates the choice.
	{id: "hardware gates", gpu: "H100 80GB HBM3", w: with(online, func(w *Workload) { w.Isolation = hard }), print: mechs(sharing.MechanismMIG)},
	{id: "hardware gates", gpu: "T4", w: devtest, print: mechs(sharing.MechanismTimeSlicing, sharing.MechanismHAMi)},
	// No sharing is a legitimate answer.
	{id: "decision tree", gpu: "T4", w: with(online, func(w *Workload) { w.Isolation = hard }), print: mechs(sharing.MechanismExclusive)},
	// The hybrid: time-slicing for development, MIG for production.
	{id: "hybrid", w: devtest, with: foreign(strict), print: mechs(sharing.MechanismTimeSlicing)},
	{id: "hybrid", w: strict, with: foreign(devtest), print: mechs(sharing.MechanismMIG, sharing.MechanismVGPU)},
	// Idle work is shared, not given a GPU each.
	{id: "reaping", w: with(devtest, func(w *Workload) { w.Replicas.Max = 8 }), print: mechs(sharing.MechanismTimeSlicing, sharing.MechanismHAMi)},
	// Emulation where MIG is missing: allowed, and never isolation.
	{id: "emulation", gpu: "L4", w: with(online, func(w *Workload) {
		w.Memory, w.Isolation = gib5, hard
		w.Framework = &Framework{Name: "vllm"}
	}), print: mechs(sharing.MechanismMIGLikeEmulation), because: "jabrayilov-gpushare", want: sharing.MechanismExclusive},
	// Business fit by strategy.
	{id: "decision matrix", w: strict, print: mechs(sharing.MechanismMIG)},
	{id: "decision matrix", w: devtest, print: mechs(sharing.MechanismTimeSlicing)},
	{id: "decision matrix", gpu: "L40S", w: research, print: mechs(sharing.MechanismMPS)},
	{id: "decision matrix", pool: func(p *Pool) { p.VGPU = true }, w: with(strict, func(w *Workload) { w.Tenant = "a" }), with: foreign(strict),
		print: mechs(sharing.MechanismVGPU), because: "nvidia-vgpu-guide", want: sharing.MechanismMIG},
	{id: "decision matrix", w: research, print: mechs(sharing.MechanismResearch), because: "cotenant-reading", want: sharing.MechanismMPS},
	// Container-native is a delivery of another mechanism.
	{id: "decision matrix", pool: func(p *Pool) { p.Delivery = sharing.DeliveryDRA }, w: devtest, print: mechs(sharing.MechanismTimeSlicing)},
	// Use cases with their order.
	{id: "use cases", w: strict, print: mechs(sharing.MechanismMIG, sharing.MechanismVGPU, sharing.MechanismExclusive), avoid: mechs(sharing.MechanismTimeSlicing)},
	{id: "use cases", w: devtest, print: mechs(sharing.MechanismTimeSlicing)},
	{id: "use cases", w: with(strict, func(w *Workload) { w.Tenant = "a" }), with: foreign(strict), print: mechs(sharing.MechanismVGPU, sharing.MechanismMIG, sharing.MechanismResearch)},
	{id: "use cases", w: research, print: mechs(sharing.MechanismResearch, sharing.MechanismMPS, sharing.MechanismTimeSlicing)},
	// Risk classes under time-slicing.
	{id: "risk classes", w: devtest, print: mechs(sharing.MechanismTimeSlicing)},
	{id: "risk classes", gpu: "T4", w: with(batch, func(w *Workload) { w.Memory = gib5 }), print: mechs(sharing.MechanismTimeSlicing, sharing.MechanismMPS)},
	{id: "risk classes", gpu: "T4", w: with(online, func(w *Workload) { w.Memory, w.SLO = gib5, profile.SLO{E2EP99: ms800} }), print: mechs(sharing.MechanismMPS, sharing.MechanismExclusive), avoid: mechs(sharing.MechanismTimeSlicing)},
	// The register's worst risk: latency under contention.
	{id: "risk register", gpu: "T4", w: with(strict, func(w *Workload) { w.Memory, w.Isolation = gib5, Isolation{} }), avoid: mechs(sharing.MechanismTimeSlicing), print: mechs(sharing.MechanismMPS, sharing.MechanismExclusive)},
	// Opportunities.
	{id: "opportunities", w: with(devtest, func(w *Workload) { w.Kind = KindCI }), print: mechs(sharing.MechanismTimeSlicing)},
	{id: "opportunities", w: strict, print: mechs(sharing.MechanismMIG)},
	// A well-packed node before a second one.
	{id: "thirty-day plan", w: with(devtest, func(w *Workload) { w.Replicas.Max = 4 }), print: mechs(sharing.MechanismTimeSlicing)},
	{id: "order of work", w: with(online, func(w *Workload) { w.Isolation = hard }), print: mechs(sharing.MechanismMIG)},
}

func TestPrintedRows(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		seen[r.id] = true
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
		res, err := Decide(t.Context(), &f, Options{})
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
	for _, id := range []string{"five-step flow", "when to choose", "archetypes", "hardware gates", "decision tree", "hybrid", "reaping", "emulation", "decision matrix", "use cases", "risk classes", "risk register", "opportunities", "thirty-day plan", "order of work"} {
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
