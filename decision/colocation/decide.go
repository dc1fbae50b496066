package colocation

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// decisionReport holds package decision's answers for the loads as workloads, without and with the runs as evidence.
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
	// Predicted is the outcome beside the neighbours of the decision, and BreakEven the
	// better mechanism by the number of copies on a GPU.
	Predicted *decision.Predicted     `json:"predicted,omitempty"`
	BreakEven []predict.BreakEvenStep `json:"break_even,omitempty"`
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
func (f *planFlow) decide(ctx context.Context) *decisionReport {
	out := &decisionReport{GPU: f.plan.Decision.GPU}
	if out.GPU == "" {
		gpu, _ := f.site.gpu()
		out.GPU = strings.TrimPrefix(gpu, "NVIDIA ")
	}
	profiles, _, err := f.profiles()
	var before, after *decision.Result
	if err == nil {
		before, err = f.decideFleet(ctx, out.GPU, nil)
	}
	if err == nil {
		after, err = f.decideFleet(ctx, out.GPU, profiles)
	}
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	for _, name := range f.plan.Cases[0].Loads {
		was, is := before.Decision(name), after.Decision(name)
		had := reasonsOf(was)
		news := slices.DeleteFunc(reasonsOf(is), func(r reason) bool { return slices.Contains(had, r) })
		out.Workload = append(out.Workload, workloadVerdict{name, answerOf(was), answerOf(is), news, is.Predicted,
			is.BreakEven})
	}
	return out
}

// workloadKinds gives a decision's kind for each kind of tenant.
var workloadKinds = map[profile.Kind]decision.Kind{profile.KindServer: decision.KindOnlineInference,
	profile.KindStepper: decision.KindTraining, profile.KindBurster: decision.KindNotebook}

var errNoMemory = errors.New("say with servers[].memory what each server takes, for a decision")

// decideFleet puts the loads of the first case before package decision: with
// profiles, and what the runs alone showed besides.
func (f *planFlow) decideFleet(ctx context.Context, gpu string, profiles *profile.Profiles) (*decision.Result, error) {
	pool := decision.Pool{Name: "gpu", GPU: gpu, Count: len(f.plan.Servers), PricePerGPUHour: f.plan.Decision.Price}
	// The question is which of the mechanisms that were measured to use, if any.
	for _, m := range f.plan.Modes {
		if m = predictedAs(m); !slices.Contains(pool.Mechanisms, m) {
			pool.Mechanisms = append(pool.Mechanisms, m)
		}
	}
	if _, driver := f.site.gpu(); driver != "" {
		if err := pool.Driver.UnmarshalText([]byte(driver)); err != nil {
			return nil, err
		}
	}
	fleet := &decision.Fleet{Version: "v1", Trust: decision.TrustAll, Pools: []decision.Pool{pool}}
	for _, name := range f.plan.Cases[0].Loads {
		l := f.plan.Load(name)
		s, _ := f.plan.serverFor(l)
		if s.Memory.IsZero() {
			return nil, errNoMemory
		}
		w := decision.Workload{Name: name, Kind: workloadKinds[s.Kind], Memory: s.Memory, SLO: l.SLO}
		if row := f.soloRow(name); row != nil && profiles != nil {
			f.addEvidence(&w, l, row)
		}
		fleet.Workloads = append(fleet.Workloads, w)
	}
	opts := decision.Options{Profiles: profiles}
	if profiles != nil {
		opts.Predictor = f.Predictor
	}
	return decision.Decide(ctx, fleet, opts)
}

// addEvidence adds what the load's run alone under time-slicing showed.
func (f *planFlow) addEvidence(w *decision.Workload, l *Load, row *profile.Row) {
	w.Profile = &profile.ProfileRef{Server: row.Server, Load: row.Load}
	busy := func(percent float64, e decision.Evidence) {
		w.GPUBusy, w.Evidence = decision.Some(min(max(percent/100, 0), 1)), e
	}
	if v, ok := row.GPM.SMUtil.Get(); ok {
		busy(v, decision.EvidenceMeasured)
	} else if v, ok := row.GPU.Util.Get(); ok {
		busy(v, decision.EvidenceNVML)
	}
	if f.simulated {
		w.Evidence = decision.EvidenceSynthetic
	}
	for m := range l.SLO.Limits() {
		if ms, ok := row.Metric(m); ok {
			*w.Solo.At(m) = profile.Some(profile.Duration(milliseconds(ms)))
		}
	}
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
