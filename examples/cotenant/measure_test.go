// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMeasureFlags: each problem is named, and nothing is written.
func TestMeasureFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"-print-plan"}, exitDone, []string{"llmserver.py"}},
		{[]string{"-h"}, exitDone, []string{"Measures workloads isolated and co-located", "-predictor FILE"}},
		{[]string{"-nonsense"}, exitBadInput, []string{"not defined"}},
		{[]string{"now"}, exitBadInput, []string{"unexpected"}},
		{[]string{"-real"}, exitBadInput, []string{"-real needs a plan"}},
		{[]string{"-plan", "no-such-file"}, exitBadInput, []string{"no such file"}},
		{[]string{"-predictor", "no-such-file"}, exitBadInput, []string{"no such file"}},
		{[]string{"-predictor", "main.go"}, exitBadInput, []string{"main.go"}},
		{[]string{"-seconds", "-3"}, exitBadInput, []string{"plan simulated: seconds"}},
		{[]string{"-out", "."}, exitBadInput, []string{"is not empty"}},
		{[]string{"-spinner", "1h"}, exitBadInput, []string{"-spinner: must be"}},
	} {
		args := append([]string{"measure"}, c.args...)
		out := filepath.Join(t.TempDir(), "results")
		if c.args[0] != "-out" {
			args = append(args, "-out", out)
		}
		var stdout, stderr strings.Builder
		code := run(t.Context(), args, stdio{nil, &stdout, &stderr})
		if code != c.code || code != exitDone && stdout.Len() > 0 {
			t.Errorf("%q: exit %d: %s%s", c.args, code, &stdout, &stderr)
		}
		for _, w := range c.want {
			if !strings.Contains(stdout.String()+stderr.String(), w) {
				t.Errorf("%q: no %q in %s%s", c.args, w, &stdout, &stderr)
			}
		}
		if _, err := os.Stat(out); !os.IsNotExist(err) {
			t.Errorf("%q: something was written: %v", c.args, err)
		}
	}
}

// TestMeasureWithoutNVML: the error names NVML and the way to go on.
func TestMeasureWithoutNVML(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	var text, stdout, stderr strings.Builder
	if code := run(t.Context(), []string{"measure", "-print-plan"}, stdio{nil, &text, &stderr}); code != exitDone {
		t.Fatal(stderr.String())
	}
	if err := os.WriteFile(plan, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"measure", "-real", "-plan", plan, "-nvml", "/no/such/library", "-out", filepath.Join(t.TempDir(), "x")}
	code := run(t.Context(), args, stdio{nil, &stdout, &stderr})
	if code != exitCannot || !strings.Contains(stderr.String(), "NVML is not available") || !strings.Contains(stderr.String(), "-no-telemetry") {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
}

// TestMeasureInterrupted: a run that is interrupted at once has exit code 130.
func TestMeasureInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr strings.Builder
	out := filepath.Join(t.TempDir(), "x")
	code := run(ctx, []string{"measure", "-seconds", "1", "-out", out}, stdio{nil, &stdout, &stderr})
	if code != exitInterrupted || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("exit %d: %s%s", code, stdout.String(), stderr.String())
	}
}
