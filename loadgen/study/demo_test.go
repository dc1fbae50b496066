// SPDX-License-Identifier: Apache-2.0

package study

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/loadgen"
)

// TestDemo runs the demonstration in simulated time: five ways of sharing at three loads, each with its known effect.
func TestDemo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	var out bytes.Buffer
	sums := map[string]*loadgen.Summary{}
	synctest.Test(t, func(t *testing.T) {
		c := Config{Demo: true, Device: onGPU, Concurrency: []int{4, 16, 48}, Dir: dir, Health: noLimits, inMemory: true}
		c.File = File{Duration: time.Second, Seed: 1, Tenants: []Tenant{{Tenant: loadgen.Tenant{Name: "x", Warmup: 4}}}}
		if err := c.Resolve(FileOptions{}); err != nil {
			t.Fatal(err)
		}
		o, err := Run(t.Context(), c)
		if err := errors.Join(err, o.WriteText(&out), o.Verdict()); err != nil {
			t.Fatal(err)
		}
		for _, r := range o.Results {
			sums[r.Summary.Scenario+" "+r.Summary.Tenants[0].Load] = &r.Summary
		}
	})
	if len(sums) != 15 {
		t.Fatalf("%d runs", len(sums))
	}
	at := func(part, users string) *loadgen.Summary {
		s := sums[part+" closed loop, concurrency "+users]
		if s == nil {
			t.Fatalf("no %s at %s", part, users)
		}
		return s
	}
	for _, p := range hostings {
		if p.about == "" {
			continue
		}
		few, some, many := at(p.name, "4"), at(p.name, "16"), at(p.name, "48")
		if r := some.OutputTokensPerS / few.OutputTokensPerS; r < 2 {
			t.Errorf("%s: %.2f times the tokens from 4 to 16 users", p.name, r)
		}
		if r := many.OutputTokensPerS / some.OutputTokensPerS; r > 1.3 {
			t.Errorf("%s is not saturated: %.2f times the tokens from 16 to 48 users", p.name, r)
		}
		if r := float64(many.E2E.P50 / some.E2E.P50); r < 1.8 {
			t.Errorf("%s: %.2f times the latency from 16 to 48 users", p.name, r)
		}
		if !strings.Contains(out.String(), p.about) {
			t.Errorf("the text does not explain %s", p.name)
		}
	}
	slower := func(part string) float64 { return float64(at(part, "16").E2E.P50 / at("exclusive", "16").E2E.P50) }
	if ts, mps, mig, one := slower("time-slicing"), slower("mps"), slower("mig"), slower("merged"); !(ts > max(mps, mig) && min(mps, mig) > one && one > 1) {
		t.Errorf("slow-downs: time-slicing %.2f, MIG %.2f, MPS %.2f, merged %.2f", ts, mig, mps, one)
	}
	for line := range strings.Lines(out.String()) {
		if len([]rune(line)) > 101 {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
	}
	if strings.Contains(out.String(), "%!") || strings.Contains(out.String(), " - ") {
		t.Errorf("the text has gaps:\n%s", out.String())
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 15 {
		t.Errorf("%d run folders, %v", len(entries), err)
	}
}
