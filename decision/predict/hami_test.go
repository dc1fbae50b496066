// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"math"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
)

// testdata/h200-hami.json was measured on an H200 with driver 580.159 on 2026-11-23: LLM servers that decode by CUDA
// graphs, plainly ("solo-1b", "1b+8b") and under HAMi-core 8f3a89c, preloaded with limits of memory and of 25, 50 or 75
// percent of the cores ("hami-1b25+8b75"). The library forwards the launch of a graph as it is: a limit slows nobody by
// more than the interception does, and tenants take turns as without it.
func TestTenantsUnderHAMiTakeTurns(t *testing.T) {
	rows := must.Get(profile.LoadRows("testdata/h200-hami.json"))(t)
	p := predict.NewPredictor()
	all := must.Get(p.PredictRows(predict.MethodSimulated, rows, nil))(t)
	isolated := map[string]float64{}
	alike, pairs := 0, 0
	for i := range rows {
		model, _, limited := strings.Cut(rows[i].Server.Model, "-hami-")
		tpot, _ := rows[i].Metric(profile.MetricTPOTP50)
		switch {
		case rows[i].Tenants > 1:
		case !limited:
			isolated[model] = tpot
		default:
			alike++
			if tpot < isolated[model] || tpot > 1.15*isolated[model] {
				t.Errorf("%s: TPOT %.3g, and %.3g without HAMi", rows[i].Case, tpot, isolated[model])
			}
		}
	}
	for _, m := range all {
		pairs++
		want, _ := m.Row.Metric(profile.MetricTPOTP50)
		got, ok := m.Prediction.Get(profile.MetricTPOTP50)
		if !ok || want < got.Low || want > got.High || math.Abs(got.Value/want-1) > 0.1 {
			t.Errorf("%s, %s: predicted %v, measured %.4g", m.Row.Case, m.Row.Server, got, want)
		}
	}
	if alike != 6 || pairs != 6 {
		t.Errorf("%d tenants alone under HAMi and %d in pairs", alike, pairs)
	}
}
