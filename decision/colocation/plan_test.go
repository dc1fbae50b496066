// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/must"
)

// Every problem of a plan is named with its path and a remedy.
func TestBadPlan(t *testing.T) {
	for name, text := range map[string]string{
		"bad-values": `
version: v2
seconds: 1
warm_seconds: 2
seed: -1
device: -1
modes: [mps, mps, mig-like-emulation]
start_seconds: 9999
servers:
  - {name: a, model: m, url: "http://h:1", command: [x], percent: 70, memory_limit: 1KiB}
  - {name: a, model: m, url: "http://h:1", percent: 140, simulated: {sm_demand: 2, step_kernels: -1}}
  - {name: ../b, model: m, slots: -3}
loads:
  - {name: x, server: aa, concurrency: 1, rate: 2, prompt: 0, output: 1}
  - {name: x, server: a, prompt: 1, output: 2}
  - {name: y, server: a, rate: 1e9, prompt: 1, output: 2}
cases:
  - {name: one, loads: [x]}
  - {name: one, loads: [x, y, xx]}
`,
		"unknown-keys": `
version: v1
server: []
servers:
  - {name: a, modell: m}
loads:
  - {name: x, server: a, concurrency: 4, prompt: 1, output: 2, slo: {tpot: 5ms}}
`,
		"running-servers": `
version: v1
servers:
  - {name: a, model: m, url: "http://h:1", percent: 10}
  - {name: b, model: m, url: "http://h:2", percent: 10}
loads:
  - {name: x, server: a, concurrency: 4, prompt: 1, output: 2}
  - {name: y, server: b, concurrency: 4, prompt: 1, output: 2}
`,
		"empty": "",
	} {
		_, err := ParsePlan([]byte(text), PlanOptions{Real: true})
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		golden.Check(t, "testdata/"+name+".txt", []byte(err.Error()+"\n"))
	}
}

func FuzzPlan(f *testing.F) {
	for _, name := range []string{"simulated.yaml", "two-models.yaml"} {
		b := must.Get(os.ReadFile("plans/" + name))(f)
		f.Add(b, true)
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, data []byte, real bool) {
		p, err := ParsePlan(data, PlanOptions{Real: real})
		if (p == nil) == (err == nil) {
			t.Fatalf("plan %v, error %v", p, err)
		}
		if err != nil {
			return
		}
		// The assumptions of a flow.
		for _, c := range p.Cases {
			for _, name := range c.Loads {
				if s, _ := p.serverFor(p.load(name)); s.Name == "" {
					t.Fatalf("load %q has no server", name)
				}
			}
		}
		if len(p.used()) < 2 {
			t.Fatal("a plan without two loads to compare")
		}
	})
}

// TestPredictsAsThePredictor: a plan with the servers and loads of measured mixes is predicted to the last digit as a
// predictor simulates the same profiles.
func TestPredictsAsThePredictor(t *testing.T) {
	t.Parallel()
	rows := must.Get(profile.LoadRows("../predict/testdata/h200-mixes-12.json"))(t)
	profiles := must.Get(profile.NewProfiles(rows.Profiles()...))(t)
	predictor := predict.NewPredictor()
	cases := slices.DeleteFunc(rows.Cases(), func(c profile.Case) bool { return len(c.Rows) < 2 })
	for _, c := range cases[:8] {
		f := planFlow{plan: &Plan{}}
		f.Predictor = &predictor
		asked := Case{Name: c.Rows[0].Case}
		var group []profile.Solo
		for i, r := range c.Rows {
			name := fmt.Sprint(i)
			f.plan.Servers = append(f.plan.Servers, Server{Name: name, Model: r.Server.Model, Slots: r.Server.Slots.Or(0)})
			f.plan.Loads = append(f.plan.Loads, Load{Name: name, Server: name, Concurrency: r.Load.Concurrency, Rate: r.Load.Rate,
				Prompt: r.Load.Prompt, Output: r.Load.Output})
			asked.Loads = append(asked.Loads, name)
			group = append(group, must.Get(profiles.Solo(r.Server, f.loadOf(&f.plan.Loads[i])))(t))
		}
		got := must.Get(f.predictCase(c.Rows[0].Mechanism, asked, profiles))(t)
		for i, want := range must.Get(predictor.Predict(c.Rows[0].Mechanism, group, predict.MethodSimulated))(t) {
			if diff := cmp.Diff(maps.Collect(want.All()), got[i].Predicted); diff != "" {
				t.Errorf("%s, %s: %s", asked.Name, c.Rows[i].Server, diff)
			}
		}
	}
}
