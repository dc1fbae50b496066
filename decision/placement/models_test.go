// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// measured are servers that were measured alone on an H200.
func measured() (*profile.Profiles, error) {
	return profile.LoadProfiles("../predict/testdata/h200-colocation.json")
}

func server(model string, clients int) profile.ProfileRef {
	return profile.ProfileRef{Server: profile.Server{Model: model}, Load: profile.Load{Concurrency: clients, Prompt: 128, Output: 64}}
}

func workloads() map[string]profile.ProfileRef {
	return map[string]profile.ProfileRef{"chat": server("8b", 4), "tags": server("1b", 4), "rank": server("1b", 1), "new": server("70b", 4)}
}

// Two GPUs with a tenant each: a third goes where it and its neighbour lose
// least, as predicted from what was measured of each alone.
func ExampleNewModels() {
	profiles, err := measured()
	if err != nil {
		fmt.Println(err)
		return
	}
	models, err := placement.NewModels(map[string]profile.ProfileRef{"chat": server("8b", 4), "tags": server("1b", 4)},
		placement.Calibrated{Model: "H200", Predictor: predict.NewPredictor(), Profiles: profiles})
	if err != nil {
		fmt.Println(err)
		return
	}
	named := func(name string, tpot time.Duration) *layout.Workload {
		return &layout.Workload{Name: name, Tenant: "one team", Objective: layout.Objective{TPOTP99: tpot}}
	}
	node := func(name, tenant string, tpot time.Duration) layout.Node {
		return layout.Node{Name: name, Devices: []layout.Device{{GPU: layout.GPUOf("H200"), Mode: sharing.MechanismTimeSlicing}},
			Assignments: []layout.Assignment{{Key: name + "/0", Workload: named(tenant, tpot), Compute: 400}}}
	}
	c, problems := layout.Observe([]layout.Node{node("a", "chat", 12*time.Millisecond), node("b", "tags", 0), node("c", "not-measured", 0)})
	if err := layout.Err(problems); err != nil {
		fmt.Println(err)
		return
	}
	scorer := placement.NewScorer(placement.BestFit, models)
	r := &placement.Request{Name: "another", GPUs: 1, Milli: 400, Mechanisms: []sharing.Mechanism{sharing.MechanismTimeSlicing}, Workload: named("tags", 0)}
	for n := range c.Nodes() {
		o, fit := scorer.Score(n, r)
		fmt.Printf("%s: %v, %v\n", n.Name, fit.Verdict, fit)
		if x, ok := o.Slowdown.Get(); ok && fit.Verdict == filter.VerdictPass {
			fmt.Printf("   the worst slowdown is %.2fx\n", x)
		}
	}
	// Output:
	// a: reject, the predicted TPOT P99 is 14.92 ms (13.37 to 16.66), the objective 12 ms
	// b: pass, it fits
	//    the worst slowdown is 1.81x
	// c: pass, it fits
}

func models(tb testing.TB) placement.Forecaster {
	tb.Helper()
	ps := must.Get(measured())(tb)
	m := must.Get(placement.NewModels(workloads(), placement.Calibrated{Model: "H200", Predictor: predict.NewPredictor(), Profiles: ps}))(tb)
	return m
}

// The same mix has the same figures to the last digit at every door: predictions in whatever order, a scheduler's, and
// those behind a decision, by closed form and, where that leaves an objective open, by simulation.
func TestEveryDoorAgrees(t *testing.T) {
	t.Parallel()
	predictor := predict.NewPredictor()
	gpu := must.Get(sharing.LookupGPU("H200"))(t)
	for _, file := range []string{"h200-mixes-12.json", "h200-foreign-3.json"} {
		rows := must.Get(profile.LoadRows("../predict/testdata/" + file))(t)
		ps := must.Get(profile.NewProfiles(rows.Profiles()...))(t)
		refs := map[string]profile.ProfileRef{}
		for _, r := range rows {
			refs[fmt.Sprint(r.Server, r.Load.Same())] = profile.ProfileRef{Server: r.Server, Load: r.Load.Same()}
		}
		m := must.Get(placement.NewModels(refs, placement.Calibrated{Model: "H200", Predictor: predictor, Profiles: ps}))(t)
		for _, c := range rows.Cases() {
			mech := c.Rows[0].Mechanism
			var group, reversed []profile.Solo
			var names []string
			var tenants []predict.Tenant
			for _, r := range c.Rows {
				s := must.Get(ps.Solo(r.Server, r.Load.Same()))(t)
				d, _ := predict.FromProfile(&s, gpu, gpu, true, 2)
				group, reversed = append(group, s), append([]profile.Solo{s}, reversed...)
				names, tenants = append(names, fmt.Sprint(r.Server, r.Load.Same())), append(tenants, d)
			}
			for _, method := range []predict.Method{predict.MethodClosedForm, predict.MethodSimulated} {
				want := must.Get(predictor.Predict(mech, group, method))(t)
				other := must.Get(predictor.Predict(mech, reversed, method))(t)
				if method == predict.MethodSimulated { // where an objective is left open
					k := slices.IndexFunc(want, func(p predict.Prediction) bool { _, serves := p.Get(profile.MetricTPOTP99); return serves })
					if k < 0 {
						continue
					}
					v, _ := want[k].Get(profile.MetricTPOTP99)
					tenants[k].Limits[predict.LatencyTPOT] = v.Value / 1e3
				}
				decided := predict.EvaluatorOf(ps, &predictor).Evaluate(predict.MachineOf(gpu), predict.Share{Mechanism: mech, SMs: 1, Bandwidth: 1}, tenants, 0.95)
				placed := m.Predict(nil, "H200", mech, names, predict.MethodClosedForm)
				for i := range want {
					for metric, v := range want[i].All() {
						back, _ := other[len(other)-1-i].Get(metric)
						behind, _ := decided[i].Predicted.Get(metric)
						at, _ := placed[i].Get(metric)
						if back != v || behind.Value != v.Value || method == predict.MethodClosedForm && at != v {
							t.Errorf("%s, %s, %s by %s, %s: %v, %v in another order, %v decided, %v placed", file, c.Rows[i].Case, mech, method, metric, v, back, behind, at)
						}
					}
				}
			}
		}
	}
}

// TestModels answers nil for what is not known.
func TestModels(t *testing.T) {
	m := models(t)
	for name, c := range map[string]struct {
		gpu   string
		mech  sharing.Mechanism
		group []string
	}{
		"other GPU":     {"A100", sharing.MechanismMPS, []string{"chat"}},
		"no profile":    {"H200", sharing.MechanismMPS, []string{"chat", "new"}},
		"not named":     {"H200", sharing.MechanismMPS, []string{"chat", "nobody", ""}},
		"mechanism":     {"H200", sharing.MechanismHAMi, []string{"chat"}},
		"nobody at all": {"H200", sharing.MechanismMPS, nil},
		"a crowd":       {"H200", sharing.MechanismMPS, make49()},
	} {
		t.Run(name, func(t *testing.T) {
			got := m.Predict(nil, c.gpu, c.mech, c.group, predict.MethodClosedForm)
			if len(got) != len(c.group) {
				t.Fatalf("%d answers", len(got))
			}
			for _, p := range got {
				if p != nil {
					t.Errorf("%v", p)
				}
			}
		})
	}
	_, err := placement.NewModels(map[string]profile.ProfileRef{"": {}}, placement.Calibrated{}, placement.Calibrated{Model: "H200"})
	if !errors.Is(err, placement.ErrInvalid) {
		t.Fatal(err)
	}
	for _, want := range []string{"workload has no name", "gpus[0].Model", "gpus[1].Profiles"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func make49() []string {
	out := make([]string, 49)
	for i := range out {
		out[i] = "chat"
	}
	return out
}

// TestModelsUnknownIsNotZero places beside a tenant that nothing is known of:
// that must not look better than a neighbour who is known to do little.
func TestModelsUnknownIsNotZero(t *testing.T) {
	m := models(t)
	c := beside(t, sharing.MechanismMPS, "new", "rank")
	r := request("r", "rank", sharing.MechanismMPS, 300, layout.Objective{})
	scorer := placement.NewScorer(placement.BestFit, m)
	unknown, _ := scorer.Score(c.At(0), r)
	known, _ := scorer.Score(c.At(1), r)
	if unknown.Unpredicted != 2 || !unknown.Slowdown.IsZero() || known.Unpredicted != 0 || known.Slowdown.Or(0) <= 1 || unknown.Score >= known.Score {
		t.Errorf("unknown %+v, known %+v", unknown, known)
	}
	for _, slo := range []struct {
		limit time.Duration
		want  filter.Verdict
	}{{time.Second, filter.VerdictPass}, {time.Microsecond, filter.VerdictReject}} {
		strict := request("r", "rank", sharing.MechanismMPS, 300, layout.Objective{TPOTP99: slo.limit})
		if f := scorer.Filter(c.At(0), strict); f.Verdict != filter.VerdictUnknown || f.Code != codes.SlowdownUnknown {
			t.Errorf("unknown neighbour: %v", f)
		}
		if f := scorer.Filter(c.At(1), strict); f.Verdict != slo.want {
			t.Errorf("limit %v: %v %v", slo.limit, f.Verdict, f)
		}
	}
	// A limit within the interval is for a measurement to settle.
	p := m.Predict(nil, "H200", sharing.MechanismMPS, []string{"rank", "rank"}, predict.MethodClosedForm)[0]
	v, ok := p.Get(profile.MetricTPOTP99)
	if !ok {
		t.Fatal("no TPOT P99")
	}
	limit := time.Duration(v.Value * float64(time.Millisecond))
	strict := request("r", "rank", sharing.MechanismMPS, 300, layout.Objective{TPOTP99: limit})
	if f := scorer.Filter(c.At(1), strict); f.Verdict != filter.VerdictUnknown || f.Code != codes.TPOT || !strings.Contains(f.String(), "only a measurement") {
		t.Errorf("%v %v", f.Verdict, f)
	}
}

// TestModelsSettle: where the closed form's interval holds a limit and the simulation's does not, the simulation
// decides, and asking again does not allocate.
func TestModelsSettle(t *testing.T) {
	m, predictor := models(t), predict.NewPredictor()
	ps := must.Get(measured())(t)
	settled := map[filter.Verdict]int{}
	for _, mech := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		for _, group := range [][]string{{"chat", "tags"}, {"tags", "chat"}, {"rank", "tags"}, {"tags", "rank"}} {
			var solos []profile.Solo
			for _, name := range group {
				solo := must.Get(ps.Solo(workloads()[name].Server, workloads()[name].Load))(t)
				solos = append(solos, solo)
			}
			simulated := must.Get(predictor.Predict(mech, solos, predict.MethodSimulated))(t)
			closed, _ := m.Predict(nil, "H200", mech, group, predict.MethodClosedForm)[1].Get(profile.MetricTPOTP99)
			played, _ := simulated[1].Get(profile.MetricTPOTP99)
			c := beside(t, mech, group[0])
			for ms, want := range map[float64]filter.Verdict{played.Low * 0.999: filter.VerdictReject, played.High * 1.001: filter.VerdictPass} {
				if ms <= closed.Low || ms >= closed.High {
					continue
				}
				r := request("b", group[1], mech, 300, layout.Objective{TPOTP99: time.Duration(ms * float64(time.Millisecond))})
				scorer := placement.NewScorer(placement.BestFit, m)
				if f := scorer.Filter(c.At(0), r); f.Verdict != want {
					t.Errorf("%v %v, limit %.3f of %.3f to %.3f: %v %v", mech, group, ms, played.Low, played.High, f.Verdict, f)
				}
				settled[want]++
				if n := testing.AllocsPerRun(20, func() { scorer.Score(c.At(0), r) }); !race.Enabled && // which empties pools
					want == filter.VerdictPass && n > 0 {
					t.Errorf("%v allocations a score", n)
				}
			}
		}
	}
	if settled[filter.VerdictPass] == 0 || settled[filter.VerdictReject] == 0 {
		t.Errorf("settled: %v", settled)
	}
}

func TestModelsConcurrently(t *testing.T) {
	m := models(t)
	names := []string{"chat", "tags", "rank"}
	var wg sync.WaitGroup
	var got [8][]float64
	for w := range got {
		wg.Go(func() {
			for i := range 27 {
				group := []string{names[i%3], names[i/3%3], names[i/9]}
				for _, p := range m.Predict(nil, "H200", sharing.MechanismMPS, group, predict.MethodClosedForm) {
					got[w] = append(got[w], p.Slowdown.Value)
				}
			}
		})
	}
	wg.Wait()
	for w := range got {
		if fmt.Sprint(got[w]) != fmt.Sprint(got[0]) {
			t.Errorf("worker %d got other answers", w)
		}
	}
}

// beside has a node for each workload, of which a replica is on its one GPU.
func beside(tb testing.TB, m sharing.Mechanism, names ...string) *layout.Cluster {
	tb.Helper()
	var nodes []layout.Node
	for i, name := range names {
		nodes = append(nodes, layout.Node{Name: fmt.Sprint("n", i), Devices: []layout.Device{{GPU: layout.GPUOf("H200"), Mode: m}},
			Assignments: []layout.Assignment{{Key: fmt.Sprint(i), Workload: &layout.Workload{Name: name, Tenant: "t"}, Compute: 300}}})
	}
	c, problems := layout.Observe(nodes)
	if err := layout.Err(problems); err != nil {
		tb.Fatal(err)
	}
	return c
}

func request(name, workload string, m sharing.Mechanism, milli int, o layout.Objective) *placement.Request {
	return &placement.Request{Name: name, GPUs: 1, Milli: milli, Mechanisms: []sharing.Mechanism{m},
		Workload: &layout.Workload{Name: workload, Tenant: "t", Objective: o}}
}
