package predict_test

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// always is the same request again and again.
func always(l predict.Load) iter.Seq[predict.Request] {
	return func(yield func(predict.Request) bool) {
		for yield(predict.Request{Input: l.Prompt, Output: l.Output}) {
		}
	}
}

// The measured cases of h200-colocation.json as clusters: engines from the
// profiles, each tenant's clients in a closed loop.
func TestClusterAgainstColocation(t *testing.T) {
	shapes := map[string]predict.Model{
		"1b": {Parameters: 1.24e9, Layers: 16, KVHeads: 8, HeadDim: 64},
		"8b": llama8B,
	}
	machine := machineOf(t, "H200")
	p := predict.NewPredictor()
	rows := colocation(t)
	profiles := profilesOf(t, rows)
	for _, mechanism := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
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
		errs := map[predict.Metric][]float64{}
		for _, name := range order {
			c := predict.Cluster{GPUs: []predict.SharedGPU{{Mechanism: mechanism, Memory: 140 * sharing.GiB}}, Warmup: 2 * time.Second, Until: 20 * time.Second}
			ok := true
			for _, r := range cases[name] {
				s, err := profiles.Solo(r.Server, r.Load)
				shape, known := shapes[r.Server.Model]
				if ok = ok && err == nil && known && r.Load.Closed() && r.Server.SMPercent.IsZero(); !ok {
					break
				}
				e, err := p.Engine(predict.NewEngine(shape, machine), s)
				if err != nil {
					t.Fatal(err)
				}
				e.ChunkTokens, e.Sequences, e.NoPrefixCache = 0, 16, true
				c.Services = append(c.Services, predict.Service{Name: fmt.Sprint(r.Server), Engine: e, Replicas: []predict.Replica{{}},
					Clients: &predict.Clients{N: r.Load.Concurrency, Think: time.Millisecond, Requests: always(r.Load)}})
			}
			if !ok {
				continue
			}
			report := played(t, c, nil)
			for i, r := range cases[name] {
				for _, m := range []predict.Metric{predict.MetricTPOTP50, predict.MetricTokensPerSecond, predict.MetricE2EP99} {
					want, ok := r.Metric(m)
					got, _ := report.Services[i].Metric(m)
					if ok {
						errs[m] = append(errs[m], math.Abs(got/want-1))
						if m == predict.MetricTPOTP50 {
							t.Logf("%s %-40s %s %s: TPOT %.2f, measured %.2f (%+.0f%%)", mechanism, name, r.Server, r.Load, got, want, 100*(got/want-1))
						}
					}
				}
			}
		}
		for m, e := range errs {
			slices.Sort(e)
			mean := 0.0
			for _, v := range e {
				mean += v / float64(len(e))
			}
			t.Logf("%s %s: mean error %.1f%%, P95 %.1f%% of %d", mechanism, m, 100*mean, 100*e[len(e)*95/100], len(e))
			if mean > 0.15 {
				t.Errorf("%s: %s is missed by %.1f%% on average", mechanism, m, 100*mean)
			}
		}
	}
}
