// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"cmp"
	"encoding/csv"
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/must"
)

// point is a latency in seconds on a share of a GPU's SMs.
type point struct{ sms, latency float64 }

// filled fits the share of the SMs that work fills to its latencies, and that where they are enough, by the least
// squares of relative errors.
func filled(points []point) (fills, whole float64) {
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.sms, b.sms) })
	scale := func(points []point, shape func(point) float64) float64 {
		sum, squares := 0.0, 0.0
		for _, p := range points {
			x := shape(p) / p.latency
			sum, squares = sum+x, squares+x*x
		}
		return sum / max(squares, 1e-300)
	}
	least := math.Inf(1)
	for bound := 1; bound < len(points); bound++ { // the smallest of which the SMs bind
		enough := scale(points[bound:], func(point) float64 { return 1 })
		share := scale(points[:bound], func(p point) float64 { return 1 / p.sms }) / enough
		off := 0.0
		for _, p := range points {
			e := enough*costs.OnSlice(share, p.sms)/p.latency - 1
			off += e * e
		}
		if off < least {
			least, fills, whole = off, share, enough
		}
	}
	return fills, whole
}

// TestPublishedSlices holds the law of slices, and its constants, to work that others measured on the slices of A100s.
func TestPublishedSlices(t *testing.T) {
	f := must.Get(os.Open("testdata/njit-a100-mig.csv"))(t)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 17 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	works := map[string][]point{"YOLOS-small": {{14.0 / 108, 0.342366}, {1, 0.08815}}} // nos-a100-sharing.csv
	for _, r := range rows[1:] {
		sms, err1 := strconv.ParseFloat(r[1], 64)
		rate, err2 := strconv.ParseFloat(r[2], 64)
		must.Do(t, errors.Join(err1, err2))
		works[r[0]] = append(works[r[0]], point{sms / 108, 1 / rate})
	}
	fills := map[string]float64{}
	for work, points := range works {
		var whole float64
		fills[work], whole = filled(points)
		for _, p := range points {
			if e := whole*costs.OnSlice(fills[work], p.sms)/p.latency - 1; math.Abs(e) > 0.06 {
				t.Errorf("%s on %.0f SMs: %.1f%% off", work, 108*p.sms, 100*e)
			}
		}
	}
	products := (fills["matrix products FP16"] + fills["matrix products TF32"]) / 2
	if want := costs.Table.Unmeasured.SlicePrefill.Value; math.Abs(products-want) > 0.02 {
		t.Errorf("prefills: %.3f of the SMs, %v in the table", products, want)
	}
	var logs []float64
	for _, v := range []float64{fills["GROMACS"], fills["YOLOS-small"], fills["QLoRA of Qwen 1.5B"]} {
		logs = append(logs, math.Log(v))
	}
	other, sigma := costs.Priors[costs.SliceOther], stat.StdDev(logs, nil)*math.Sqrt(1+1.0/3)
	if median := fills["YOLOS-small"]; math.Abs(median-other.Value) > 0.02 || math.Abs(sigma-other.Sigma) > 0.03 {
		t.Errorf("other work: %.3f of the SMs with %.3f, %v with %v in the table", median, sigma, other.Value, other.Sigma)
	}
}
