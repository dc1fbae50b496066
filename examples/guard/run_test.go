package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func call(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	return out.String(), errs.String(), code
}

func TestDefaultOutput(t *testing.T) {
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	got, _, code := call(t, "-audit", audit)
	if code != 0 {
		t.Fatal(code)
	}
	golden := filepath.Join("testdata", "day.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{got, usage} {
		for _, line := range strings.Split(text, "\n") {
			if len([]rune(line)) > 100 {
				t.Errorf("%d columns: %s", len(line), line)
			}
		}
	}
	if out, errs, code := call(t, "-audit", audit); code != exitUsage || out != "" || !strings.Contains(errs, "is there already") || strings.Contains(errs, ":00") {
		t.Errorf("an audit log that is there: exit %d, %s%s", code, out, errs)
	}
	lines, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bytes.Split(bytes.TrimSpace(lines), []byte("\n")) {
		var entry auditLine
		if err := json.Unmarshal(line, &entry); err != nil || !strings.HasPrefix(entry.Event, "simulated ") || entry.Target == "" {
			t.Fatalf("%v: %s", err, line)
		}
	}
}

func TestBadInput(t *testing.T) {
	config := filepath.Join(t.TempDir(), "guard.yaml")
	write := func(s string) {
		if err := os.WriteFile(config, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		config string
		args   []string
		want   []string
	}{
		"flags":   {"", []string{"-window", "1ms", "-slow", "0", "-apply", "-policy", "never"}, []string{"-window", "-slow", "-apply: nothing is done unrecorded", "-policy", "-apply: means nothing"}},
		"no file": {"", []string{"-real"}, []string{"add -config FILE"}},
		"keys":    {"gpu: 1\n", []string{"-real", "-config", config}, []string{`guard.yaml: line 1: unknown key "gpu" (remove it`}},
		"types":   {"gpus: [{index: x, mechanism: sharing}]\ntenants: []\n", []string{"-real", "-config", config}, []string{`line 1: "x" (write a whole number)`, "gpus[0].mechanism", "tenants: none"}},
		"two":     {"gpus: []\n---\ngpus: []\n", []string{"-real", "-config", config}, []string{"more than one document"}},
		"empty":   {"", []string{"-real", "-config", config}, []string{"gpus: none", "tenants: none"}},
		"everything": {`gpus: [{index: 0, mechanism: sharing}, {index: 0, mechanism: mps}]
policy: soon
hooks: {keep: [x], reap: []}
tenants:
- {name: "a b", kind: chat, gpu: 7, holds: 2, tpot_ms: -1, expect_tpot_ms: [3], probe: {url: x}}
- {name: s, kind: online-inference, gpu: 0}
- {name: s, kind: online-inference, gpu: 0, probe: {url: "http://x"}, profile: {model: m, rate: 1, prompt: 2, output: 3}}
`, []string{"-real", "-config", config}, []string{"gpus[0].mechanism", "gpus[1].index", "policy", "hooks.keep", "hooks.reap", "tenants[0].name",
			"tenants[0].kind", "tenants[0].gpu", "tenants[0].holds", "tenants[0].tpot_ms", "tenants[0].expect_tpot_ms", "tenants[0].probe.url",
			"tenants[1]: nothing tells its latency", "tenants[0]: nothing tells which processes", "tenants[2].name", "tenants[2].profile"}},
		"probes": {`gpus: [{index: 0, mechanism: mps}]
tenants:
- {name: a, kind: online-inference, gpu: 0, pids: [7, 7], probe: {url: "http://x", every: 1ns, max_tokens: 1}}
- {name: b, kind: batch, gpu: 0, pids: [7], command: x}
- {name: c, kind: batch, gpu: 0, command: x}
`, []string{"-real", "-config", config}, []string{"probe.every: 1ns (use 100ms or more", "probe.max_tokens: 1", "tenants[0]: process 7 is tenants[0]'s already",
			"tenants[1]: process 7 is tenants[0]'s already", `tenants[2]: command "x" is tenants[1]'s already`}},
	} {
		write(c.config)
		out, errs, code := call(t, c.args...)
		if code != 2 || out != "" {
			t.Errorf("%s: exit %d, stdout %q", name, code, out)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: no %q in\n%s", name, want, errs)
			}
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"-json"}, &out, &errs); code != 0 {
		t.Fatal(code, errs.String())
	}
	var rep dayReport
	if err := json.Unmarshal(out.Bytes(), &rep); err != nil || rep.Watched != 0 || !rep.Simulated {
		t.Fatal(err, rep.Watched)
	}
}

// A configuration is a setup or an error, whatever it holds.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{"", "gpus: [{index: 0, mechanism: mps}]\ntenants: [{name: a, kind: batch, gpu: 0, command: x}]", "gpus: null", "tenants: [{holds: .nan, tpot_ms: .inf, expect_tpot_ms: [.nan, 1]}]",
		"hooks: {reap: [\"\"], x: null}", "gpus: [{index: -1}, {index: 99999999999}]", "a: &a [*a]", "\x00", "tenants: [{profile: {model: m, slots: -1, rate: .inf}}]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSetup("guard.yaml", []byte(text))
		if err != nil {
			return
		}
		if len(s.gpus) == 0 || len(s.tenants) == 0 || len(s.sources) != len(s.tenants) {
			t.Fatalf("%+v", s)
		}
		g := newGuard(defaultRules(time.Second), s.gpus, s.tenants, s.profiles, s.predictor)
		g.step(observation{GPUs: make([]gpuSeen, len(s.gpus)), Tenants: make([]tenantSeen, len(s.tenants))})
	})
}
