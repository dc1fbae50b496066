// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/decision/pages"
	"github.com/cotenant/cotenant/internal/webpage"
)

// replicas counts the replicas that a map draws, by workload, and checks that no GPU holds more than itself.
func replicas(t *testing.T, m webpage.Map) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, n := range m.Nodes {
		for _, g := range n.GPUs {
			sum := 0.0
			for _, p := range g.Parts {
				out[p.Name]++
				sum += p.Share
			}
			if sum > 1+1e-6 {
				t.Errorf("%s: %s is %.3f full", n.Name, g.Name, sum)
			}
		}
	}
	return out
}

// TestNobodyIsLost: the plan draws every replica that today's GPUs draw, and a page has the same bytes when made again.
func TestNobodyIsLost(t *testing.T) {
	for _, file := range []string{"known.yaml", "nothing.yaml"} {
		fleet, err := decision.LoadFleet("../migrate/testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := migrate.Make(t.Context(), fleet, decision.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var first, again bytes.Buffer
		page := pages.Plan(plan)
		if err := page.Write(&first); err != nil {
			t.Fatal(err)
		}
		if err := pages.Plan(plan).Write(&again); err != nil || !bytes.Equal(first.Bytes(), again.Bytes()) {
			t.Errorf("%s: made again the page differs (%v)", file, err)
		}
		maps := page.Sections[1].Maps
		today := replicas(t, maps[0])
		if len(today) < 4 {
			t.Errorf("%s: only %v today", file, today)
		}
		if plan.Changes() {
			if after := replicas(t, maps[1]); fmt.Sprint(today) != fmt.Sprint(after) {
				t.Errorf("%s: %v today, %v after", file, today, after)
			}
		}
		for _, w := range fleet.Workloads {
			if today[w.Name] > 0 && !strings.Contains(first.String(), ">"+w.Name+"</button>") {
				t.Errorf("%s: %s cannot be clicked", file, w.Name)
			}
		}
	}
}
