// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/google/go-cmp/cmp"
)

// TestCopyServer expands a plan: a port for each copy, one load each, and the numbers as cases.
func TestCopyServer(t *testing.T) {
	const text = `
version: v1
modes: [time-slicing]
servers:
  - {name: s, model: m, url: "http://127.0.0.1:800{copy}", command: [serve, --port, "800{copy}"]}
  - {name: other, model: o, url: "http://127.0.0.1:9001", command: [serve]}
loads: [{name: chat, server: s, concurrency: 4, prompt: 128, output: 64}]
`
	p := must.Get(ParsePlan([]byte(text), PlanOptions{Real: true, Copies: []int{1, 2, 3}}))(t)
	var commands, urls []string
	for _, s := range p.Servers {
		commands, urls = append(commands, strings.Join(s.Command, " ")), append(urls, s.URL)
	}
	want := []Case{{"copies-2", []string{"chat-1", "chat-2"}}, {"copies-3", []string{"chat-1", "chat-2", "chat-3"}}}
	if d := cmp.Diff(want, p.Cases); d != "" || len(p.used()) != 1 || urls[2] != "http://127.0.0.1:8003" ||
		commands[1] != "serve --port 8002" {
		t.Error(d, p.used(), urls, commands)
	}
	for change, want := range map[string]string{"800{copy}": "give each an address of its own", "servers": "there are none"} {
		to := strings.ReplaceAll(text, "800{copy}", "8001")
		if change == "servers" {
			to = "version: v1\n"
		}
		if _, err := ParsePlan([]byte(to), PlanOptions{Real: true, Copies: []int{2}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", change, err)
		}
	}
	if _, err := ParsePlan([]byte(text), PlanOptions{Copies: []int{0, 99}}); err == nil || strings.Count(err.Error(), "copies: ") != 2 {
		t.Error(err)
	}
}

// TestSimulatedCopies measures copies of a simulated server: the rates of all lie in the predictions from one.
func TestSimulatedCopies(t *testing.T) {
	nightly.Only(t)
	text, _ := BuiltinPlan("simulated")
	p := must.Get(ParsePlan(text, PlanOptions{Seconds: 3, Copies: []int{1, 2, 4}}))(t)
	rep, err := Measure(t.Context(), p, NewSimulation(p), Options{Dir: t.TempDir()})
	if err != nil || len(rep.Copies) != 4 {
		t.Fatalf("%+v, %v", rep, err)
	}
	for _, r := range rep.Copies {
		if !r.Predicted.Contains(r.Ratio) {
			t.Errorf("%s, %d copies: %.2f, predicted %v", r.Mode, r.Copies, r.Ratio, r.Predicted)
		}
	}
}
