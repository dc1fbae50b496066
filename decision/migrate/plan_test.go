// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/sharing"
)

func section(key string, lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "  " + key + ":\n" + strings.Join(lines, "")
}

// check verifies the invariants of every plan: each changed node is configured or freed once, workloads listed to stay
// do not move, the change is worth it, and no move is needless. The scheduler's module plays plans step by step.
func check(t *testing.T, f *decision.Fleet, p *Plan) {
	t.Helper()
	seen := map[string]bool{}
	for i := range p.Steps {
		if s := &p.Steps[i]; seen[s.Node] {
			t.Errorf("%s is changed twice", s.Node)
		} else {
			seen[s.Node] = s.Node != ""
		}
	}
	before, after := replicas(p.Today), replicas(p.After)
	for _, stay := range p.Stays {
		for _, name := range stay.Workloads {
			if d := cmp.Diff(before[name], after[name]); d != "" {
				t.Errorf("%s is to stay, %s:\n%s", name, stay.Why, d)
			}
		}
	}
	if p.Changes() && len(p.Mends) == 0 && p.Cost.saved <= p.Cost.uncertain {
		t.Errorf("the plan saves %d and %d is uncertain", p.Cost.saved, p.Cost.uncertain)
	}
	c, err := read(t.Context(), f, decision.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.layout, c.runs = p.Today, replicas(p.Today)
	now := c.newSearch(&decision.Result{})
	now.layout = p.After
	for _, name := range sortedKeys(c.moved(now.layout)) {
		if back := now.copy(); !slices.Contains(p.Mends, name) && back.putBack(name) && c.perHour(back.layout) <= c.perHour(now.layout) {
			t.Errorf("%s moves for nothing", name)
		}
	}
	for _, a := range p.Answers {
		if a.Today == sharing.AnswerYes && a.After != a.Today || a.After == sharing.AnswerNo && a.Today != a.After {
			t.Errorf("%s: %v today and %v after", a.Workload, a.Today, a.After)
		}
	}
}

func fleetOf(t *testing.T, text string) *decision.Fleet {
	t.Helper()
	f, err := decision.ParseFleet([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return f
}

// made makes the plan of a fleet.
func made(t *testing.T, f *decision.Fleet) *Plan {
	t.Helper()
	p, err := Make(t.Context(), f, decision.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBuiltIn plays the plans of the program's built-in cluster, as known and as not.
func TestBuiltIn(t *testing.T) {
	for name, steps := range map[string]int{"nothing": 0, "known": 2} {
		f, err := decision.LoadFleet("testdata/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		p := made(t, f)
		check(t, f, p)
		if len(p.Steps) != steps {
			t.Errorf("%s: %d steps", name, len(p.Steps))
		}
	}
}

// TestReservedPools: more of a pool may be reserved or spot than of it may move, what is reserved is paid for on nodes
// that nothing needs too, and what is spot by its price.
func TestReservedPools(t *testing.T) {
	b, err := os.ReadFile("testdata/known.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plain := fleetOf(t, string(b))
	want := made(t, plain)
	for _, c := range []struct {
		tariff, today, saved string
		steps                int
	}{ // 16 A100s, of which 8 are not needed, and 8 T4s for 7.82 USD an hour
		{"reserved: {count: 8, price_per_gpu_hour: 2 USD}", "36368.60", "18980.00", len(want.Steps)},
		{"reserved: {count: 12, price_per_gpu_hour: 2 USD}", "32718.60", "9490.00", len(want.Steps)},
		{"reserved: {count: 16, price_per_gpu_hour: 2 USD}", "29068.60", "2854.30", 2}, // a T4 node is not needed, and its tenant fits free instances of what is paid for
		{"spot: {count: 16, price_per_gpu_hour: 2 USD}", "29068.60", "11680.00", len(want.Steps)},
		{"spot: {count: 4, price_per_gpu_hour: 2 USD}", "40018.60", "15330.00", len(want.Steps)},               // 4 for 2 USD and 4 for 3.25 are not needed
		{"spot: {price_per_gpu_hour: 2 USD}", want.Cost.MonthlyToday, want.Cost.MonthlySaved, len(want.Steps)}, // none is stated to be
	} {
		f := fleetOf(t, strings.Replace(string(b), "    price_per_gpu_hour: 3.25 USD", "    "+c.tariff+"\n    price_per_gpu_hour: 3.25 USD", 1))
		p := made(t, f)
		if len(p.Steps) != c.steps || p.Cost.MonthlyToday != c.today || p.Cost.MonthlySaved != c.saved {
			t.Errorf("%s: %d steps, %+v", c.tariff, len(p.Steps), p.Cost)
		}
	}
}
