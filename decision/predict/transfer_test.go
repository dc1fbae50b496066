package predict_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// What an H200 was calibrated on predicts an H100, with wider intervals and
// saying so.
func TestH100FromH200(t *testing.T) {
	p, err := predict.NewPredictor().Fit(predict.MethodSimulated, colocation(t))
	if err != nil {
		t.Fatal(err)
	}
	measured, err := p.PredictRows(predict.MethodSimulated, rowsOf(t, "h100-colocation.json"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range measured {
		if m.Err != nil {
			t.Fatalf("%s: %v", m.Row.Case, m.Err)
		}
		if m.Prediction.Basis != sharing.BasisTransferred || !strings.Contains(strings.Join(m.Prediction.Notes, "\n"), "carried over from H200 to H100 80GB HBM3") {
			t.Fatalf("%s: %s, %q", m.Row.Case, m.Prediction.Basis, m.Prediction.Notes)
		}
	}
	limits := map[sharing.Mechanism]struct{ mean, p95 float64 }{
		// Three steps of a small server that lie at one quantum take two turns.
		sharing.MechanismTimeSlicing: {0.095, 0.31},
		sharing.MechanismMPS:         {0.03, 0.07},
	}
	got := errorsBy(predict.ErrorsOf(measured))
	for m, want := range limits {
		e := got[m][predict.MetricTPOTP50]
		if e.Rows != 11 || e.MeanFraction > want.mean || e.P95Fraction > want.p95 || e.CoverageFraction.Or(0) < 0.8 || e.WidthFraction.Or(9) > 0.5 {
			t.Errorf("%s: %+v", m, e)
		}
	}
}

func TestTransfer(t *testing.T) {
	p := predict.NewPredictor()
	on := func(m sharing.Mechanism, gpu string) ([]predict.Prediction, error) {
		group := fourTenants(t)
		for i := range group {
			own := *group[i].TimeSlicing
			own.GPU = gpu
			group[i] = predict.Solo{TimeSlicing: &own, Server: group[i].Server, Load: group[i].Load}
		}
		return p.Predict(m, group, predict.MethodClosedForm)
	}
	width := func(m sharing.Mechanism, gpu string) float64 {
		out, err := on(m, gpu)
		if err != nil {
			t.Fatal(err)
		}
		v, _ := out[0].Get(predict.MetricTPOTP50)
		return v.WidthFraction()
	}
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		same, near, far := width(m, "NVIDIA H200"), width(m, "NVIDIA H100 80GB HBM3"), width(m, "Tesla T4")
		if !(same < near && near < far) {
			t.Errorf("%s: widths %.3f on the same GPU, %.3f on its architecture, %.3f on another", m, same, near, far)
		}
	}
	if _, err := on(sharing.MechanismMPS, "Tesla P100-PCIE-16GB"); !errors.Is(err, predict.ErrOtherGPU) || !strings.Contains(err.Error(), "Volta") {
		t.Errorf("MPS before Volta: %v", err)
	}
	if _, err := on(sharing.MechanismTimeSlicing, "a GPU of nobody"); !errors.Is(err, predict.ErrOtherGPU) || !strings.Contains(err.Error(), "nothing is known") {
		t.Errorf("a GPU that is not in the table: %v", err)
	}
}

// Who calibrates on a GPU of his own gets a predictor of that GPU.
func TestCalibrateElsewhere(t *testing.T) {
	p, err := predict.NewPredictor().On("NVIDIA H100 80GB HBM3", "580.159.04").Fit(predict.MethodClosedForm, rowsOf(t, "h100-colocation.json"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Parameters.Quantum.Basis != sharing.BasisTransferred || p.Parameters.PrefillCatchUp.Basis != sharing.BasisFitted || p.Parameters.HostFraction.Basis != sharing.BasisPrior {
		t.Errorf("%+v", p.Parameters)
	}
	measured, err := p.PredictRows(predict.MethodClosedForm, rowsOf(t, "h100-colocation.json"), nil)
	if err != nil || measured[0].Prediction == nil || measured[0].Prediction.Basis != sharing.BasisFitted {
		t.Errorf("%v: %+v", err, measured[0])
	}
}
