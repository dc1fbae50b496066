package canary_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/canary"
	"github.com/cotenant/cotenant/decision/guard"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

const alone = "../predict/testdata/h100-tenants.json"

// learning is a plan of an encoder beside an 8B server, of which both were measured alone.
func learning(t *testing.T) (p canary.Plan, group []profile.Solo) {
	t.Helper()
	server := func(model string) profile.Server { return profile.Server{Model: model} }
	chat := profile.ProfileRef{Server: server("rand-8b"), Load: profile.Load{Concurrency: 4, Prompt: 256, Output: 64}}
	chat.Server.Slots = profile.Some(16)
	p = canary.Plan{PerDay: 100, Learned: filepath.Join(t.TempDir(), "learned.json"), Profiles: alone, Mechanism: sharing.MechanismTimeSlicing,
		Tenants: []canary.Tenant{
			{Name: "encoder", Agreed: true, Profile: &profile.ProfileRef{Server: server("encoder-12x768")},
				Objectives: []canary.Objective{{Metric: "steps", AtLeast: true, Limit: 1}}},
			{Name: "chat", Agreed: true, Profile: &chat, Objectives: []canary.Objective{{Metric: "tpot", Limit: 1}}},
		}}
	profiles, err := profile.LoadProfiles(alone)
	if err != nil {
		t.Fatal(err)
	}
	for _, tenant := range p.Tenants {
		solo, err := profiles.Solo(tenant.Profile.Server, tenant.Profile.Load)
		if err != nil {
			t.Fatal(err)
		}
		group = append(group, solo)
	}
	return p, group
}

// TestLearns plays a day of canaries of a world in which chat takes 1.4 times what is predicted: each writes a row for
// each tenant when it ends, and what is learnt from them predicts the world.
func TestLearns(t *testing.T) {
	p, group := learning(t)
	log, err := guard.OpenLog(filepath.Join(t.TempDir(), "log.jsonl"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	foresee := func(learned string) predict.Prediction {
		predictor, err := predict.LoadPredictorWith("", learned)
		if err != nil {
			t.Fatal(err)
		}
		said, err := predictor.Predict(p.Mechanism, group, predict.MethodClosedForm)
		if err != nil {
			t.Fatal(err)
		}
		return said[1]
	}
	before := foresee("")
	said, _ := before.Get(profile.MetricTPOTP50)
	truth := 1.4 * said.Value
	const day = 8
	for k := range day {
		p.Tenants[0].Name, p.Tenants[1].Objectives[0].Limit = fmt.Sprintf("encoder-%d", k), 2*truth/1e3
		harm, want := []float64{0.5, 0.5}, canary.Promote
		if k%4 == 3 { // its owner asks for too much
			p.Tenants[1].Objectives[0].Limit, harm[1], want = truth/2e3, 2, canary.TakeBack
		}
		src := canary.NewSimulated(p, harm, 10*time.Second, 0, 1, uint64(k))
		r, err := canary.Run(t.Context(), p, &guard.Actor{Apply: true, Log: log}, src, canary.RunOptions{})
		if err != nil || r.Verdict != want {
			t.Fatal(r, err)
		}
	}
	rows, err := profile.LoadRows(p.Learned)
	if err != nil || len(rows) != 2*day || rows.CheckShared() != nil {
		t.Fatalf("%d rows, %v, %v", len(rows), err, rows.CheckShared())
	}
	for _, r := range rows {
		_, v := r.Metric(profile.MetricTPOTP50)
		_, s := r.Metric(profile.MetricStepP50)
		if v != (r.Server.Model == "rand-8b") || s == v || r.Case != "encoder-12x768+rand-8b" || r.Mechanism != p.Mechanism {
			t.Errorf("%+v", r)
		}
	}
	after := foresee(p.Learned)
	now, _ := after.Get(profile.MetricTPOTP50)
	if raw, _ := after.Unlearned(profile.MetricTPOTP50); raw != said || rows[len(rows)-1].Predicted[profile.MetricTPOTP50] != said {
		t.Errorf("what was learnt is learnt again: %v, %v, %v", said, raw, rows[len(rows)-1].Predicted)
	}
	if math.Abs(now.Value/truth-1) > 0.4*math.Abs(said.Value/truth-1) || !now.Contains(truth) {
		t.Errorf("%v before, %v after %d canaries, %.4g in truth", said, now, day, truth)
	}
}

// TestLearnsNothing: what is seen through wide buckets, or hardly, teaches nothing, and a file that cannot be written
// does not keep the newcomer.
func TestLearnsNothing(t *testing.T) {
	p, _ := learning(t)
	log, err := guard.OpenLog(filepath.Join(t.TempDir(), "log.jsonl"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	run := func(name string, harm float64) error {
		p.Tenants[0].Name = name
		_, err := canary.Run(t.Context(), p, &guard.Actor{Apply: true, Log: log},
			canary.NewSimulated(p, []float64{0.5, harm}, 10*time.Second, 0, 1, 1), canary.RunOptions{})
		return err
	}
	p.Learned = filepath.Join(t.TempDir(), "no", "such", "folder")
	if err := run("a", 3); err == nil || !strings.Contains(err.Error(), "no such") {
		t.Error(err)
	}
	if known, _ := log.Canaries(); !known["a"].Done || known["a"].Action != guard.ActionTakeBack {
		t.Errorf("%+v", known)
	}
	for name, change := range map[string]func(p *canary.Plan){
		"profiles:":             func(p *canary.Plan) { p.Profiles = "none.json" },
		"nothing predicts it":   func(p *canary.Plan) { p.Tenants[0].Profile = nil },
		"tenants[1].objectives": func(p *canary.Plan) { p.Tenants[1].Objectives = []canary.Objective{{Metric: "itl", Limit: 1}} },
		"leave the version out": func(p *canary.Plan) { p.Learned = "learned.json@3" },
		"mechanism:":            func(p *canary.Plan) { p.Mechanism = sharing.MechanismMIG },
		"learned: missing":      func(p *canary.Plan) { p.Learned = "" },
	} {
		p, _ = learning(t)
		change(&p)
		if err := run("b", 0.5); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(p.Learned); err == nil {
			t.Errorf("%s: rows were written", name)
		}
	}
}
