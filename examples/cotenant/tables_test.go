// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/pages"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
)

// TestCost: the nodes of the source and others, with a payback date.
func TestCost(t *testing.T) {
	for name, args := range map[string]string{"all.txt": "",
		"nodes-own.txt": "-before 8 -after 3 -gpu-price 12.24_EUR -cpu-price 0.2_EUR -invest 90000_EUR -from 2026-03-01"} {
		all := append([]string{"cost"}, strings.Fields(args)...)
		for i := range all {
			all[i] = strings.ReplaceAll(all[i], "_", " ")
		}
		code, out, errs := program(t, "", all...)
		if code != 0 || errs != "" {
			t.Fatalf("%s: exit %d, %s", name, code, errs)
		}
		golden.Check(t, "testdata/cost/"+name, []byte(out))
	}
	for want, args := range map[string]string{"unexpected argument \"tenants\"": "tenants", "is no date": "-invest 1_USD -from May",
		"different currencies": "-cpu-price 1_EUR"} {
		all := append([]string{"cost"}, strings.Fields(args)...)
		for i := range all {
			all[i] = strings.ReplaceAll(all[i], "_", " ")
		}
		if code, _, errs := program(t, "", all...); code != exitBadInput || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s", args, code, errs)
		}
	}
}

// TestPayback: an investment of a year's saving has paid for itself after a year.
func TestPayback(t *testing.T) {
	usd := func(micros int64) cost.Money { m, _ := cost.FromMicros(micros, "USD"); return m }
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	if at, err := cost.Payback(usd(12e6), usd(1e6), start); err != nil || !at.Equal(start.AddDate(0, 0, 365)) {
		t.Errorf("%v, %v", at, err)
	}
	for _, saved := range []int64{0, -1, 1} {
		if at, err := cost.Payback(usd(12e12), usd(saved), start); err == nil {
			t.Errorf("%d: %v", saved, at)
		}
	}
}

// TestTables: every GPU and every mechanism has its row, with a source, in JSON too.
func TestTables(t *testing.T) {
	var gpus []pages.Capability
	code, out, errs := program(t, "", "gpus", "-json")
	if err := json.Unmarshal([]byte(out), &gpus); code != 0 || err != nil || len(gpus) != len(sharing.GPUs()) {
		t.Fatalf("exit %d: %v %s", code, err, errs)
	}
	for _, g := range gpus {
		for m, c := range g.Mechanisms {
			if c.Source == "" || c.Text == "" {
				t.Errorf("%s %s: %+v", g.GPU, m, c)
			}
		}
	}
	if _, out, _ := program(t, "", "gpus", "A100-SXM4-80GB"); !strings.Contains(out, "yes, driver 450.80.02") || strings.Count(out, "\n") != 2 {
		t.Error(out)
	}
	var all []pages.Statement
	if _, out, _ = program(t, "", "isolation", "-json", "-gpu", "L4"); json.Unmarshal([]byte(out), &all) != nil ||
		len(all) != sharing.AxisCount*len(sharing.Mechanisms()) {
		t.Errorf("%d statements", len(all))
	}
	if _, out, _ := program(t, "", "isolation"); !strings.Contains(out, "mechanism ") || !strings.Contains(out, "[nvidia-mps-guide]") {
		t.Error(out)
	}
	if code, _, errs := program(t, "", "gpus", "Voodoo 2"); code != exitBadInput || !strings.Contains(errs, "Voodoo") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
