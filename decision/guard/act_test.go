// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/telemetry"
)

// newActor returns an actor that acts, and what its audit log holds.
func newActor(t *testing.T) (*Actor, func() (events []string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := OpenLog(path, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &Actor{Apply: true, Log: l, Hooks: map[Action][]string{}}, func() (events []string) {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			var line struct {
				Event, Target string
			}
			if err := json.Unmarshal(s.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			events = append(events, line.Event+" "+line.Target)
		}
		return events
	}
}

func TestAct(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	reap := func() *Proposal { return &Proposal{Action: ActionReap, Target: "c/book", GPU: 3, target: 2} }
	ctx := context.Background()

	a, events := newActor(t)
	a.Hooks[ActionReap] = []string{"sh", "-c", `cat > "$0"; echo "$GUARD_TARGET $GUARD_GPU" >> "$0"`, out}
	if done, err := a.Act(ctx, reap()); !done || err != nil {
		t.Fatal(done, err)
	}
	if b, _ := os.ReadFile(out); !strings.Contains(string(b), `"action":"reap"`) || !strings.HasSuffix(string(b), "c/book 3\n") {
		t.Errorf("the hook got %q", b)
	}
	if got := strings.Join(events(), ","); got != "trying c/book,done c/book" {
		t.Error(got)
	}

	a, events = newActor(t)
	a.Hooks[ActionReap] = []string{"sh", "-c", "echo no such pod >&2; exit 3"}
	p := reap()
	if done, err := a.Act(ctx, p); done || err != nil || !strings.Contains(p.Withheld, "no such pod") {
		t.Error(done, err, p.Withheld)
	}
	if got := strings.Join(events(), ","); got != "trying c/book,failed c/book" {
		t.Error(got)
	}

	for name, c := range map[string]struct {
		change func(a *Actor)
		want   string
	}{
		"dry run":     {func(a *Actor) { a.Apply = false }, "dry run"},
		"kill switch": {func(a *Actor) { a.Kill = out }, "kill switch"},
		"no hook":     {func(a *Actor) { a.Hooks = nil }, "no hook for reap"},
	} {
		a, events := newActor(t)
		a.Hooks[ActionReap] = []string{"false"}
		c.change(a)
		p := reap()
		if done, err := a.Act(ctx, p); done || err != nil || !strings.Contains(p.Withheld, c.want) {
			t.Errorf("%s: %v %v %q", name, done, err, p.Withheld)
		}
		if got := strings.Join(events(), ","); got != "withheld c/book" {
			t.Errorf("%s: %s", name, got)
		}
	}

	// What cannot be recorded is not done.
	a, _ = newActor(t)
	os.Remove(out)
	a.Hooks[ActionReap] = []string{"touch", out}
	a.Log.Close()
	if done, err := a.Act(ctx, reap()); done || err == nil {
		t.Error(done, err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("done unrecorded")
	}
}

// TestReapNeedsANotice runs a guard with its actor: without a hook for notices, with one that fails, and with the kill
// switch on at the time of the notice, an idle tenant whose owner agreed in writing is not reaped.
func TestReapNeedsANotice(t *testing.T) {
	kill := filepath.Join(t.TempDir(), "stop")
	for name, c := range map[string]struct {
		notice []string
		killed time.Duration // until then
		reaped bool
	}{
		"told": {[]string{"true"}, 0, true}, "no hook": {nil, 0, false}, "failing": {[]string{"false"}, 0, false},
		"kill switch": {[]string{"true"}, 40 * time.Minute, false},
	} {
		s := newScene(t, nil)
		s.untold = true // told by the actor
		a, _ := newActor(t)
		a.Kill = kill
		a.Hooks[ActionReap] = []string{"true"}
		if c.notice != nil {
			a.Hooks[ActionNotice] = c.notice
		}
		reaped := false
		for s.w < 70*time.Minute {
			if s.w < c.killed {
				if err := os.WriteFile(kill, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			} else {
				os.Remove(kill)
			}
			for _, p := range s.run(1, func(o *Observation) { o.Tenants[2].Activity = telemetry.Some(0.0) }) {
				done, err := a.Act(t.Context(), &p)
				if err != nil {
					t.Fatal(err)
				}
				if done {
					s.Done(&p)
					reaped = reaped || p.Action == ActionReap
				}
			}
		}
		if reaped != c.reaped {
			t.Errorf("%s: reaped %v", name, reaped)
		}
	}
}

// TestAHookThatHangs ends with its children, and what it may have done is said.
func TestAHookThatHangs(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("sh")
	}
	out := filepath.Join(t.TempDir(), "out")
	a, events := newActor(t)
	a.Timeout = 300 * time.Millisecond
	a.Hooks[ActionCap] = []string{"sh", "-c", `(sleep 1.5; touch "$0") & sleep 100`, out}
	p := &Proposal{Action: ActionCap, Target: "b/job", Percent: 50}
	if done, err := a.Act(t.Context(), p); done || err != nil || !strings.Contains(p.Withheld, "timed out") || !strings.Contains(p.Withheld, "may have done") {
		t.Errorf("%v, %v, %q", done, err, p.Withheld)
	}
	if got := strings.Join(events(), ","); got != "trying b/job,failed b/job" {
		t.Error(got)
	}
	time.Sleep(2 * time.Second)
	if _, err := os.Stat(out); err == nil {
		t.Error("its child went on")
	}
}

// TestHookTextIsShown keeps what a hook prints from steering a terminal.
func TestHookTextIsShown(t *testing.T) {
	p := Proposal{Action: ActionCap, Target: "b/job"}
	err := runHook(t.Context(), []string{"sh", "-c", `printf '\033[2Jgone'; exit 1`}, &p)
	if err == nil || !strings.Contains(err.Error(), `\u001b[2Jgone`) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%q", err)
	}
}
