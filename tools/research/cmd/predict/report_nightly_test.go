// SPDX-License-Identifier: Apache-2.0

//go:build nightly

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestReportInAHurry holds what the report says of the closed forms and the rules
// of thumb against its own command, whose text keeps to 100 columns.
func TestReportInAHurry(t *testing.T) {
	page, err := os.ReadFile("../../accuracy/REPORT-2026-11.md")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(page), "\ngo run -C tools/research ./cmd/predict ")
	line, _, _ = strings.Cut(line, "\n")
	args := append(strings.Fields(strings.ReplaceAll(line, "../../decision", "../../../../decision")), "-method", "closed-form")
	_, text, _ := call(t, args...)
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	code, out, errs := call(t, append(args, "-json")...)
	type cell struct{ Mean, P95 float64 }
	var got struct {
		Baselines, Splits map[string]map[string]map[string]cell
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatal(err, errs)
	}
	held := got.Splits["leave-one-series-out"]
	want := []string{fmt.Sprintf("come to %.1f / %.1f percent (TPOT P50) under time-slicing and %.1f / %.1f under MPS",
		held["time-slicing"]["tpot_ms_p50"].Mean, held["time-slicing"]["tpot_ms_p50"].P95, held["mps"]["tpot_ms_p50"].Mean, held["mps"]["tpot_ms_p50"].P95)}
	for name, title := range map[string]string{"n-times-slower": "N tenants, N times slower", "flat-1.75": "flat 1.75 times", "processor-sharing-graphics-util": "sharing by GPU busy (graphics_util)"} {
		a, b := got.Baselines[name]["time-slicing"]["tpot_ms_p50"], got.Baselines[name]["mps"]["tpot_ms_p50"]
		want = append(want, fmt.Sprintf("| %s | %.1f / %.1f | %.1f / %.1f |", title, a.Mean, a.P95, b.Mean, b.P95))
	}
	for _, text := range want {
		if !strings.Contains(string(page), text) {
			t.Errorf("the report does not say %q", text)
		}
	}
}

// TestReport holds the report's tables against what the command above them
// prints, and that against what is promised.
func TestReport(t *testing.T) {
	page, err := os.ReadFile("../../accuracy/REPORT-2026-11.md")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-json"}
	for _, name := range strings.Fields(`h200-colocation h200-colocation-sm-percent h200-mixes h200-mixes-2 h200-mixes-3 h200-mixes-4
		h200-two-models h200-mps-order h100-colocation h100-two-models h100-mixes h100-mixes-2
		h200-mixes-5 h100-mixes-3 h100-mixes-4 h100-mixes-5 h100-mixes-6 h200-mixes-6 h200-mixes-7
		h100-mixes-7 h100-mixes-8 h200-mixes-8 h200-mixes-9 h100-mixes-9 h100-mixes-10
		h100-mixes-11 h100-mixes-12 h100-mixes-13 h100-mixes-14 h200-mixes-10 h200-mixes-11 h200-mixes-12`) {
		args = append(args, "-profiles", "../../../../decision/predict/testdata/"+name+".json")
	}
	code, out, errs := call(t, args...)
	type table map[string]map[string]struct {
		Rows                       int
		Mean, P95, Coverage, Width float64
	}
	var got struct {
		Series []struct {
			Series string
			Errors table
		}
		Splits map[string]table
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatal(err, errs)
	}
	if len(got.Series) != 32 {
		t.Errorf("%d series", len(got.Series))
	}
	line := func(name string, errors table, mechanism string) {
		m := errors[mechanism]
		if len(m) == 0 {
			return
		}
		row := fmt.Sprintf("| %s | %d |", name, m["tpot_ms_p50"].Rows)
		for _, metric := range []string{"tpot_ms_p50", "ttft_ms_p50", "e2e_ms_p50", "tokens_per_s"} {
			c := m[metric]
			row += fmt.Sprintf(" %.1f / %.1f; %.0f, %.0f |", c.Mean, c.P95, c.Coverage, c.Width)
		}
		if !strings.Contains(string(page), row) {
			t.Errorf("%s: the report has no row\n%s", mechanism, row)
		}
	}
	for _, mechanism := range []string{"time-slicing", "mps"} {
		for _, s := range got.Series {
			line(s.Series, s.Errors, mechanism)
		}
		line("all", got.Splits["leave-one-series-out"], mechanism)
	}
}
