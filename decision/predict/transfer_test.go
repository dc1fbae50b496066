// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

func TestTransfer(t *testing.T) {
	p := predict.NewPredictor()
	on := func(m sharing.Mechanism, gpu string) ([]predict.Prediction, error) {
		group := fourTenants(t)
		for i := range group {
			own := *group[i].TimeSlicing
			own.GPU = gpu
			group[i] = profile.Solo{TimeSlicing: &own, Server: group[i].Server, Load: group[i].Load}
		}
		return p.Predict(m, group, predict.MethodClosedForm)
	}
	width := func(m sharing.Mechanism, gpu string) float64 {
		out := must.Get(on(m, gpu))(t)
		v, _ := out[0].Get(profile.MetricTPOTP50)
		return v.WidthFraction()
	}
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		same, near, far := width(m, "NVIDIA H200"), width(m, "NVIDIA H100 80GB HBM3"), width(m, "Tesla T4")
		if !(same < near && near < far) {
			t.Errorf("%s: widths %.3f on the same GPU, %.3f on its architecture, %.3f on another", m, same, near, far)
		}
	}
	out, err := on(sharing.MechanismMPS, "NVIDIA L4")
	if err != nil || out[0].Basis != sharing.BasisTransferred || !strings.Contains(strings.Join(out[0].Notes, "\n"), "carried over from H200 to L4, of another architecture: the interval under mps is wider by up to 25% either way, which is assumed") {
		t.Errorf("on an L4: %v, %v", out, err)
	}
	if _, err := on(sharing.MechanismMPS, "Tesla P100-PCIE-16GB"); !errors.Is(err, predict.ErrOtherGPU) || !strings.Contains(err.Error(), "Volta") {
		t.Errorf("MPS before Volta: %v", err)
	}
	out, err = on(sharing.MechanismTimeSlicing, "NVIDIA TITAN V")
	if err != nil || out[0].Basis != sharing.BasisTransferred || !strings.Contains(strings.Join(out[0].Notes, "\n"), "nothing is known of NVIDIA TITAN V: the interval") {
		t.Errorf("a GPU that is not in the table: %+v, %v", out, err)
	}
	if nobody := width(sharing.MechanismTimeSlicing, "NVIDIA TITAN V"); nobody != width(sharing.MechanismTimeSlicing, "Tesla T4") {
		t.Errorf("the width on a GPU that is not in the table is %.3f", nobody)
	}
	if _, err := on(sharing.MechanismTimeSlicing, "simulated GPU"); !errors.Is(err, predict.ErrOtherGPU) || !strings.Contains(err.Error(), "a simulation says nothing of a GPU") {
		t.Errorf("a simulated GPU: %v", err)
	}
}

// Who calibrates on a GPU of his own gets a predictor of that GPU.
func TestCalibrateElsewhere(t *testing.T) {
	p := must.Get(predict.NewPredictor().On("NVIDIA H100 80GB HBM3", "580.159.04").Fit(predict.MethodClosedForm, rowsOf(t, "h100-colocation.json")))(t)
	if p.Parameters.Quantum.Basis != sharing.BasisTransferred || p.Parameters.LoneStepCost.Basis != sharing.BasisFitted || p.Parameters.HostFraction.Basis != sharing.BasisPrior {
		t.Errorf("%+v", p.Parameters)
	}
	measured, err := p.PredictRows(predict.MethodClosedForm, rowsOf(t, "h100-colocation.json"), nil)
	if err != nil || measured[0].Prediction == nil || measured[0].Prediction.Basis != sharing.BasisFitted {
		t.Errorf("%v: %+v", err, measured[0])
	}
}
