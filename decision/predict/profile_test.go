// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

func TestParseRows(t *testing.T) {
	rows := colocation(t)
	if len(rows) != 94 {
		t.Fatalf("%d rows", len(rows))
	}
	cases := map[sharing.Mechanism]int{}
	for _, r := range rows {
		if r.Tenants > 1 {
			cases[r.Mechanism]++
		}
	}
	if diff := cmp.Diff(map[sharing.Mechanism]int{sharing.MechanismTimeSlicing: 39, sharing.MechanismMPS: 39}, cases); diff != "" {
		t.Error(diff)
	}
	if n := len(slices.Collect(profilesOf(t, rows).All())); n != 16 {
		t.Errorf("%d profiles", n)
	}
}

func TestParseRowsNamesEveryProblem(t *testing.T) {
	const bad = `[
{"mechanism":"mig","case":"a","load":{"server":0,"concurrency":1,"rate":2,"prompt":128,"output":64},"server":{"model":"x"},"tenants":2},
{"mechanism":"mps","case":"","load":{"server":-1,"prompt":0,"output":-3,"output_spread":1},"server":{},"tenants":0},
{"mechanism":"time-slicing","case":"solo","load":{"server":0,"concurrency":1,"prompt":1,"output":8},"server":{"model":"x","sm_percent":140},"tenants":1,
 "tokens_per_s":0,"tpot_ms":{"p50":5,"p90":4},"gpm":{"sm_util":250},"itl_ms":null},
{"mechanism":"mps","case":"b","load":{"server":0,"concurrency":1,"prompt":1,"output":8,"burst":1},"server":{"model":"x"},"tenants":3},
{"mechanism":"mps","case":"c","load":{"server":0,"rate":-1,"prompt":1,"output":8},"server":{"model":"x"},"tenants":2,"tokens_per_s":.nan}
]`
	_, err := profile.ParseRows([]byte(bad))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"[3].load.burst", "[4].tokens_per_s"} { // found while reading
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	_, err = profile.ParseRows([]byte(strings.NewReplacer(`,"burst":1`, "", ".nan", "5").Replace(bad)))
	for _, want := range []string{
		"[0].mechanism: mig", "[0].load: has a concurrency and a rate", `[0]: case "a" under mig has 2 tenants and 1 rows`,
		"[1].case", "[1].load: asks for nothing", "[1].load.server", "[1].load.prompt", "[1].load.output: must be", "[1].load.output_spread: must lie", "[1].server", "[1].tenants",
		"[2].server.sm_percent", "[2].tokens_per_s", "[2].tpot_ms.p90: 4 is below p50, 5", "[2].gpm.sm_util", "[2].itl_ms.p50: is missing", "[2].e2e_ms.p50",
		`[3]: case "b" under mps has 3 tenants`, "[4].load.rate",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not name %q", err, want)
		}
	}
	for _, empty := range []string{"", "[]", "null", "{}", "[null]", "{\"rows\":[]}"} {
		if rows, err := profile.ParseRows([]byte(empty)); err == nil || rows != nil {
			t.Errorf("%q gives %v, %v", empty, rows, err)
		}
	}
}

func TestProfilesFindWorkloads(t *testing.T) {
	ps := profilesOf(t, colocation(t))
	s := must.Get(ps.Solo(profile.Server{Model: "1b"}, profile.Load{Server: 3, Rate: 12, Prompt: 128, Output: 64, Seed: sharing.Some(9)}))(t)
	if s.TimeSlicing == nil || s.MPS == nil || !s.CapPercent.IsZero() {
		t.Errorf("another server index and seed: %+v", s)
	}
	var err error
	s, err = ps.Solo(profile.Server{Model: "1b", SMPercent: sharing.Some(50.0)}, profile.Load{Concurrency: 4, Prompt: 128, Output: 64})
	if err != nil || s.CapPercent != sharing.Some(50.0) || s.MPS == nil {
		t.Errorf("a capped server: %+v, %v", s, err)
	}
	for _, l := range []profile.Load{{Concurrency: 5, Prompt: 128, Output: 64}, {Rate: 4, Prompt: 128, Output: 64}} {
		if _, err := ps.Solo(profile.Server{Model: "1b"}, l); err == nil {
			t.Errorf("%s is found", l)
		}
	}
	if _, err := ps.Solo(profile.Server{Model: "1b", Slots: sharing.Some(8)}, profile.Load{Concurrency: 4, Prompt: 128, Output: 64}); err == nil {
		t.Error("another server object is found")
	}
	var none profile.Profiles
	if _, err := none.Solo(profile.Server{Model: "1b"}, profile.Load{Concurrency: 4, Prompt: 128, Output: 64}); err == nil || len(slices.Collect(none.All())) != 0 {
		t.Error("the zero value holds something")
	}
}

func TestMoreRequestsCount(t *testing.T) {
	profiles := colocation(t).Profiles()
	few, many := profiles[0], profiles[0]
	fast := sharing.Some(200.0)
	few.Requests, few.TokensPerS = sharing.Some(10), sharing.Some(100.0)
	many.Requests, many.TokensPerS = sharing.Some(20), fast
	for _, order := range [][]profile.SoloProfile{{few, many}, {many, few}} {
		ps := must.Get(profile.NewProfiles(order...))(t)
		s, err := ps.Solo(few.Server, few.Load)
		if err != nil || len(slices.Collect(ps.All())) != 1 || s.TimeSlicing.TokensPerS != fast {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

// Profiles of one server by two engines are no profiles of one server.
func TestOneServerHasOneEngine(t *testing.T) {
	a := colocation(t).Profiles()[0]
	a.Engine = "vllm"
	unsaid, other, another := a, a, a
	unsaid.Engine, other.Engine, another.Engine = "", "sglang", "sglang"
	other.Load.Prompt++
	another.Server.SMPercent, another.Mechanism = sharing.Some(50.0), sharing.MechanismMPS
	ps := must.Get(profile.NewProfiles(a, unsaid))(t)
	err := ps.Add(other, another)
	for _, want := range []string{"[0].engine", "[1].engine", "is sglang", "has vllm", "server.variant"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if n := len(slices.Collect(ps.All())); n != 1 {
		t.Errorf("%d profiles", n)
	}
	other.Server.Variant, another.Server.Variant = "sglang", "sglang"
	if err := ps.Add(other, another); err != nil || len(slices.Collect(ps.All())) != 3 {
		t.Errorf("%v, %v", err, slices.Collect(ps.All()))
	}
}

func TestProfileRoundTrip(t *testing.T) {
	profiles := colocation(t).Profiles()
	b := must.Get(json.Marshal(profiles))(t)
	back := must.Get(profile.ParseProfiles(b))(t)
	if diff := cmp.Diff(profiles, back); diff != "" {
		t.Error(diff)
	}
	b = []byte(strings.Replace(string(b), `"version":2`, `"version":3`, 1))
	if _, err := profile.ParseProfiles(b); err == nil || !strings.Contains(err.Error(), "[0].version") {
		t.Errorf("another version gives %v", err)
	}
}

func FuzzParseRows(f *testing.F) {
	f.Add(`[{"mechanism":"mps","case":"b","load":{"server":0,"concurrency":1,"prompt":1,"output":8},"server":{"model":"x"},"tenants":2},
{"mechanism":"mps","case":"b","load":{"server":1,"rate":1.5,"prompt":1,"output":8},"server":{"model":"x"},"tenants":2}]`)
	f.Add(`[{"mechanism":"time-slicing","case":"s","load":{"server":0,"concurrency":1,"prompt":1,"output":8},"server":{"model":"x"},"tenants":1,
"tokens_per_s":100,"tpot_ms":{"p50":1},"itl_ms":{"p50":1},"e2e_ms":{"p50":9}}]`)
	f.Fuzz(func(t *testing.T, s string) {
		rows, err := profile.ParseRows([]byte(s))
		if err != nil {
			if rows != nil {
				t.Fatal("a value and an error")
			}
			return
		}
		b := must.Get(json.Marshal(rows))(t)
		again, err := profile.ParseRows(b)
		if err != nil {
			t.Fatalf("%s does not parse: %v", b, err)
		}
		c, err := json.Marshal(again)
		if err != nil || string(b) != string(c) {
			t.Fatalf("round trip: %s, then %s (%v)", b, c, err)
		}
		p := predict.NewPredictor()
		measured := must.Get(p.PredictRows(predict.MethodClosedForm, rows, nil))(t)
		for _, m := range measured {
			if (m.Prediction == nil) == (m.Err == nil) {
				t.Fatal("a prediction and an error, or neither")
			}
		}
	})
}

func FuzzParsePredictor(f *testing.F) {
	b, err := json.Marshal(predict.NewPredictor())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(b))
	f.Fuzz(func(t *testing.T, s string) {
		p, err := predict.ParsePredictor([]byte(s))
		if (p == nil) == (err == nil) {
			t.Fatal("a value and an error, or neither")
		}
		if err != nil {
			return
		}
		b := must.Get(json.Marshal(p))(t)
		if _, err := predict.ParsePredictor(b); err != nil {
			t.Fatalf("%s does not parse: %v", b, err)
		}
	})
}

// TestUnits: a figure that is a thousand times too large or too small is refused by its path.
func TestUnits(t *testing.T) {
	t.Parallel()
	scale := func(l *profile.LatencyMS, by float64) {
		for _, v := range []*sharing.Optional[float64]{&l.P50, &l.P90, &l.P95, &l.P99, &l.Mean} {
			if x, ok := v.Get(); ok {
				*v = sharing.Some(x * by)
			}
		}
	}
	edits := map[string]func(p *profile.SoloProfile, by float64){
		"itl_ms.p50":   func(p *profile.SoloProfile, by float64) { scale(&p.ITL, by) },
		"tpot_ms.p50":  func(p *profile.SoloProfile, by float64) { scale(&p.TPOT, 1e3); scale(&p.ITL, 1e3) },
		"e2e_ms.p50":   func(p *profile.SoloProfile, by float64) { scale(&p.E2E, by) },
		"tokens_per_s": func(p *profile.SoloProfile, by float64) { p.TokensPerS = sharing.Some(p.TokensPerS.Or(0) * by) },
		"steps_per_s":  func(p *profile.SoloProfile, by float64) { scale(&p.Step, by) },
	}
	refused := map[string]int{}
	for _, file := range []string{"h200-mixes.json", "h200-foreign.json", "h200-engines-7.json"} {
		for _, p := range rowsOf(t, file).Profiles() {
			for path, edit := range edits {
				for _, by := range []float64{1e-3, 1e3} {
					q := p
					if edit(&q, by); (path == "steps_per_s") != (p.Kind == profile.KindStepper) || p.Kind == profile.KindBurster {
						continue
					}
					if err := q.Validate(); err == nil || !strings.Contains(err.Error(), path+": is ") {
						t.Errorf("%s, %s, %s, %s times %v: %v", file, p.Server, p.Load, path, by, err)
					}
					refused[path]++
				}
			}
		}
	}
	for path := range edits {
		if refused[path] < 10 {
			t.Errorf("%s: %d profiles", path, refused[path])
		}
	}
}
