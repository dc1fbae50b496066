package predict_test

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// always is the same request again and again.
func always(l predict.Load) iter.Seq[predict.Request] {
	return func(yield func(predict.Request) bool) {
		for yield(predict.Request{Input: l.Prompt, Output: l.Output}) {
		}
	}
}

// shapes are those of the measured servers (Llama-shaped).
var shapes = map[string]predict.Model{
	"1b": {Parameters: 1.24e9, Layers: 16, KVHeads: 8, HeadDim: 64},
	"3b": {Parameters: 3.21e9, Layers: 28, KVHeads: 8, HeadDim: 128},
	"8b": llama8B,
}

// sharedCases are the measured cases of a file under a mechanism, as clusters whose
// engines are read from the profiles of each tenant alone, with clients in a closed loop.
func sharedCases(t *testing.T, rows predict.Rows, mechanism sharing.Mechanism) iter.Seq2[predict.Cluster, []*predict.Row] {
	machine := machineOf(t, cmp.Or(rows[0].GPUName, "H200"))
	p := predict.NewPredictor()
	profiles := profilesOf(t, rows)
	cases := map[string][]*predict.Row{}
	var order []string
	for i := range rows {
		if r := &rows[i]; r.Tenants > 1 && r.Mechanism == mechanism {
			if cases[r.Case] == nil {
				order = append(order, r.Case)
			}
			cases[r.Case] = append(cases[r.Case], r)
		}
	}
	return func(yield func(predict.Cluster, []*predict.Row) bool) {
		for _, name := range order {
			c := predict.Cluster{GPUs: []predict.SharedGPU{{Mechanism: mechanism, Memory: 140 * sharing.GiB}}, Warmup: 2 * time.Second, Until: 20 * time.Second}
			ok := true
			for _, r := range cases[name] {
				s, err := profiles.Solo(r.Server, r.Load)
				shape, known := shapes[strings.TrimPrefix(r.Server.Model, "rand-")]
				if ok = ok && err == nil && known && r.Load.Closed() && r.Server.SMPercent.IsZero(); !ok {
					break
				}
				e, err := p.Engine(predict.NewEngine(shape, machine), s)
				if err != nil {
					t.Fatal(err)
				}
				e.ChunkTokens, e.Sequences, e.NoPrefixCache, e.OverheadSigma = 0, 16, true, 0
				c.Services = append(c.Services, predict.Service{Name: fmt.Sprint(r.Server), Engine: e, Replicas: []predict.Replica{{}},
					Clients: &predict.Clients{N: r.Load.Concurrency, Think: time.Millisecond, Requests: always(r.Load)}})
			}
			if ok && !yield(c, cases[name]) {
				return
			}
		}
	}
}

var comparedMetrics = []predict.Metric{predict.MetricTPOTP50, predict.MetricTokensPerSecond, predict.MetricE2EP99}

// What engines from profiles alone see beside each other is close to what was
// measured, without any fit, and so as close as Predict.
func TestClusterAgainstColocation(t *testing.T) {
	for _, mechanism := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		errs := map[predict.Metric][]float64{}
		for c, rows := range sharedCases(t, colocation(t), mechanism) {
			report := played(t, c, nil)
			for i, r := range rows {
				for _, m := range comparedMetrics {
					if want, ok := r.Metric(m); ok {
						got, _ := report.Services[i].Metric(m)
						errs[m] = append(errs[m], math.Abs(got/want-1))
					}
				}
			}
		}
		for m, bar := range map[predict.Metric]float64{predict.MetricTPOTP50: 0.05, predict.MetricTokensPerSecond: 0.06, predict.MetricE2EP99: 0.09} {
			e := errs[m]
			if len(e) < 30 {
				t.Fatalf("%d rows", len(e))
			}
			slices.Sort(e)
			mean := 0.0
			for _, v := range e {
				mean += v / float64(len(e))
			}
			if t.Logf("%s %s: mean error %.1f%%, P95 %.1f%% of %d", mechanism, m, 100*mean, 100*e[len(e)*95/100], len(e)); mean > bar {
				t.Errorf("%s: %s is missed by %.1f%% on average, at most %.0f%%", mechanism, m, 100*mean, 100*bar)
			}
		}
	}
}

// The intervals of 90% hold what was measured, in this project's series of two machines
// and under both mechanisms, and are no wider than twice what nine of ten rows need.
func TestForeseeCoversMeasurements(t *testing.T) {
	t.Parallel()
	race.Long(t)
	type row struct{ off, width float64 }
	by := map[predict.Metric][]row{}
	for _, file := range []string{"h200-colocation.json", "h200-mixes.json", "h200-mixes-2.json", "h200-mixes-3.json", "h200-two-models.json", "h100-colocation.json", "h100-two-models.json"}[:nightly.Cases(2, 7)] {
		for _, mechanism := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
			for c, rows := range sharedCases(t, rowsOf(t, file), mechanism) {
				report, err := c.Foresee(context.Background(), nil)
				if err != nil {
					t.Fatal(err)
				}
				for i, r := range rows {
					for m, in := range report.Services[i].Foreseen {
						want, ok := r.Metric(m)
						if !ok {
							continue
						}
						width := math.Log(in.High / in.Value)
						if want < in.Value {
							width = math.Log(in.Value / in.Low)
						}
						by[m] = append(by[m], row{math.Abs(math.Log(want / in.Value)), width})
					}
				}
			}
		}
	}
	for m := range predict.MetricStepP50 {
		held, rows := 0, by[m]
		for _, r := range rows {
			if r.off <= r.width {
				held++
			}
		}
		if len(rows) < nightly.Cases(60, 120) {
			t.Fatalf("%s: %d rows", m, len(rows))
		}
		slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.off, b.off) })
		needed := rows[len(rows)*9/10].off
		slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.width, b.width) })
		width, share := rows[len(rows)/2].width, float64(held)/float64(len(rows))
		if t.Logf("%s: %d of %d held (%.0f%%), half-width %.2f in the middle, 90%% need %.2f", m, held, len(rows), 100*share, width, needed); share < 0.87 || width > 2*needed {
			t.Errorf("%s: %.0f%% are held by intervals of %.2f", m, 100*share, width)
		}
	}
}
