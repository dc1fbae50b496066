// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

func gpuRow(t *testing.T, name string) *sharing.GPU {
	t.Helper()
	g := must.Get(sharing.LookupGPU(name))(t)
	return g
}

// A GPU with less bandwidth or a lower peak rate is slower, by a less certain factor.
func TestFromProfile(t *testing.T) {
	p := &profile.SoloProfile{}
	p.TTFT.P99, p.TPOT.P99, p.E2E.P99 = sharing.Some(10.0), sharing.Some(5.0), sharing.Some(400.0)
	solo := &profile.Solo{TimeSlicing: p}
	h200, l4 := gpuRow(t, "H200"), gpuRow(t, "L4")
	same, ok := predict.FromProfile(solo, h200, h200, true, 2)
	if !ok || same.From != sharing.BasisMeasured || same.Solo != solo || same.Isolated != [predict.LatencyCount]float64{0.01, 0.005, 0.4} ||
		same.IsolatedSigma != [predict.LatencyCount]float64{} {
		t.Errorf("the same GPU: %+v", same)
	}
	if part, ok := predict.FromProfile(solo, h200, h200, false, 2); !ok || part.Solo != nil || part.Isolated != same.Isolated {
		t.Errorf("a part of the GPU: %+v", part)
	}
	there, ok := predict.FromProfile(solo, h200, l4, true, 2)
	if by := there.Isolated[predict.LatencyTPOT] / 0.005; !ok || by < 12 || by > 16 || there.IsolatedSigma[predict.LatencyTPOT] < 0.25 || there.Solo != nil {
		t.Errorf("4800 over 300 GB/s make a token %.3g times as long: %+v", by, there)
	}
	if by := there.Isolated[predict.LatencyTTFT] / 0.01; by < 3 || by > 8 || there.IsolatedSigma[predict.LatencyE2E] == 0 {
		t.Errorf("a prefill takes %.3g times as long: %+v", by, there)
	}
	if _, ok := predict.FromProfile(solo, h200, &sharing.GPU{Name: "unknown"}, true, 2); ok {
		t.Error("transferred to a GPU of which nothing is known")
	}
	p.Fit = &profile.ServingFit{}
	if d, _ := predict.FromProfile(solo, nil, l4, true, 2); d.From != sharing.BasisFitted || d.Solo != solo {
		t.Errorf("production metrics of a simulated GPU: %+v", d)
	}
}
