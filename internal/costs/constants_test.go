// SPDX-License-Identifier: Apache-2.0

package costs_test

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// TestTable: the table can be read and is complete, and of at most eighty constants.
func TestTable(t *testing.T) {
	t.Parallel()
	n := 0
	var walk func(name string, v reflect.Value)
	walk = func(name string, v reflect.Value) {
		if c, ok := v.Interface().(costs.Constant); ok {
			var basis sharing.Basis
			if n++; c.Value == 0 || c.Unit == "" || basis.UnmarshalText([]byte(c.Basis)) != nil || basis == sharing.BasisUnknown || c.Source == "" {
				t.Errorf("%s: %+v", name, c)
			}
			return
		}
		if v.Kind() == reflect.Array {
			for i := range v.Len() {
				walk(fmt.Sprintf("%s[%d]", name, i), v.Index(i))
			}
			return
		}
		for i := range v.NumField() {
			walk(name+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
	walk("Table", reflect.ValueOf(costs.Table))
	if n < 60 || n > 80 {
		t.Errorf("%d constants", n)
	}
	want := []string{"decode_efficiency", "step_per_layer", "prefill_per_layer", "prefill_efficiency", "host_fraction", "sm_decoding",
		"sm_other", "slice_decoding", "slice_other", "turns_overhead", "mps_step_per_layer", "mps_blocking", "load_error", "busy_error",
		"isolated_error", "burstiness", "length_sigma"}
	for i, c := range costs.Priors {
		if c.Name != want[i] || costs.Medians[i] != c.Value {
			t.Errorf("quantity %d is %s, %v", i, c.Name, costs.Medians[i])
		}
	}
}

// layersOf are those of the testbed's models, whose names in the rows may begin with "rand-".
var layersOf = map[string]float64{"160m": 12, "1b": 16, "3b": 28, "8b": 32}

// csvOf are the rows of a file of measurements, without its head.
func csvOf(t *testing.T, name string) [][]string {
	t.Helper()
	f := must.Get(os.Open("../../decision/predict/testdata/" + name))(t)
	defer f.Close()
	rows := must.Get(csv.NewReader(f).ReadAll())(t)
	return rows[1:]
}

// TestDerivedAgain: constants that come from rows in the tree are what their queries give, within a quarter of the
// value.
func TestDerivedAgain(t *testing.T) {
	t.Parallel()
	race.Long(t)
	files, err := filepath.Glob("../../decision/predict/testdata/*.json")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	found := map[string][]float64{}
	for _, f := range files {
		rows, err := profile.LoadRows(f)
		if err != nil {
			continue // of another format
		}
		bySeries := map[string][]profile.SoloProfile{}
		for i := range rows {
			r := &rows[i]
			if busy, sm := r.Profile().GPUBusyFraction.Or(0), r.Profile().SMFraction.Or(0); r.Tenants == 1 && r.Kind == profile.KindStepper && busy*sm > 0 {
				found["usual_busy"] = append(found["usual_busy"], busy*1e3/r.StepsPerS.Or(1)/r.Step.P50.Or(1))
				found["usual_sms"] = append(found["usual_sms"], sm/busy)
			}
			if first := r.TTFT.P50.Or(0); r.Tenants > 1 && first > 0 && !r.TTFT.P99.IsZero() {
				found["usual_tail"] = append(found["usual_tail"], r.TTFT.P99.Or(0)/first)
			}
			if r.Tenants == 1 && r.Kind == profile.KindServer && (r.Engine == "" || r.Engine == "cotenant-testbed") &&
				layersOf[strings.TrimPrefix(r.Server.Model, "rand-")] > 0 && r.Load.Closed() && r.Server.SMPercent.IsZero() {
				bySeries[r.Series] = append(bySeries[r.Series], r.Profile())
			}
		}
		for _, alone := range bySeries {
			for _, p := range alone {
				step := p.ITL.P50.Or(0)
				if p.Mechanism != sharing.MechanismTimeSlicing || step == 0 || p.GapsHoldPrompts() {
					continue
				}
				decoding := float64(p.Load.Output-1) / float64(p.Load.Output) * step * p.TokensPerS.Or(0) / 1e3 / p.Batch()
				busy := p.GPUBusyFraction.Or(0)
				if decoding >= costs.Table.Launched.Busy.Value && busy > 0 {
					own := (busy - costs.Table.Launched.BusyPrefilling.Value*max(0, 1-decoding)) / decoding
					found["host_fraction"] = append(found["host_fraction"], 1-own)
					if sm := p.SMFraction.Or(0); sm > 0 {
						found["sm_decoding"] = append(found["sm_decoding"], sm/busy)
					}
				}
				found["decode_of_tpot"] = append(found["decode_of_tpot"], step/p.TPOT.P50.Or(0))
				for _, q := range alone {
					if with := q.ITL.P50.Or(0); q.Mechanism == sharing.MechanismMPS && q.Server == p.Server && q.Load.Same() == p.Load.Same() && with > 0 {
						found["mps_step_per_layer"] = append(found["mps_step_per_layer"], (with-step)/layersOf[strings.TrimPrefix(p.Server.Model, "rand-")])
					}
				}
			}
		}
	}
	constants := map[string]costs.Constant{"usual_busy": costs.Table.Launched.Gapless, "usual_sms": costs.Table.SMs.Usual,
		"usual_tail": costs.Table.Steps.UsualTail, "decode_of_tpot": costs.Table.Steps.DecodeOfTPOT,
		"host_fraction": costs.Priors[costs.HostFraction], "sm_decoding": costs.Priors[costs.SMDecoding],
		"mps_step_per_layer": costs.Priors[costs.MPSStepPerLayer]}
	for name, values := range found {
		slices.Sort(values)
		c, n := constants[name], len(values)
		median := stats.NearestRank(values, 0.5)
		if n < 50 || math.Abs(median/c.Value-1) > 0.25 {
			t.Errorf("%s: %v in the table, %.4f by %d rows", name, c.Value, median, n)
		}
		if c.Spread[1] > 0 && math.Abs(stats.NearestRank(values, 0.95)-c.Spread[1]) > 0.02 {
			t.Errorf("%s: up to %v in the table, %.4f by %d rows", name, c.Spread[1], stats.NearestRank(values, 0.95), n)
		}
	}
	if len(found) != 7 {
		t.Errorf("%d constants derived", len(found))
	}
	var loops [2][]float64 // of a host's loop, of a core alone and one that others share
	for _, r := range csvOf(t, "h100-host-pace.csv") {
		us := must.Get(strconv.ParseFloat(r[10], 64))(t)
		loops[int(us/190)%2] = append(loops[int(us/190)%2], us)
	}
	slices.Sort(loops[0])
	slices.Sort(loops[1])
	if got, want := costs.Table.Launched.SharedCore.Value, stats.NearestRank(loops[1], 0.5)/stats.NearestRank(loops[0], 0.5); math.Abs(got/want-1) > 0.1 {
		t.Errorf("shared_core: %v in the table, %.3f by its source", got, want)
	}
	traces := []float64{math.Log(1.06), math.Log(5.2), math.Log(1.28), math.Log(0.90)} // of burstiness, as its query has them
	middle := func(v []float64) float64 {
		slices.Sort(v)
		return (v[1] + v[2]) / 2
	}
	gaps := middle(traces)
	var off []float64
	for _, v := range traces {
		off = append(off, math.Abs(v-gaps))
	}
	const madOfNormal = 0.6745
	if got, want := costs.Priors[costs.Burstiness].Sigma, middle(off)/madOfNormal; math.Abs(got/want-1) > 0.05 {
		t.Errorf("burstiness: sigma %v in the table, %.3f by its source", got, want)
	}
	for got, want := range map[float64]float64{costs.Priors[costs.Burstiness].Value: math.Exp(gaps),
		costs.Table.Unmeasured.Boost.Value: 2.62 / 2.3} {
		if math.Abs(got/want-1) > 0.02 {
			t.Errorf("%v in the table, %.4f by its source", got, want)
		}
	}
}
