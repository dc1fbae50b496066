// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// TestWorldsAreMeasured holds what the spreads of worlds say of model servers to the rows of the tree: the GPU's idle
// part of a lone client's steps, and the time that MPS adds to a step for each layer.
func TestWorldsAreMeasured(t *testing.T) {
	files, err := filepath.Glob("../../../decision/predict/testdata/*.json")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	layers := map[string]float64{"160m": 12, "1b": 16, "3b": 28, "8b": 32}
	var idle, added, even []float64 // even: of answers that are all of one length
	for _, f := range files {
		rows, err := profile.LoadRows(f)
		if err != nil {
			continue // of another format
		}
		alone := map[string][]profile.SoloProfile{} // by series
		for i := range rows {
			r := &rows[i]
			if r.Tenants == 1 && r.Kind == profile.KindServer && r.Load.Closed() && r.Server.SMPercent.IsZero() {
				alone[r.Series] = append(alone[r.Series], r.Profile())
			}
		}
		for _, series := range alone {
			for _, p := range series {
				step, n := p.ITL.P50.Or(0), layers[strings.TrimPrefix(p.Server.Model, "rand-")]
				if p.Mechanism != sharing.MechanismTimeSlicing || step == 0 || n == 0 {
					continue
				}
				if busy := p.GPUBusyFraction.Or(0); busy > 0 && p.Load.Concurrency == 1 {
					idle = append(idle, 1-busy)
				}
				if p.GapsHoldPrompts() || p.Server.Variant != "" || p.TokensPerS.Or(0)/p.Batch()*step/1e3 < 0.5 {
					continue // prefills of others come between most of its tokens, or it launches kernels one by one
				}
				for _, q := range series {
					if with := q.ITL.P50.Or(0); with > 0 && q.Mechanism == sharing.MechanismMPS && q.Server == p.Server &&
						q.Load.Same() == p.Load.Same() {
						added = append(added, (with-step)/n)
						if p.Load.OutputSpread == 0 {
							even = append(even, (with-step)/n)
						}
					}
				}
			}
		}
	}
	sp, err := readSpreads("")
	if err != nil {
		t.Fatal(err)
	}
	host, mps := sp.Quantities["host_fraction"], sp.Quantities["mps_step_per_layer"]
	inside := 0
	for _, v := range idle {
		if v >= host.Low && v <= host.High {
			inside++
		}
	}
	if len(idle) < 15 || inside < len(idle)*9/10 {
		t.Errorf("of %d lone clients %d have a GPU as idle as worlds do, between %v and %v: %.3v", len(idle), inside, host.Low,
			host.High, idle)
	}
	slices.Sort(added)
	slices.Sort(even)
	for q, want := range map[float64]float64{0.5: mps.Median, 0.16: mps.Median * (1 - mps.Sigma), 0.84: mps.Median * (1 + mps.Sigma)} {
		if v := stats.NearestRank(even, q); len(even) < 50 || v < 0.93*want || v > 1.07*want {
			t.Errorf("MPS adds %.4f ms a layer at the quantile %v of %d rows, %.4f in worlds", v, q, len(even), want)
		}
	}
	// Of all rows some three in ten are of a host at the faster of its two paces, shared_core times as fast, where MPS adds
	// less than in any world. The others spread as worlds do, or less.
	faster, _ := slices.BinarySearch(added, mps.Median/math.Sqrt(costs.Table.Launched.SharedCore.Value))
	at := func(q float64) float64 { return stats.NearestRank(added[faster:], q) }
	wide := math.Log(at(0.84)/at(0.16)) / 2 / mps.Sigma
	if n := len(added); n < 100 || faster > 3*n/10 || math.Abs(at(0.5)/mps.Median-1) > 0.07 || wide < 0.6 || wide > 1.07 {
		t.Errorf("of %d lone servers MPS adds less to %d than in any world: %.3v; to the others %.4f ms a layer (%.4f to %.4f), in "+
			"worlds %v, of sigma %v", n, faster, added[:faster], at(0.5), at(0.16), at(0.84), mps.Median, mps.Sigma)
	}
}
