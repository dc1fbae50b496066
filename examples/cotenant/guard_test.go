// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/guard"
	"github.com/cotenant/cotenant/internal/golden"
)

func callGuard(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), append([]string{"guard"}, args...), stdio{strings.NewReader(""), &out, &errs})
	return out.String(), errs.String(), code
}

// TestGuardNode: of the simulated node the disturber is moved, and nobody else, and the idle notebook reaped, in lines
// of text and of JSON alike.
func TestGuardNode(t *testing.T) {
	got, _, code := callGuard(t)
	if code != exitDone {
		t.Fatal(code)
	}
	golden.Check(t, filepath.Join("testdata", "guard.txt"), []byte(got))
	for _, text := range []string{got, newCall("guard", nil).usage} {
		for _, line := range strings.Split(text, "\n") {
			if len([]rune(line)) > 100 {
				t.Errorf("%d columns: %s", len(line), line)
			}
		}
	}
	for seed := range 5 {
		out, _, code := callGuard(t, "-json", "-seed", fmt.Sprint(seed))
		var said []string
		for line := range strings.Lines(out) {
			var p guard.Proposal
			if err := json.Unmarshal([]byte(line), &p); err != nil {
				t.Fatal(err)
			}
			said = append(said, fmt.Sprint(p.Action, " ", p.Target))
		}
		if want := "[notice lab/notebook reap lab/notebook move llm/summaries]"; code != exitDone || fmt.Sprint(said) != want {
			t.Errorf("seed %d: exit %d: %v", seed, code, said)
		}
	}
}

func TestGuardBadInput(t *testing.T) {
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
		"flags":   {"", []string{"-window", "1ms", "-slow", "0", "-apply", "x"}, []string{"-window", "-slow", "-apply: every action is recorded", "-apply: is for -real"}},
		"no file": {"", []string{"-real"}, []string{"add -config FILE"}},
		"keys":    {"gpu: 1\n", []string{"-real", "-config", config}, []string{"guard.yaml", `gpu: unknown key`}},
	} {
		write(c.config)
		out, errs, code := callGuard(t, c.args...)
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

// TestGuardProgram: the program of -apply gets a proposal as JSON, and its refusal cannot steer a terminal.
func TestGuardProgram(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	program := filepath.Join(t.TempDir(), "act.sh")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ngrep -q '\"target\":\"b/job\"' && exit\nprintf '\\033[2Jgone'; exit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := guardConfig{apply: program}
	if err := c.carryOut(t.Context(), &guard.Proposal{Action: guard.ActionCap, Target: "b/job"}); err != nil {
		t.Error(err)
	}
	if err := c.carryOut(t.Context(), &guard.Proposal{}); err == nil || !strings.Contains(err.Error(), "[2Jgone") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%q", err)
	}
}

func TestGuardInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"guard", "-json"}, stdio{nil, &out, &errs}); code != exitInterrupted {
		t.Fatal(code, errs.String())
	}
	if out.Len() > 0 {
		t.Error(out.String())
	}
}

// TestGuardExample: the configuration that is printed can be read, but for the files that it names.
func TestGuardExample(t *testing.T) {
	code, out, errs := program(t, "", "guard", "-print-config")
	if code != exitDone || errs != "" {
		t.Fatal(code, errs)
	}
	dir := t.TempDir()
	for _, file := range []string{"profiles: rows.json", "predictor: predictor.json", "profile: {server: {model: 3b"} {
		if !strings.Contains(out, file) {
			t.Errorf("no %q", file)
		}
		out = strings.Replace(out, file, "#", 1)
	}
	config := filepath.Join(dir, "guard.yaml")
	if err := os.WriteFile(config, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := guard.LoadConfig(config); err != nil || len(c.Tenants) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
}
