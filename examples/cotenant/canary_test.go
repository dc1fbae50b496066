// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/canary"
)

// TestCanaryEndpoint: the plan that is printed is answered for, until Ctrl-C.
func TestCanaryEndpoint(t *testing.T) {
	_, text, _ := program(t, "", "canary", "-print-plan")
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(plan, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var out bytes.Buffer
	said, errs := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"canary", "-plan", plan, "-listen", "localhost:0"}, stdio{nil, &out, errs})
	}()
	line := make([]byte, 200)
	n, err := said.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`answering at (\S+)`).FindSubmatch(line[:n])
	if address == nil {
		t.Fatalf("%s", line[:n])
	}
	for path, status := range map[string]int{"/?rollout=1": http.StatusOK, "/promote": http.StatusTooEarly} {
		resp, err := http.Get("http://" + string(address[1]) + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != status || !strings.Contains(string(body), `"answer":"wait"`) {
			t.Errorf("%s: %s, %v, %s", path, resp.Status, err, body)
		}
	}
	stop()
	if code := <-ended; code != exitDone || out.Len() > 0 {
		t.Errorf("exit %d: %s", code, &out)
	}
}

// TestCanaryPlans: canary reads the plan that decide -out writes for a service.
func TestCanaryPlans(t *testing.T) {
	out := filepath.Join(t.TempDir(), "config")
	if code, _, errs := program(t, "", "decide", "-out", out, "../quickstart/testdata/measured.yaml"); code != exitDone {
		t.Fatal(errs)
	}
	for _, name := range []string{"chat", "coder"} {
		if p, err := canary.LoadPlan(filepath.Join(out, "canary", name+".yaml")); err != nil || len(p.Tenants) != 2 {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

func TestCanaryRefuses(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	for name, c := range map[string]struct{ plan, args, want string }{
		"nothing":     {"", "", "-plan: give a FILE"},
		"no address":  {"", "-plan PLAN", "-listen: give an ADDRESS"},
		"no plan":     {"", "-plan no.yaml -listen :0", "no such file"},
		"keys":        {"tenant: 1\n", "-plan PLAN -listen :0", "tenant: unknown key"},
		"deadline":    {"deadline: 1m\ntenants:\n  - {name: a, page: x, objectives: [{metric: ttft, limit: 1}]}\n", "-plan PLAN -listen :0", "the deadline is shorter than any test can take"},
		"bad address": {"tenants:\n  - {name: a, page: x, objectives: [{metric: ttft, limit: 1}]}\n", "-plan PLAN -listen nowhere:x", "-listen"},
	} {
		if err := os.WriteFile(plan, []byte(c.plan), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"canary"}, strings.Fields(strings.ReplaceAll(c.args, "PLAN", plan))...)
		if code, out, errs := program(t, "", args...); code != exitBadInput || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d: %s%s", name, code, out, errs)
		}
	}
}
