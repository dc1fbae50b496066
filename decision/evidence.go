package decision

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// Predicted is what one replica of a workload is expected to see beside the
// neighbours it was given, by a Predictor.
type Predicted struct {
	Mechanism sharing.Mechanism `json:"mechanism"`
	Tenants   int               `json:"tenants"` // on the GPU it was predicted for, its slowest
	Basis     sharing.Basis     `json:"basis"`
	// Slowdown is against the workload alone on a whole GPU.
	Slowdown predict.Interval            `json:"slowdown"`
	Figures  map[string]predict.Interval `json:"figures"` // by metric
	Notes    []string                    `json:"notes,omitempty"`
}

// evidence holds the profiles of a fleet's workloads.
type evidence struct {
	predictor *predict.Predictor
	solos     []*predict.Solo // by workload, nil where there is none
	// predicted is what each workload's slowest replica sees.
	predicted []*Predicted
}

func newEvidence(workloads []*CompiledWorkload, opt Options) (*evidence, error) {
	e := &evidence{predictor: opt.Predictor, solos: make([]*predict.Solo, len(workloads)), predicted: make([]*Predicted, len(workloads))}
	if e.predictor == nil {
		p := predict.NewPredictor()
		e.predictor = &p
	}
	if err := e.predictor.Validate(); err != nil {
		return nil, err
	}
	var errs []error
	for i, w := range workloads {
		ref := w.workload.Profile
		if ref == nil {
			continue
		}
		solo, err := opt.Profiles.Solo(ref.Server, ref.Load)
		if err != nil {
			errs = append(errs, fmt.Errorf("decision: workload %q: %w", w.workload.Name, err))
			continue
		}
		e.solos[i] = &solo
		w.demand.Predicted = true
	}
	return e, errors.Join(errs...)
}

// judge predicts every GPU that is shared by time-slicing or MPS and whose
// tenants all have profiles. Where an objective is missed, or may be, the
// workload is kept from the unlike neighbours it had, then given fewer of its
// own kind, and in the end loses the choice. It says whether anything has to be
// assigned again.
func (pl *planner) judge() (again bool, err error) {
	clear(pl.evidence.predicted)
	for _, key := range pl.groupKeys() {
		if key.mechanism != sharing.MechanismTimeSlicing && key.mechanism != sharing.MechanismMPS {
			continue
		}
		g := pl.groups[key]
		for i := range g.bins {
			redo, err := pl.judgeBin(key, &g.bins[i])
			if err != nil {
				return false, err
			}
			again = again || redo
		}
	}
	return again, nil
}

func (pl *planner) judgeBin(key groupKey, b *bin) (again bool, err error) {
	var group []predict.Solo
	var who []int
	for _, m := range b.members {
		solo := pl.evidence.solos[m.workload]
		if solo == nil || b.n > predict.MaxGroup {
			return false, nil
		}
		for range m.replicas {
			group, who = append(group, *solo), append(who, m.workload)
		}
	}
	preds, err := pl.evidence.predictor.Predict(key.mechanism, group, predict.MethodClosedForm)
	if errors.Is(err, predict.ErrUnpredictable) || errors.Is(err, predict.ErrOtherGPU) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var done []int // replicas of a workload are judged as one
	for k := range preds {
		w := who[k]
		if old := pl.evidence.predicted[w]; old == nil || preds[k].Slowdown.Value > old.Slowdown.Value {
			pl.evidence.predicted[w] = newPredicted(&preds[k], len(group))
		}
		why := gate.Objectives(&pl.workloads[w].workload.SLO, 0, &preds[k])
		if why.Verdict == gate.VerdictPass || slices.Contains(done, w) || pl.chosen[w] == nil {
			continue
		}
		again, done = true, append(done, w)
		if pl.part(w, b) {
			continue
		}
		c := pl.chosen[w]
		if c.tenants = min(c.tenants, b.n) - 1; c.tenants >= 2 {
			continue
		}
		why.Tenants = 2
		pl.banned[banKey{w, key.pool, key.mechanism}] = why
		pl.chosen[w] = nil
	}
	return again, nil
}

// pairOf says how two replicas of a measured workload would get along on a GPU
// where they were not arranged; it passes where nothing tells.
func (pl *planner) pairOf(w int, m sharing.Mechanism) gate.Reason {
	pass := gate.Reason{Verdict: gate.VerdictPass}
	if m != sharing.MechanismTimeSlicing && m != sharing.MechanismMPS || !pl.measured(w) || pl.workloads[w].workload.replicas() < 2 {
		return pass
	}
	solo := *pl.evidence.solos[w]
	preds, err := pl.evidence.predictor.Predict(m, []predict.Solo{solo, solo}, predict.MethodClosedForm)
	if err != nil {
		return pass
	}
	why := gate.Objectives(&pl.workloads[w].workload.SLO, 0, &preds[0])
	why.Mechanism, why.Tenants = m, 2
	return why
}

// part keeps a workload from the unlike neighbours of a GPU on which it misses
// an objective, and says whether there were any: it may still do beside others,
// or its own kind.
func (pl *planner) part(w int, b *bin) bool {
	found := false
	for _, m := range b.members {
		if m.workload != w {
			pl.apart[[2]int{min(w, m.workload), max(w, m.workload)}] = true
			found = true
		}
	}
	return found
}

// mayPair says whether two workloads may share a GPU without slices.
func (pl *planner) mayPair(a, b int) bool {
	return pl.trust.trusts(a, b) && !pl.apart[[2]int{min(a, b), max(a, b)}]
}

// breakEvenLimit is how many copies of a workload break-even looks at.
const breakEvenLimit = 6

func (e *evidence) breakEven(w int) []predict.BreakEvenStep {
	steps, err := e.predictor.BreakEven(*e.solos[w], breakEvenLimit)
	if err != nil {
		return nil // what cannot be predicted is not said
	}
	for i := range steps {
		steps[i].TimeSlicing, steps[i].MPS = rounded(steps[i].TimeSlicing), rounded(steps[i].MPS)
	}
	return steps
}

func newPredicted(p *predict.Prediction, tenants int) *Predicted {
	out := &Predicted{Mechanism: p.Mechanism, Tenants: tenants, Basis: p.Basis, Slowdown: rounded(p.Slowdown), Figures: map[string]predict.Interval{}, Notes: p.Notes}
	for m, i := range p.All() {
		out.Figures[m.String()] = rounded(i)
	}
	return out
}

func rounded(i predict.Interval) predict.Interval {
	return predict.Interval{Value: round(i.Value, 3), Low: round(i.Low, 3), High: round(i.High, 3)}
}

// pretended says so where predictions rest on a simulation: they are no evidence
// about real GPUs.
func (e *evidence) pretended() []Assumption {
	if e == nil || !slices.ContainsFunc(e.solos, func(s *predict.Solo) bool { return s != nil }) {
		return nil
	}
	for _, q := range e.predictor.Parameters.List() {
		if q.Basis == sharing.BasisSimulated {
			return []Assumption{{What: fmt.Sprintf("real GPUs are like the %s that the predictor was calibrated on", e.predictor.GPU), Why: "calibrate it on a real one (examples/measure -real)"}}
		}
	}
	return nil
}
