package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/examples/internal/colocation"
	"github.com/cotenant/cotenant/sharing"
)

// decisionReport is what package decision answers for the loads as workloads,
// knowing nothing of the runs, and with them as evidence.
type decisionReport struct {
	GPU      string            `json:"gpu"`
	Problem  string            `json:"problem,omitempty"` // why there is no answer
	Workload []workloadVerdict `json:"workloads,omitempty"`
}

type workloadVerdict struct {
	Workload string `json:"workload"`
	Before   answer `json:"without_evidence"`
	After    answer `json:"with_evidence"`
	// New are the reasons that the evidence brought.
	New []reason `json:"new_reasons,omitempty"`
	// Predicted is what the workload is expected to see beside the neighbours
	// that the decision gives it, and BreakEven which mechanism is better from
	// how many copies of it on.
	Predicted *decision.Predicted      `json:"predicted,omitempty"`
	BreakEven []decision.BreakEvenStep `json:"break_even,omitempty"`
}

// reason is a gate's word on a mechanism for a workload.
type reason struct {
	Mechanism sharing.Mechanism `json:"mechanism"`
	Verdict   gate.Verdict      `json:"verdict"`
	Code      gate.Code         `json:"code"`
	Message   string            `json:"message"`
}

type answer struct {
	Mechanism sharing.Mechanism `json:"mechanism"`
	Tenants   int               `json:"tenants_per_gpu,omitempty"`
	Verdict   gate.Verdict      `json:"verdict"`
}

// decide asks for a decision on the loads of the first case.
func (f *flow) decide(rows []reportRow) *decisionReport {
	out := &decisionReport{GPU: f.plan.Decision.GPU}
	if out.GPU == "" {
		out.GPU, _ = f.site.gpu()
		out.GPU = strings.TrimPrefix(out.GPU, "NVIDIA ")
	}
	before, err := f.fleet(out.GPU, false)
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	after, err := f.fleet(out.GPU, true)
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	b, err := decision.Decide(before, decision.Options{})
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	profiles, err := f.profiles()
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	a, err := decision.Decide(after, decision.Options{Profiles: &profiles, Predictor: f.config.predictor})
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	for i := range before.Workloads {
		name := before.Workloads[i].Name
		was, is := b.Decision(name), a.Decision(name)
		out.Workload = append(out.Workload, workloadVerdict{Workload: name, Before: answerOf(was), After: answerOf(is), New: newReasons(was, is), Predicted: is.Predicted, BreakEven: is.BreakEven})
	}
	return out
}

var errNoMemory = errors.New("say with servers[].memory what each server takes, for a decision")

// fleet puts the loads of the first case before package decision: with
// evidence, what the runs alone showed.
func (f *flow) fleet(gpu string, evidence bool) (*decision.Fleet, error) {
	pool := decision.Pool{Name: "gpu", GPU: gpu, Count: len(f.plan.Servers), PricePerGPUHour: f.plan.Decision.Price}
	// The question is which of the mechanisms that were measured to use, if any.
	for _, m := range f.plan.Modes {
		if !slices.Contains(pool.Mechanisms, m.mechanism()) {
			pool.Mechanisms = append(pool.Mechanisms, m.mechanism())
		}
	}
	if _, driver := f.site.gpu(); driver != "" {
		if err := pool.Driver.UnmarshalText([]byte(driver)); err != nil {
			return nil, err
		}
	}
	fleet := &decision.Fleet{Version: "v1", Pools: []decision.Pool{pool}}
	for _, name := range f.plan.Cases[0].Loads {
		l := f.plan.load(name)
		s := &f.plan.Servers[f.plan.server(l.Server)]
		if s.Memory == nil {
			return nil, errNoMemory
		}
		w := decision.Workload{Name: l.Name, Kind: decision.KindOnlineInference, Memory: s.Memory, SLO: l.SLO}
		if evidence {
			f.addEvidence(&w, l)
		}
		fleet.Workloads = append(fleet.Workloads, w)
	}
	return fleet, nil
}

// addEvidence adds what the load's run alone under time-slicing showed.
func (f *flow) addEvidence(w *decision.Workload, l *loadPlan) {
	row := f.soloRow(modeTimeSlicing, l.Name)
	if row == nil {
		return
	}
	w.Profile = &decision.ProfileRef{Server: f.serverOf(modeTimeSlicing, l), Load: f.loadOf(l)}
	switch {
	case row.GPM != nil && row.GPM.SMUtil != nil:
		w.GPUBusy, w.Evidence = fraction(*row.GPM.SMUtil), decision.EvidenceMeasured
	case row.GPU != nil && row.GPU.Util != nil:
		w.GPUBusy, w.Evidence = fraction(*row.GPU.Util), decision.EvidenceNVML
	}
	if f.simulated() {
		w.Evidence = decision.EvidenceSynthetic
	}
	alone := colocation.Figures(row)
	set := func(m predict.Metric, demanded *predict.Duration, d **predict.Duration) {
		if ms, ok := alone[m]; ok && demanded != nil {
			v := predict.Duration(seconds(ms / 1e3))
			*d = &v
		}
	}
	set(predict.TTFTP99, w.SLO.TTFTP99, &w.Solo.TTFTP99)
	set(predict.TPOTP99, w.SLO.TPOTP99, &w.Solo.TPOTP99)
	set(predict.E2EP99, w.SLO.E2EP99, &w.Solo.E2EP99)
}

func fraction(percent float64) *float64 {
	v := min(max(percent/100, 0), 1)
	return &v
}

func answerOf(d *decision.Decision) answer {
	a := answer{Mechanism: d.Mechanism}
	for i := range d.Candidates {
		if c := &d.Candidates[i]; c.Chosen {
			a.Tenants, a.Verdict = c.Tenants, c.Verdict
		}
	}
	return a
}

// newReasons lists the reasons of after's candidates that before's have not.
func newReasons(before, after *decision.Decision) []reason {
	had := map[reason]bool{}
	for _, r := range reasonsOf(before) {
		had[r] = true
	}
	return slices.DeleteFunc(reasonsOf(after), func(r reason) bool { return had[r] })
}

func reasonsOf(d *decision.Decision) []reason {
	var out []reason
	for i := range d.Candidates {
		c := &d.Candidates[i]
		for _, r := range c.Reasons {
			out = append(out, reason{c.Mechanism, r.Verdict, r.Code, r.Message})
		}
	}
	return out
}
