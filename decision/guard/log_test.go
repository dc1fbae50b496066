// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// TestSixLivesOneCap starts a guard six times, each time with a neighbour to cap: the cool-down outlives the program.
func TestSixLivesOneCap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	caps := 0
	for range 6 {
		l := open(t, path)
		s := newScenario(t, nil)
		s.resume(l, time.Now())
		a := &Actor{Do: succeed, Log: l}
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

// TestDamagedLog: a last line that is cut off is removed, and any other that cannot be read is an error.
func TestDamagedLog(t *testing.T) {
	const line = `{"event":"done","action":"cap","target":"b/job","active_thread_percent":50}` + "\n"
	for name, c := range map[string]struct{ text, err string }{
		"whole": {line + line, ""}, "cut": {line + line[:20], ""}, "noise": {line + "noise\n" + line, "line 2"},
	} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := OpenLog(path)
		if err != nil {
			if c.err == "" || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		data, _ := os.ReadFile(path)
		if l.Close(); c.err != "" || l.capped["b/job"] != 50 || strings.ReplaceAll(string(data), line, "") != "" {
			t.Errorf("%s: %v, %q", name, l.capped, data)
		}
	}
}

// TestUnfinished records the action that was tried when the program ended.
func TestUnfinished(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, path)
	p := Proposal{Action: ActionCap, Target: "b/job"}
	if err := l.write(auditEntry{Event: eventTrying, Proposal: p}); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l = open(t, path)
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
// lie, actions that fail, programs that end at any step, and last lines that are cut. It returns the log.
func lives(t *testing.T, windows int, seed uint64) (log string) {
	r := rand.New(rand.NewPCG(seed, 1))
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var s *scenario
	at := time.Duration(0)
	a := &Actor{Do: func(context.Context, *Proposal) error {
		switch x := r.Float64(); {
		case x < 0.05:
			panic(killed{})
		case x < 0.2:
			return errors.New("refused")
		}
		return nil
	}}
	restart := func() {
		if a.Log != nil {
			a.Log.Close()
		}
		a.Log = open(t, path)
		born := begin.Add(at)
		s = newScenario(t, nil)
		s.mute, s.rules.Budget = true, 2
		a.Log.now = func() time.Time { return born.Add(s.w) }
		s.resume(a.Log, born)
	}
	carryOut := func(list []Proposal) (err error) {
		defer func() {
			if p := recover(); p != nil && p != (killed{}) {
				panic(p)
			} else if p != nil {
				restart()
			}
		}()
		return s.carryOut(t.Context(), a, list)
	}
	restart()
	idle, slow, share := false, false, 0.2
	for range windows {
		switch x := r.Float64(); {
		case x < 0.01:
			idle = !idle
		case x < 0.03:
			slow, share = !slow, 0.2+0.5*r.Float64()
		case x < 0.032:
			restart()
		case x < 0.033: // within a line that was not whole yet
			if _, err := a.Log.file.WriteString(`{"time":`); err != nil {
				t.Fatal(err)
			}
			restart()
		}
		at += time.Minute
		list := s.run(1, func(o *Observation) {
			if idle {
				o.Tenants[2].Activity = sharing.Some(0.0)
			}
			if slow {
				o.Tenants[0].TPOT, o.Tenants[1].Activity = sharing.Some(20.0), sharing.Some(share)
			}
			switch x := r.Float64(); {
			case x < 0.02:
				o.GPUs[0].At -= time.Duration(r.IntN(5)) * time.Minute
			case x < 0.04:
				o.GPUs[0].UtilPercent = sharing.Some(0.0)
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
		if err := carryOut(heard); err != nil {
			t.Fatal(err)
		}
	}
	restart()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestHistories reads nothing but the logs of random lives: each action ends before the next is tried, at most two are
// tried in an hour, a cap waits for the cool-down, and a notice is carried out long enough before a reaping.
func TestHistories(t *testing.T) {
	const windows = 3000
	rules, acts, reaps := DefaultRules(time.Minute), 0, 0
	for seed := range uint64(2) {
		var trying *auditEntry
		var last []time.Time // actions
		var capped, noticed time.Time
		for line := range strings.Lines(lives(t, windows, seed)) {
			e := new(auditEntry)
			if err := json.Unmarshal([]byte(line), e); err != nil {
				t.Fatal(err)
			}
			bad := func(wrong bool, why string) {
				if wrong {
					t.Errorf("seed %d, %s %s at %v: %s", seed, e.Event, e.Action, e.Time, why)
				}
			}
			switch e.Event {
			case eventTrying:
				bad(trying != nil, "tried while another was")
				if trying = e; !e.Action.acts() {
					break
				}
				acts++
				n := len(last)
				bad(n > 1 && e.Time.Sub(last[n-2]) < time.Hour-rules.Window, "above the budget")
				bad(e.Action == ActionCap && e.Time.Sub(capped) < rules.Cooldown-rules.Window, "within the cool-down")
				if last = append(last, e.Time); e.Action == ActionCap {
					capped = e.Time
				} else {
					reaps++
					bad(e.Target != "c/book" || e.Time.Sub(noticed) < 45*time.Minute-rules.Window || e.Time.Sub(noticed) > 24*time.Hour,
						"no notice long enough before")
				}
			case eventDone, eventFailed, eventUnfinished:
				bad(trying == nil || trying.Action != e.Action || trying.Target != e.Target, "ended without having been tried")
				if trying = nil; e.Event == eventDone && e.Action == ActionNotice {
					noticed = e.Time
				}
			}
		}
	}
	if acts < 5 || reaps == 0 {
		t.Errorf("%d actions, %d reapings", acts, reaps)
	}
}

// TestBudgetOverRestarts: actions count for an hour, over restarts.
func TestBudgetOverRestarts(t *testing.T) {
	path, done := filepath.Join(t.TempDir(), "audit.jsonl"), 0
	for range 7 {
		l := open(t, path)
		s := newScenario(t, nil)
		s.rules.Budget = 3
		s.resume(l, time.Now())
		p := Proposal{At: time.Minute, Action: ActionReap, Target: "c/book", target: 2}
		if s.hold(&p); p.Withheld == "" {
			a := &Actor{Do: succeed, Log: l}
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
