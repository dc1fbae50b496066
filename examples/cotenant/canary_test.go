package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/canary"
	"github.com/cotenant/cotenant/decision/guard"
)

func callCanary(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = run(ctx, append([]string{"canary"}, args...), stdio{strings.NewReader(""), &out, &errs})
	return out.String(), errs.String(), code
}

// TestCanaryDay: the plan that is printed plays a day, the same each time.
func TestCanaryDay(t *testing.T) {
	text, _, code := callCanary(t.Context(), "-print-plan")
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(plan, []byte(text), 0o600); err != nil || code != 0 {
		t.Fatal(code, err)
	}
	day, errs, code := callCanary(t.Context(), "-plan", plan)
	if code != 0 || strings.Count(day, "promote ") != 5 || !strings.Contains(day, "Nothing here is measured") {
		t.Errorf("exit %d: %s\n%s", code, errs, day)
	}
	out, _, code := callCanary(t.Context(), "-plan", plan, "-json")
	var rep canary.DayReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil || code != 0 || rep.String() != day {
		t.Errorf("exit %d: %v\n%s", code, err, out)
	}
}

func TestCanaryRefuses(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	for name, c := range map[string]struct {
		plan string
		args []string
		code int
		want string
	}{
		"no plan":      {"", nil, exitBadInput, "no such file"},
		"keys":         {"tenant: 1\n", nil, exitBadInput, "tenant: unknown key"},
		"flags":        {"PLAN", []string{"-again"}, exitBadInput, "-again: is for -real only"},
		"deadline":     {"deadline: 1m\nPLAN", nil, exitBadInput, "the deadline is shorter than any test can take"},
		"no consent":   {"PLAN", []string{"-real"}, exitNo, `an owner has not agreed: a (owner "")`},
		"kill switch":  {"AGREED", []string{"-real", "-kill", "/"}, exitNo, "kill switch: /"},
		"bad address":  {"AGREED", []string{"-real", "-listen", "nowhere:x"}, exitBadInput, "-listen"},
		"interrupted":  {"AGREED", []string{"-real"}, exitInterrupted, "0s  keep looking"},
		"needs no log": {"AGREED", []string{"-real", "-audit", "/no/such/folder/log"}, exitBadInput, "-audit"},
	} {
		t.Run(name, func(t *testing.T) {
			plan := filepath.Join(t.TempDir(), "plan.yaml")
			tenant := "tenants:\n  - {name: a, page: '" + srv.URL + "', objectives: [{metric: ttft, limit: 1}]"
			text := strings.NewReplacer("PLAN", tenant+"}\n", "AGREED", tenant+", agreed: true}\n").Replace(c.plan)
			if text != "" {
				if err := os.WriteFile(plan, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
			defer cancel()
			if _, errs, code := callCanary(ctx, append([]string{"-plan", plan}, c.args...)...); code != c.code || !strings.Contains(errs, c.want) {
				t.Errorf("exit %d: %s", code, errs)
			}
		})
	}
}

// TestCanaryLearns: canaries of a world in which chat takes half as long again as predicted write rows that are fit to be given
// to others, and with which decide lets two replicas share no more.
func TestCanaryLearns(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const chat = "profile: {server: {model: rand-8b, slots: 16}, load: {concurrency: 4, prompt: 256, output: 64}}"
	const profiles = "../../decision/predict/testdata/h100-tenants.json"
	learned := filepath.Join(dir, "learned.json")
	p, err := canary.LoadPlan(file("plan.yaml", "mechanism: time-slicing\nprofiles: "+profiles+"\nlearned: "+learned+`
tenants:
  - {name: new, agreed: true, page: "http://new/metrics", objectives: [{metric: tpot, limit: 0.04}],
     `+chat+`}
  - {name: old, agreed: true, page: "http://old/metrics", objectives: [{metric: tpot, limit: 0.04}],
     `+chat+`}
`))
	if err != nil {
		t.Fatal(err)
	}
	log, err := guard.OpenLog(filepath.Join(dir, "log"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for k := range uint64(6) {
		p.Tenants[0].Name = fmt.Sprint("new-", k)
		src := canary.NewSimulated(p, []float64{0.7, 0.7}, 10*time.Second, 0, 1, k) // 28 ms
		if _, err := canary.Run(t.Context(), p, &guard.Actor{Apply: true, Log: log}, src, canary.RunOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	call := func(args ...string) string {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, stdio{strings.NewReader(""), &out, &errs}); code != exitDone {
			t.Fatalf("%v: exit %d: %s", args, code, errs.String())
		}
		return out.String()
	}
	if out := call("rows", "check", learned); !strings.Contains(out, "12 rows, fit to be given") {
		t.Error(out)
	}
	fleet := file("fleet.yaml", `version: v1
pools:
  - {name: h100, gpu: H100-80GB, count: 2, price_per_gpu_hour: "3 USD", driver: "580.159.04", mechanisms: [time-slicing]}
workloads:
  - {name: chat, kind: online-inference, replicas: 2, memory: 20GiB, gpu_busy: 0.3, evidence: measured, slo: {tpot_p50: 25ms},
     `+chat+`}
`)
	without, with := call("decide", "-profiles", profiles, fleet), call("decide", "-profiles", profiles, "-learned", learned, fleet)
	if !strings.Contains(without, "2 x time-slicing") || !strings.Contains(with, "2 x exclusive") {
		t.Errorf("without: %s\nwith: %s", without, with)
	}
}
