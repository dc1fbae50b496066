// SPDX-License-Identifier: Apache-2.0

package accuracy_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// foreign are the rows of engines and kinds of tenants that nothing is calibrated on.
var foreign = sync.OnceValues(func() ([]predict.Measured, error) {
	return foreignRows(predict.NewPredictor(), foreignFiles, profile.Mechanisms[:]...)
})

// foreignFiles hold engines and kinds of tenants that nothing is calibrated on.
var foreignFiles = []string{"h200-foreign.json", "h200-foreign-2.json", "h200-foreign-3.json", "h200-foreign-4.json", "h100-llamacpp.json", "h200-llamacpp.json", "h200-llamacpp-2.json", "h200-llamacpp-3.json",
	"h100-llamacpp-2.json", "h100-llamacpp-3.json", "h100-tenants.json", "h100-tenants-2.json", "h100-tenants-3.json",
	"h100-tenants-4.json", "h100-tenants-5.json", "h100-tenants-6.json", "h100-llamacpp-4.json", "h100-llamacpp-5.json",
	"h100-llamacpp-6.json", "h200-llamacpp-4.json", "h200-tenants-6.json", "h200-llamacpp-5.json", "h200-tenants-7.json",
	"h100-llamacpp-7.json", "h100-tenants-7.json", "h100-llamacpp-8.json", "h200-llamacpp-6.json", "h200-llamacpp-7.json",
	"h200-llamacpp-8.json", "h200-llamacpp-9.json",
	"h200-tenants.json", "h200-tenants-2.json", "h200-tenants-3.json", "h200-tenants-4.json", "h200-tenants-5.json"}

// engineFiles have the transformers library too. In the first three, cuDNN planned its attention anew, for 42 ms, for
// each length of keys that it had not met.
var engineFiles = []string{"h100-engines.json", "h200-engines.json", "h200-engines-2.json", "h200-engines-3.json",
	"h200-engines-4.json", "h200-engines-5.json", "h200-engines-6.json", "h200-engines-7.json"}

func foreignRows(p predict.Predictor, names []string, mechanisms ...sharing.Mechanism) ([]predict.Measured, error) {
	var others profile.Profiles
	var files []profile.Rows
	for _, name := range names {
		rows, err := profile.LoadRows(testdata + name)
		if err == nil {
			err = others.Add(rows.Profiles()...)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, slices.DeleteFunc(rows, func(r profile.Row) bool { return r.Tenants > 1 && !slices.Contains(mechanisms, r.Mechanism) }))
	}
	var out []predict.Measured
	for _, rows := range files {
		ms, err := p.PredictRows(predict.MethodSimulated, rows, &others)
		if err != nil {
			return nil, err
		}
		out = append(out, ms...)
	}
	return out, nil
}

// Kernels that fill the GPU starve a server under MPS and not under time-slicing, and a
// notebook that thinks does not: the measured factors of h100-tenants.json are 6.2, 1.5
// and 1.1.
func TestFilledGPUStarvesChains(t *testing.T) {
	t.Parallel()
	race.Long(t)
	measured, err := foreign()
	if err != nil {
		t.Fatal(err)
	}
	slower := map[string]profile.Interval{}
	for _, m := range measured {
		if m.Row.GPUName == "NVIDIA H100 80GB HBM3" && m.Row.Server.Model == "rand-8b" {
			slower[m.Row.Mechanism.String()+" "+m.Row.Case] = m.Prediction.Slowdown
		}
	}
	for name, want := range map[string][2]float64{
		"mps chat8b+fft": {3, 8}, "time-slicing chat8b+fft": {1.2, 1.8},
		"mps chat8b+notebook": {1, 1.4}, "time-slicing chat8b+notebook": {1, 1.2},
	} {
		if v := slower[name].Value; v < want[0] || v > want[1] {
			t.Errorf("%s: slower by %v", name, slower[name])
		}
	}
}
