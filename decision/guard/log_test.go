// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/telemetry"
)

// open opens a log and fails the test where it cannot.
func open(t *testing.T, path string, acknowledge bool) *Log {
	t.Helper()
	l, err := OpenLog(path, acknowledge)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestSixLivesOneCap starts a guard six times, each time with a neighbour to cap: the cool-down outlives the program.
func TestSixLivesOneCap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	caps := 0
	for range 6 {
		l := open(t, path, false)
		s := newScene(t, nil)
		if err := l.begin(s.rules, &Config{}); err != nil {
			t.Fatal(err)
		}
		s.resume(l, time.Now())
		a := &Actor{Apply: true, Log: l, Hooks: map[Action][]string{ActionCap: {"true"}}}
		p := Proposal{At: time.Minute, Action: ActionCap, Target: "b/nightly", Percent: 50, target: 1}
		if !s.hold(&p) {
			continue
		}
		done, err := a.Act(t.Context(), &p)
		if err != nil {
			t.Fatal(err)
		}
		if done {
			caps++
		}
		if s.states[1].capped = 0; caps > 0 {
			s.resume(l, time.Now())
			if s.states[1].capped != 0.5 {
				t.Error("the cap is forgotten")
			}
		}
		l.Close()
	}
	if caps != 1 {
		t.Errorf("%d caps in six lives", caps)
	}
}

// TestStateAgainstLog stops actions where log and state disagree, until a person acknowledges it.
func TestStateAgainstLog(t *testing.T) {
	for name, c := range map[string]struct {
		change func(log, state string, before []byte) error
		stops  bool
	}{
		"as it was":       {func(string, string, []byte) error { return nil }, false},
		"state missing":   {func(_, state string, _ []byte) error { return os.Remove(state) }, true},
		"state cut":       {func(_, state string, _ []byte) error { return os.Truncate(state, 20) }, true},
		"state empty":     {func(_, state string, _ []byte) error { return os.Truncate(state, 0) }, true},
		"an older state":  {func(_, state string, before []byte) error { return os.WriteFile(state, before, 0o600) }, true},
		"log missing":     {func(log, _ string, _ []byte) error { return os.Remove(log) }, true},
		"half a line cut": {func(log, _ string, _ []byte) error { return cutLast(log, 5) }, false},
		"two lines cut":   {func(log, _ string, _ []byte) error { return cutLast(log, 700) }, true},
		"log of noise":    {func(log, _ string, _ []byte) error { return os.WriteFile(log, []byte("noise\n"), 0o600) }, true},
	} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		l := open(t, path, false)
		a := &Actor{Apply: true, Log: l, Hooks: map[Action][]string{ActionCap: {"true"}}}
		act := func(a *Actor) bool {
			p := Proposal{Action: ActionCap, Target: "b/job", Percent: 50, Evidence: []string{strings.Repeat("e", 200)}}
			done, err := a.Act(t.Context(), &p)
			if err != nil {
				t.Fatal(name, err)
			}
			return done
		}
		act(a)
		before, err := os.ReadFile(path + ".state")
		if err != nil {
			t.Fatal(err)
		}
		act(a)
		l.Close()
		if err := c.change(path, path+".state", before); err != nil {
			t.Fatal(err)
		}
		a.Log = open(t, path, false)
		if done := act(a); done == c.stops || (a.Log.Stopped() != "") != c.stops {
			t.Errorf("%s: acts %v, %q", name, done, a.Log.Stopped())
		}
		if c.stops && !strings.Contains(a.Log.Stopped(), "-acknowledge") {
			t.Errorf("%s: %q", name, a.Log.Stopped())
		}
		a.Log.Close()
		for _, acknowledge := range []bool{true, false} {
			a.Log = open(t, path, acknowledge)
			if !act(a) {
				t.Errorf("%s: acknowledged, and stopped: %q", name, a.Log.Stopped())
			}
			a.Log.Close()
		}
	}
}

// cutLast takes bytes off the end of a file.
func cutLast(path string, n int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, info.Size()-n)
}

// TestUnfinished records what was tried when the program ended.
func TestUnfinished(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, path, false)
	p := Proposal{Action: ActionCap, Target: "b/job"}
	if err := l.write(auditEntry{Event: eventTrying, Proposal: p}); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l = open(t, path, false)
	data, err := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if err != nil || len(lines) != 2 || !strings.Contains(lines[1], `"event":"unfinished"`) || !strings.Contains(lines[1], "b/job") ||
		l.trying != nil || len(l.acts) != 1 {
		t.Errorf("%q, %v", lines, err)
	}
}

// killed ends a program in the middle of an action.
type killed struct{}

// lives lets a guard and its actor live through random windows: tenants idle and busy, slow and quick, readings that
// lie, actions that fail, kill switches, programs that end at any step, and states that are lost until a person
// acknowledges it. It returns the log and the number of actions.
func lives(t *testing.T, windows int, seed uint64) (log string, acts int) {
	r := rand.New(rand.NewPCG(seed, 1))
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var s *scene
	at := time.Duration(0)
	config := &Config{Reap: true, Tenants: []Tenant{{Name: "c/book", MayReap: true}}}
	a := &Actor{Apply: true, Kill: filepath.Join(t.TempDir(), "stop")}
	a.try = func(_ context.Context, p *Proposal) error {
		if p.Action.Acts() {
			acts++
		}
		switch x := r.Float64(); {
		case x < 0.05:
			panic(killed{})
		case x < 0.2:
			return errors.New("refused")
		}
		return nil
	}
	restart := func(acknowledge bool) {
		if a.Log != nil {
			a.Log.Close()
		}
		a.Log = open(t, path, acknowledge)
		born := begin.Add(at)
		s = newScene(t, nil)
		s.untold, s.rules.Budget = true, 2
		a.Log.now = func() time.Time { return born.Add(s.w) }
		if err := a.Log.begin(s.rules, config); err != nil {
			t.Fatal(err)
		}
		s.resume(a.Log, born)
	}
	carryOut := func(list []Proposal) (err error) {
		defer func() {
			if p := recover(); p != nil && p != (killed{}) {
				panic(p)
			} else if p != nil {
				restart(false)
			}
		}()
		return s.carryOut(t.Context(), a, list)
	}
	restart(false)
	idle, slow, share := false, false, 0.2
	for range windows {
		switch x := r.Float64(); {
		case x < 0.01:
			idle = !idle
		case x < 0.03:
			slow, share = !slow, 0.2+0.5*r.Float64()
		case x < 0.032:
			restart(false)
		case x < 0.033: // within the last line
			if err := cutLast(path, 1+r.Int64N(40)); err != nil {
				t.Fatal(err)
			}
			restart(false)
		case x < 0.0335:
			if err := os.Remove(path + ".state"); err != nil && a.Log.Stopped() == "" {
				t.Fatal(err)
			}
			restart(false)
		case x < 0.05 && a.Log.Stopped() != "":
			restart(true)
		case x < 0.052:
			if err := os.WriteFile(a.Kill, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		case x < 0.062:
			os.Remove(a.Kill)
		}
		at += time.Minute
		list := s.run(1, func(o *Observation) {
			if idle {
				o.Tenants[2].Activity = telemetry.Some(0.0)
			}
			if slow {
				o.Tenants[0].TPOT, o.Tenants[1].Activity = telemetry.Some(20.0), telemetry.Some(share)
			}
			switch x := r.Float64(); {
			case x < 0.02:
				o.GPUs[0].At -= time.Duration(r.IntN(5)) * time.Minute
			case x < 0.04:
				o.GPUs[0].UtilPercent = telemetry.Some(0.0)
			case x < 0.06:
				o.Tenants[2].Activity = none()
			}
		})
		var heard []Proposal
		for _, p := range list {
			if p.Action == ActionMove && strings.HasPrefix(p.Withheld, "its effect") {
				p.Action, p.Percent, p.Withheld = ActionCap, 50, "" // as if it were predicted
				if !s.hold(&p) {
					continue
				}
			}
			heard = append(heard, p)
		}
		why, before := a.Log.Stopped(), acts
		if err := carryOut(heard); err != nil {
			t.Fatal(err)
		}
		if why != "" && acts != before {
			t.Fatalf("it acted although: %s", why)
		}
	}
	restart(true)
	a.Log.Close()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), acts
}

func checkHistories(t *testing.T, windows, each int) {
	acts := 0
	for seed := range uint64(windows / each) {
		log, n := lives(t, each, seed)
		problems, err := verify(strings.NewReader(log))
		lines := strings.Split(log, "\n")
		problems = slices.DeleteFunc(problems, func(p string) bool { // a line that was cut, and then acknowledged
			var n int
			_, err := fmt.Sscanf(p, "line %d:", &n)
			return err == nil && !json.Valid([]byte(lines[n-1])) && strings.Contains(lines[n], `"event":"acknowledged"`)
		})
		if err != nil || len(problems) != 0 {
			t.Fatalf("seed %d: %q, %v", seed, problems, err)
		}
		acts += n
	}
	if t.Logf("%d actions in %d windows", acts, windows); acts < windows/2000 {
		t.Errorf("%d actions in %d windows", acts, windows)
	}
}

func TestVerifyHistories(t *testing.T) { checkHistories(t, 6000, 3000) }

// TestVerifyFinds changes one thing in a log that holds, and is told of it.
func TestVerifyFinds(t *testing.T) {
	log, _ := lives(t, 6000, 3)
	lines := strings.Split(strings.TrimSpace(log), "\n")
	for _, c := range []struct {
		event  event
		action Action
		change func(e *auditEntry)
		want   string
	}{
		{eventTrying, ActionReap, func(e *auditEntry) { e.Target = "a/chat" }, "has not agreed"},
		{eventTrying, ActionReap, func(e *auditEntry) { e.Checks.Idle /= 2 }, "idle for"},
		{eventTrying, ActionReap, func(e *auditEntry) { e.Checks.Watched = 0.5 }, "was observed"},
		{eventTrying, ActionCap, func(e *auditEntry) { e.Checks.ReadingAge = time.Hour }, "reading was"},
		{eventTrying, ActionCap, func(e *auditEntry) { e.Checks.Windows = 1 }, "no alarm"},
		{eventTrying, ActionCap, func(e *auditEntry) { e.Checks = nil }, "no checks"},
		{eventTrying, ActionCap, func(e *auditEntry) { e.Action = ActionSplit }, "only ever proposed"},
		{eventTrying, ActionCap, func(e *auditEntry) { e.Seq += 7 }, "follows entry"},
		{eventDone, ActionNotice, func(e *auditEntry) { e.Event = eventFailed }, "no notice"},
		{eventBegin, "", func(e *auditEntry) { e.Rules.Reap = false }, "reaping is off"},
		{eventBegin, "", func(e *auditEntry) { e.Rules.Budget = 0 }, "the budget is 0"},
		{eventBegin, "", func(e *auditEntry) { e.Rules.Cooldown = 900 * time.Hour }, "after the last one"},
		{eventDone, ActionCap, func(e *auditEntry) { e.Target = "z" }, "without having been tried"},
		{eventDone, ActionCap, func(e *auditEntry) { e.Event = "danced" }, `"danced" is no event`},
	} {
		var out []string
		changed := 0
		for _, line := range lines {
			var e auditEntry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			if e.Event == c.event && e.Action == c.action {
				changed++
				c.change(&e)
			}
			b, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(b))
		}
		problems, err := verify(strings.NewReader(strings.Join(out, "\n")))
		if text := fmt.Sprint(problems); err != nil || changed == 0 || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d changed, no %q in %.300s, %v", c.event, c.action, changed, c.want, text, err)
		}
	}
}

// TestALogThatIsTouched: whoever deletes, replaces, cuts or writes the log while it runs stops the guard, also after
// a start anew.
func TestALogThatIsTouched(t *testing.T) {
	for name, touch := range map[string]func(path string) error{
		"deleted":  os.Remove,
		"cut":      func(path string) error { return os.Truncate(path, 20) },
		"emptied":  func(path string) error { return os.Truncate(path, 0) },
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
	} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		out := path + ".out"
		a := &Actor{Apply: true, Log: open(t, path, false), Hooks: map[Action][]string{ActionReap: {"touch", out}}}
		act := func() string {
			p := &Proposal{Action: ActionReap, Target: "c/book"}
			done, err := a.Act(t.Context(), p)
			if _, there := os.Stat(out); done || err != nil || there == nil {
				t.Errorf("%s: %v, %v, hook %v", name, done, err, there)
			}
			return p.Withheld
		}
		if err := a.Log.begin(DefaultRules(time.Minute), &Config{}); err != nil {
			t.Fatal(err)
		}
		if err := touch(path); err != nil {
			t.Fatal(err)
		}
		if why := act(); !strings.Contains(why, "while it ran") {
			t.Errorf("%s: withheld for %q", name, why)
		}
		act()
		a.Log = open(t, path, false)
		if why := act(); !strings.Contains(why, "-acknowledge") {
			t.Errorf("%s, started anew: withheld for %q", name, why)
		}
	}
}

// TestBudgetOverRestarts: actions count for an hour, whatever lives they were done in.
func TestBudgetOverRestarts(t *testing.T) {
	path, done := filepath.Join(t.TempDir(), "audit.jsonl"), 0
	for range 7 {
		l := open(t, path, false)
		s := newScene(t, nil)
		s.rules.Budget = 3
		s.resume(l, time.Now())
		p := Proposal{At: time.Minute, Action: ActionReap, Target: "c/book", target: 2}
		if s.hold(&p); p.Withheld == "" {
			a := &Actor{Apply: true, Log: l, Hooks: map[Action][]string{ActionReap: {"true"}}}
			if ok, err := a.Act(t.Context(), &p); err != nil || !ok {
				t.Fatal(ok, err)
			}
			done++
		}
		l.Close()
	}
	if done != 3 {
		t.Errorf("%d actions in seven lives, of a budget of 3", done)
	}
}
