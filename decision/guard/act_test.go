// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// open opens a log and fails the test where it cannot.
func open(t *testing.T, path string) *Log {
	t.Helper()
	l, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// succeed carries out everything.
func succeed(context.Context, *Proposal) error { return nil }

// newActor returns an actor and a function that lists its audit log's entries.
func newActor(t *testing.T) (*Actor, func() string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	return &Actor{Do: succeed, Log: open(t, path)}, func() string {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var events []string
		for s := bufio.NewScanner(f); s.Scan(); {
			var line struct{ Event, Target string }
			if err := json.Unmarshal(s.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			events = append(events, line.Event+" "+line.Target)
		}
		return strings.Join(events, ",")
	}
}

func TestAct(t *testing.T) {
	for name, c := range map[string]struct {
		change       func(a *Actor)
		done         bool
		want, events string
	}{
		"done":    {func(*Actor) {}, true, "", "trying c/book,done c/book"},
		"dry run": {func(a *Actor) { a.Do = nil }, false, "dry run", "withheld c/book"},
		"refused": {func(a *Actor) { a.Do = func(context.Context, *Proposal) error { return errors.New("no such pod") } }, false,
			"failed: no such pod", "trying c/book,failed c/book"},
		"hangs": {func(a *Actor) { a.Do = func(ctx context.Context, _ *Proposal) error { <-ctx.Done(); return ctx.Err() } }, false,
			"may have done all", "trying c/book,failed c/book"},
	} {
		synctest.Test(t, func(t *testing.T) { // half a minute passes at once
			a, events := newActor(t)
			c.change(a)
			p := &Proposal{Action: ActionReap, Target: "c/book", GPU: 3, target: 2}
			if done, err := a.Act(t.Context(), p); done != c.done || err != nil || !strings.Contains(p.Withheld, c.want) {
				t.Errorf("%s: %v %v %q", name, done, err, p.Withheld)
			}
			if got := events(); got != c.events {
				t.Errorf("%s: %s", name, got)
			}
		})
	}
	// An action that cannot be recorded is not taken.
	a, _ := newActor(t)
	a.Do = func(context.Context, *Proposal) error { t.Error("done unrecorded"); return nil }
	a.Log.Close()
	if done, err := a.Act(t.Context(), &Proposal{Action: ActionReap}); done || err == nil {
		t.Error(done, err)
	}
}

// TestReapNeedsANotice runs a guard with its actor: where notices fail, an idle tenant whose owner agreed in writing is
// not reaped.
func TestReapNeedsANotice(t *testing.T) {
	for name, fails := range map[string]bool{"noticed": false, "failing": true} {
		s := newScenario(t, nil)
		s.mute = true // the actor carries notices out
		a, _ := newActor(t)
		a.Do = func(_ context.Context, p *Proposal) error {
			if fails && p.Action == ActionNotice {
				return errors.New("no mail")
			}
			return nil
		}
		reaped := false
		for s.w < 70*time.Minute {
			list := s.run(1, func(o *Observation) { o.Tenants[2].Activity = sharing.Some(0.0) })
			if err := s.carryOut(t.Context(), a, list); err != nil {
				t.Fatal(err)
			}
			for _, p := range list {
				reaped = reaped || p.Action == ActionReap && p.Withheld == ""
			}
		}
		if reaped == fails {
			t.Errorf("%s: reaped %v", name, reaped)
		}
	}
}
