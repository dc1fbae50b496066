// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/golden"
)

// knownHints state for two workloads of the built-in cluster all that a plan needs.
const knownHints = `workloads:
  llm/chat: {memory: 8GiB, gpu_busy: 0.08, peak_busy: 0.1, slo: {e2e_p99: 8s}, solo: {e2e_p99: 200ms}}
  web/ranker: {memory: 3GiB, gpu_busy: 0.08, peak_busy: 0.1, slo: {e2e_p99: 8s}, solo: {e2e_p99: 200ms}}
`

// TestPlan: the plan of the built-in cluster, on the terminal, as JSON and in files. Where nothing is known all stays
// as it is, with the money that hangs on it; with hints chat empties a node by moving into free MIG instances, and
// ranker stays, as its autoscaler may ask for more than there would be. All outputs have the same steps and money.
func TestPlan(t *testing.T) {
	dir := t.TempDir()
	hints := filepath.Join(dir, "hints.yaml")
	if err := os.WriteFile(hints, []byte(knownHints), 0o600); err != nil {
		t.Fatal(err)
	}
	flat := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	for _, c := range []struct {
		name string
		args []string
	}{{"nothing", nil}, {"known", []string{"-hints", hints}}} {
		folder := filepath.Join(dir, c.name)
		code, stdout, stderr := program(t, "", append([]string{"plan", "-demo", "-v", "-out", folder}, c.args...)...)
		if code != exitDone {
			t.Fatal(code, stderr)
		}
		page, err := os.ReadFile(filepath.Join(folder, "plan.md"))
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "testdata/plan-"+c.name+".txt", []byte(stdout))
		golden.Check(t, "testdata/plan-"+c.name+".md", page)
		fleet, err := os.ReadFile(filepath.Join(folder, "fleet.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "../../decision/migrate/testdata/"+c.name+".yaml", fleet) // its steps are played there
		steps := 0
		for line := range strings.Lines(string(page)) {
			if title, is := strings.CutPrefix(line, "## "); is && strings.Contains(title, ". ") {
				if steps++; !strings.Contains(flat(stdout), flat(title)) {
					t.Errorf("%s: the terminal lacks %s", c.name, title)
				}
			}
		}
		if n := strings.Count(stdout, "\n 1. "); (steps > 0) != (n == 1) {
			t.Errorf("%s: %d steps in plan.md, and the terminal shows\n%s", c.name, steps, stdout)
		}
		_, short, _ := program(t, "", append([]string{"plan", "-demo"}, c.args...)...)
		_, text, stderr := program(t, "", append([]string{"plan", "-demo", "-json"}, c.args...)...)
		var doc struct {
			Answer    string
			Money     struct{ Today, Freed string }
			Plan      struct{ Bill map[string]any }
			Discovery struct{ Fleet map[string]json.RawMessage }
		}
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err, stderr)
		}
		if len(doc.Discovery.Fleet["today"]) == 0 || doc.Plan.Bill["monthly_today"] != doc.Money.Today {
			t.Errorf("%s: %+v", c.name, doc)
		}
		code, decided, stderr := program(t, "", "decide", filepath.Join(folder, "fleet.yaml"))
		summary, _, _ := strings.Cut(doc.Answer, ". Idle")
		if code != exitDone || !strings.HasPrefix(flat(short), doc.Answer) || !strings.HasPrefix(flat(decided), summary) {
			t.Errorf("%s: %s, and decide of the fleet file: exit %d, %s\n%s", c.name, doc.Answer, code, stderr, decided)
		}
	}
}
