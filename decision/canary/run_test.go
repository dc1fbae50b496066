package canary_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/canary"
	"github.com/cotenant/cotenant/decision/guard"
	"github.com/cotenant/cotenant/internal/nightly"
)

// clusterEnv names the folder of the simulated cluster for a copy of this program that plays one canary in it.
const clusterEnv = "COTENANT_CANARY_CLUSTER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(clusterEnv); dir != "" {
		_, err := inCluster(context.Background(), dir, os.Getenv("COTENANT_CANARY_NAME"), time.Millisecond/2)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// clusterPlan places replicas as folders; a folder made twice would be written down.
func clusterPlan(dir, name string) canary.Plan {
	p := twoTenants()
	p.Deadline = 4 * time.Minute
	p.Watch = time.Minute
	p.PerDay = 1000
	for i := range p.Tenants {
		p.Tenants[i].Agreed, p.Tenants[i].Owner, p.Tenants[i].MinLoad = true, "ann", 0
	}
	p.Tenants[0].Name = name
	sh := func(script string) []string { return []string{"sh", "-c", script, "", dir} }
	p.Hooks = map[guard.Action][]string{
		guard.ActionPlace:    sh(`mkdir "$1/$GUARD_TARGET" && echo "$GUARD_TARGET" >> "$1/made"; test -d "$1/$GUARD_TARGET"`),
		guard.ActionPromote:  sh(`touch "$1/$GUARD_TARGET/promoted"`),
		guard.ActionTakeBack: sh(`rm -rf "$1/$GUARD_TARGET"`),
	}
	return p
}

// slowly makes virtual seconds take a little.
type slowly struct {
	canary.Source
	pause time.Duration
}

func (s slowly) Next(ctx context.Context) (canary.Look, error) {
	time.Sleep(s.pause)
	return s.Source.Next(ctx)
}

// inCluster runs a canary in the simulated cluster: an odd one's neighbour becomes six times as slow.
func inCluster(ctx context.Context, dir, name string, pause time.Duration) (canary.Result, error) {
	p := clusterPlan(dir, name)
	log, err := guard.OpenLog(filepath.Join(dir, "log.jsonl"), false)
	if err != nil {
		return canary.Result{}, err
	}
	defer log.Close()
	if why := log.Stopped(); why != "" {
		return canary.Result{}, errors.New(why)
	}
	slow := time.Duration(0)
	if strings.HasSuffix(name, "odd") {
		slow = 20 * time.Second
	}
	src := slowly{canary.NewSimulated(p, []float64{0.5, 0.5}, 10*time.Second, slow, 6, 1), pause}
	return canary.Run(ctx, p, &guard.Actor{Apply: true, Log: log}, src, canary.RunOptions{
		Retry: 10 * time.Millisecond, Settle: 300 * time.Millisecond,
	})
}

// checkCluster holds the cluster against the log: the last step that was done of each newcomer is what is there.
func checkCluster(t *testing.T, dir string) (ended int) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "log.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]guard.Action{}
	for line := range strings.Lines(string(data)) {
		var e guard.AuditEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if e.Event == guard.EventDone {
			last[e.Target] = e.Action
		}
	}
	made, _ := os.ReadFile(filepath.Join(dir, "made"))
	for name, action := range last {
		_, err := os.Stat(filepath.Join(dir, name))
		_, promoted := os.Stat(filepath.Join(dir, name, "promoted"))
		switch {
		case strings.Count(string(made), name+"\n") > 1:
			t.Errorf("%s was placed twice", name)
		case action == guard.ActionTakeBack && err == nil:
			t.Errorf("%s was taken back, and is there", name)
		case action != guard.ActionTakeBack && err != nil:
			t.Errorf("%s: %s is done, and it is lost", name, action)
		case action == guard.ActionPromote && promoted != nil:
			t.Errorf("%s is not promoted", name)
		}
		if action != guard.ActionPlace {
			ended++
		}
	}
	if problems, err := guard.Verify(strings.NewReader(string(data))); err != nil || len(problems) > 0 {
		t.Errorf("the log: %q, %v", problems, err)
	}
	return ended
}

// TestKilled kills the program at random moments: the cluster ends as the log says, no replica lost or doubled.
func TestKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it needs kill -9 and sh")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 4))
	kills, verdicts := 0, 0
	for k := 0; kills < nightly.Cases(12, 200); k++ {
		name := fmt.Sprintf("newcomer-%d-%s", k, []string{"even", "odd"}[k%2])
		for tries, alive := 0, true; alive; tries++ {
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), clusterEnv+"="+dir, "COTENANT_CANARY_NAME="+name)
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			life := time.Duration(r.Int64N(int64(300 * time.Millisecond)))
			if tries == 4 {
				life = time.Hour
			}
			select {
			case err := <-ended:
				if alive = false; err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			case <-time.After(life):
				_ = cmd.Process.Kill() // or it has just ended
				if alive = <-ended != nil; alive {
					kills++
				}
			}
		}
		if verdicts = checkCluster(t, dir); verdicts != k+1 || t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log.jsonl"))
			t.Fatalf("%d canaries have ended, of %d:\n%s", verdicts, k+1, log)
		}
	}
	t.Logf("%d kills, %d canaries", kills, verdicts)
}

// TestRun: a harmless newcomer stays and is promoted, a harmful one goes.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]canary.Verdict{"a-even": canary.Promote, "b-odd": canary.TakeBack} {
		if r, err := inCluster(t.Context(), dir, name, 0); err != nil || r.Verdict != want {
			t.Errorf("%s: %s, %v", name, r.Verdict, err)
		}
	}
	if checkCluster(t, dir) != 2 {
		t.Error("they did not end")
	}
}

// TestRunRefuses: what may not be done is not done.
func TestRunRefuses(t *testing.T) {
	begin := func(t *testing.T) (canary.Plan, *guard.Actor, string) {
		dir := t.TempDir()
		log, err := guard.OpenLog(filepath.Join(dir, "log.jsonl"), false)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { log.Close() })
		return clusterPlan(dir, "newcomer"), &guard.Actor{Apply: true, Log: log}, dir
	}
	run := func(t *testing.T, p canary.Plan, a *guard.Actor, o canary.RunOptions) (canary.Result, error) {
		o.Retry, o.Settle = 10*time.Millisecond, time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return canary.Run(ctx, p, a, canary.NewSimulated(p, []float64{0.5, 0.5}, 10*time.Second, 0, 1, 1), o)
	}
	for name, c := range map[string]struct {
		change func(p *canary.Plan, a *guard.Actor, dir string)
		want   error
		says   string
	}{
		"an owner has not agreed": {func(p *canary.Plan, _ *guard.Actor, _ string) { p.Tenants[1].Agreed = false }, canary.ErrConsent, `chat (owner "ann")`},
		"a dry run":               {func(_ *canary.Plan, a *guard.Actor, _ string) { a.Apply = false }, canary.ErrWithheld, "dry run"},
		"no log":                  {func(_ *canary.Plan, a *guard.Actor, _ string) { a.Log = nil }, canary.ErrWithheld, "no audit log"},
		"the kill switch": {func(_ *canary.Plan, a *guard.Actor, dir string) {
			a.Kill = filepath.Join(dir, "stop")
			if err := os.WriteFile(a.Kill, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, canary.ErrWithheld, "kill switch"},
		"the day's are spent": {func(p *canary.Plan, a *guard.Actor, _ string) {
			p.PerDay = 1
			for _, name := range []string{"newcomer", "next"} {
				p.Tenants[0].Name = name
				if name == "newcomer" {
					if _, err := run(t, *p, a, canary.RunOptions{}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}, canary.ErrSpent, "canaries_per_day"},
		"another one is there": {func(p *canary.Plan, a *guard.Actor, _ string) {
			other := *p
			other.Tenants = append([]canary.Tenant{}, p.Tenants...)
			other.Tenants[0].Name = "other"
			stop := errors.New("stop")
			if _, err := run(t, other, a, canary.RunOptions{Told: func(canary.Result) error { return stop }}); !errors.Is(err, stop) {
				t.Fatal(err)
			}
		}, canary.ErrBusy, "other on GPU 0"},
		"the deadline is too short": {func(p *canary.Plan, _ *guard.Actor, _ string) { p.Deadline = time.Minute }, canary.ErrDeadline, "at the least"},
	} {
		t.Run(name, func(t *testing.T) {
			p, a, dir := begin(t)
			c.change(&p, a, dir)
			if _, err := run(t, p, a, canary.RunOptions{}); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, p.Tenants[0].Name)); err == nil {
				t.Error("it was placed")
			}
		})
	}

	t.Run("an owner withdraws", func(t *testing.T) {
		p, a, dir := begin(t)
		looks := 0
		r, err := run(t, p, a, canary.RunOptions{Reload: func() (canary.Plan, error) {
			looks++
			now := clusterPlan(dir, "newcomer")
			now.Tenants[1].Agreed = looks < 20
			return now, nil
		}})
		if err != nil || r.Verdict != canary.TakeBack || !strings.Contains(r.Reason, "consent was withdrawn: chat") {
			t.Errorf("%s: %s, %v", r.Verdict, r.Reason, err)
		}
		checkCluster(t, dir)
	})
	t.Run("placing fails", func(t *testing.T) {
		p, a, dir := begin(t)
		p.Hooks[guard.ActionPlace] = []string{"sh", "-c", `mkdir "$0/newcomer"; echo no room >&2; exit 1`, dir}
		r, err := run(t, p, a, canary.RunOptions{})
		if err != nil || r.Verdict != canary.TakeBack || !strings.Contains(r.Reason, "no room") {
			t.Errorf("%s: %s, %v", r.Verdict, r.Reason, err)
		}
		checkCluster(t, dir)
	})
	t.Run("a hook hangs", func(t *testing.T) {
		p, a, dir := begin(t)
		a.Timeout = 200 * time.Millisecond
		p.Hooks[guard.ActionPlace] = []string{"sleep", "60"}
		r, err := run(t, p, a, canary.RunOptions{})
		if err != nil || r.Verdict != canary.TakeBack || !strings.Contains(r.Reason, "timed out") {
			t.Errorf("%s: %s, %v", r.Verdict, r.Reason, err)
		}
		checkCluster(t, dir)
	})
	t.Run("taking back fails twice", func(t *testing.T) {
		p, a, dir := begin(t)
		p.Hooks[guard.ActionTakeBack] = []string{"sh", "-c", `rm -r "$0/newcomer"; echo x >> "$0/tries"; test "$(wc -l < "$0/tries")" -ge 3`, dir}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r, err := canary.Run(ctx, p, a, canary.NewSimulated(p, []float64{0.5, 3}, 10*time.Second, 0, 1, 1), canary.RunOptions{Retry: time.Millisecond})
		tries, _ := os.ReadFile(filepath.Join(dir, "tries"))
		if err != nil || r.Verdict != canary.TakeBack || len(tries) != 6 {
			t.Errorf("%s: %s, %v, %q", r.Verdict, r.Reason, err, tries)
		}
		checkCluster(t, dir)
	})
	t.Run("hooks are addresses", func(t *testing.T) {
		p, a, _ := begin(t)
		var got []string
		srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var p guard.Proposal
			if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
				t.Error(err)
			}
			got = append(got, string(p.Action)+" "+p.Target)
		}))
		defer srv.Close()
		for action := range p.Hooks {
			p.Hooks[action] = []string{srv.URL}
		}
		if r, err := run(t, p, a, canary.RunOptions{}); err != nil || strings.Join(got, ", ") != "place newcomer, promote newcomer" {
			t.Errorf("%s, %v: %q", r.Verdict, err, got)
		}
	})
}

// TestHandler: what Argo Rollouts and Flagger are told.
func TestHandler(t *testing.T) {
	for v, want := range map[canary.Verdict]string{
		canary.Promote: "200 pass", canary.TakeBack: "409 fail", canary.CannotTell: "409 fail", canary.KeepLooking: "425 wait",
	} {
		h := canary.Handler(func() canary.Result { return canary.Result{Verdict: v} })
		for path, status := range map[string]string{"/": "200", "/gate": want[:3]} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			var body struct{ Answer, Verdict string }
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || fmt.Sprint(w.Code) != status || body.Answer != want[4:] || body.Verdict != string(v) {
				t.Errorf("%s of %s: %d %s, %v", path, v, w.Code, w.Body, err)
			}
		}
	}
}

// TestSimulatedGPU plays what was measured on H100s and H200s on the simulated GPU (decision/predict, DATA.md): beside
// an FFT under MPS an 8B server takes six times as long, beside a training under time-slicing about twice.
func TestSimulatedGPU(t *testing.T) {
	for name, c := range map[string]struct {
		slower float64
		want   canary.Verdict
		within time.Duration
	}{
		"an FFT under MPS":              {6, canary.TakeBack, time.Minute},
		"training under time-slicing":   {1.9, canary.Promote, 20 * time.Minute},
		"training with too little room": {2.4, canary.CannotTell, 30 * time.Minute},
	} {
		p := canary.Plan{Tenants: []canary.Tenant{
			{Name: name, Objectives: []canary.Objective{{Metric: "steps", Limit: 1, AtLeast: true}}},
			{Name: "chat 8B", Objectives: []canary.Objective{{Metric: "itl", Limit: 2.5 * 0.009}}},
		}}
		c0, err := canary.New(p)
		if err != nil {
			t.Fatal(err)
		}
		src := canary.NewSimulated(p, []float64{0.5, c.slower / 2.5}, 10*time.Second, 0, 1, 3)
		for l, _ := src.Next(t.Context()); c0.Look(l) == canary.KeepLooking; {
			l, _ = src.Next(t.Context())
		}
		r := c0.Result()
		t.Logf("%s: %s after %v: %s", name, r.Verdict, r.At, r.Reason)
		if r.Verdict != c.want || r.At > c.within {
			t.Errorf("%s: %s after %v: %s", name, r.Verdict, r.At, r.Reason)
		}
	}
}
