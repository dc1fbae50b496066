package main

import (
	"errors"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/examples/internal/colocation"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// expect predicts what a scene's workloads will see under a mechanism from their
// profiles.
func (m *measurer) expect(how sharing.Mechanism, s *scene) {
	for _, w := range s.workloads() {
		row := expectedRow{Basis: sharing.BasisSimulated, Model: sharing.BasisPrior, Scene: s.Name, Mechanism: how, Workload: w, Figures: map[predict.Metric]expectation{}}
		var err error
		if how == sharing.MechanismMIG {
			err = m.expectSlice(&row, s)
		} else {
			err = m.expectBeside(&row, s)
		}
		if err != nil {
			row.Problem = err.Error()
		}
		m.report.Expected = append(m.report.Expected, row)
	}
}

// expectSlice expects of a slice what the one workload that was measured on
// slices showed. It says nothing of the spread, so there is no interval.
func (m *measurer) expectSlice(row *expectedRow, s *scene) error {
	profiles, why := s.slices(m.result)
	if why != "" {
		return errors.New(why)
	}
	i := slices.IndexFunc(s.Tenants, func(t sceneTenant) bool { return t.Workload == row.Workload })
	t := s.Tenants[i].sim
	solo, err := m.profiles.Solo(t.serverKey(0), t.load)
	if err != nil {
		return err
	}
	alone := predict.Row{TTFT: solo.TimeSlicing.TTFT, TPOT: solo.TimeSlicing.TPOT, E2E: solo.TimeSlicing.E2E}
	for metric, v := range colocation.Figures(&alone) {
		curve, err := predict.FitSlice([]predict.SlicePoint{{SMFraction: 1, Latency: milliseconds(v)}})
		if err != nil {
			return err
		}
		row.Figures[metric] = expectation{Value: float64(curve.Latency(s.smShare(profiles[i]))) / float64(time.Millisecond)}
		if metric == predict.MetricTPOTP50 {
			row.Slowdown = &expectation{Value: row.Figures[metric].Value / v}
		}
	}
	return nil
}

// smShare is a slice's share of the whole GPU's SMs.
func (s *scene) smShare(p *mig.Profile) float64 {
	of, ok := p.SMs.Get()
	all, ok2 := s.gpu.SMs.Get()
	if ok && ok2 {
		return min(1, float64(of)/float64(all))
	}
	return float64(p.ComputeSlices) / float64(p.Model().ComputeSlices)
}

// expectBeside predicts a workload on a shared GPU, or alone on one. Replicas
// of a workload see much the same: the middle of them is expected, within any
// one's interval.
func (m *measurer) expectBeside(row *expectedRow, s *scene) error {
	how, percent := row.Mechanism, 0.0
	tenants := s.Tenants
	switch how {
	case sharing.MechanismExclusive:
		how = sharing.MechanismTimeSlicing // with nobody else
		i := slices.IndexFunc(tenants, func(t sceneTenant) bool { return t.Workload == row.Workload })
		tenants = tenants[i : i+1]
	case sharing.MechanismMIGLikeEmulation:
		how, percent = sharing.MechanismMPS, s.emulationPercent()
	}
	var solos []predict.Solo
	for _, t := range tenants {
		solo, err := m.profiles.Solo(t.sim.serverKey(percent), t.sim.load)
		if err != nil {
			return err
		}
		solos = append(solos, solo)
	}
	predictions, err := m.predictor.Predict(how, solos, predict.MethodSimulated)
	if err != nil {
		return err
	}
	var of []*predict.Prediction
	for i := range predictions {
		if tenants[i].Workload == row.Workload {
			of = append(of, &predictions[i])
		}
	}
	row.Model = of[0].Basis
	for _, metric := range predict.Metrics() {
		if v, ok := middle(of, func(p *predict.Prediction) (predict.Interval, bool) { return p.Get(metric) }); ok {
			row.Figures[metric] = expectationOf(v)
		}
	}
	v, _ := middle(of, func(p *predict.Prediction) (predict.Interval, bool) { return p.Slowdown, true })
	e := expectationOf(v)
	row.Slowdown = &e
	return nil
}

// middle is the mean of predictions, with the widest bounds.
func middle(of []*predict.Prediction, get func(*predict.Prediction) (predict.Interval, bool)) (out predict.Interval, ok bool) {
	for i, p := range of {
		v, ok := get(p)
		if !ok {
			return predict.Interval{}, false
		}
		if i == 0 {
			out.Low, out.High = v.Low, v.High
		}
		out.Value += v.Value / float64(len(of))
		out.Low, out.High = min(out.Low, v.Low), max(out.High, v.High)
	}
	return out, len(of) > 0
}
