// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// TestTheChosenPasses: the choice is among the candidates, as it was chosen, and passes, also where not all replicas
// found room.
func TestTheChosenPasses(t *testing.T) {
	t.Parallel()
	race.Long(t)
	partly := 0
	for _, one := range decidedFleets(t) {
		for i := range one.result.Decisions {
			d := &one.result.Decisions[i]
			c, ok := d.Chosen()
			if ok != (d.Mechanism != sharing.MechanismNone) {
				t.Errorf("%s: %s, and a choice among its candidates: %v", d.Workload, d.Mechanism, ok)
			}
			if ok && (c.Verdict != filter.VerdictPass || c.Profile != d.Profile || c.Pool != d.Pool || c.Mechanism != d.Mechanism) {
				t.Errorf("%s by %s on %s: its candidate %s %s on %s: %s, %+v", d.Workload, choice(d.Mechanism, d.Profile), d.Pool, c.Mechanism, c.Profile, c.Pool, c.Verdict, c.Reasons)
			}
			if ok && d.Unplaced > 0 {
				partly++
			}
		}
	}
	if partly == 0 {
		t.Error("everything was placed whole: the test sees little")
	}
}

// TestAnswersSayWhatToState are words that a user of these fleets looks for.
func TestAnswersSayWhatToState(t *testing.T) {
	exponent := regexp.MustCompile(`\de\+\d`)
	for _, c := range []struct{ pool, workload, explain, want, not string }{
		{"gpu: L4, count: 4", "kind: online-inference, model: {parameters: 2e9, weights: bf16}, load: {requests_per_s: 1, input_tokens: 200, output_tokens: 100}, slo: {tpot_p99: 100ms}", "",
			"it may have neighbours once its model states kv_cache, or layers, kv_heads and head_dim", ""},
		{"gpu: L4, count: 4", "kind: online-inference, model: {parameters: 2e9, weights: bf16, kv_cache: 2GiB}, load: {requests_per_s: 1, input_tokens: 200, output_tokens: 100}, slo: {tpot_p99: 100ms}", "",
			"meets TPOT P99", "once its model states"},
		{"gpu: L4, count: 4", "kind: online-inference, model: {parameters: 8e9, weights: fp16}, slo: {tpot_p99: 50ms}", "",
			"cannot be below 53.33 ms on L4, at its peak bandwidth and rate; the objective is 50 ms; isolated TPOT 54 to 148 ms, from 16 GB of weights and 0.3 TB/s", ""},
		{"gpu: T4, count: 4", "kind: online-inference, memory: 4GiB, gpu_busy: 0.6, slo: {e2e_p99: 12s}, solo: {e2e_p99: 4s}", "", "of 12000", ""},
		{"gpu: T4, count: 4, mechanisms: [hami]", "kind: batch, replicas: 2, memory: 4GiB, gpu_busy: 0.1", "", "HAMi must run on p; where it can't", ""},
		{"gpu: T4, count: 4, mechanisms: [mps]", "kind: batch, replicas: 2, memory: 4GiB, gpu_busy: 0.1", "", "runs at", "HAMi must run"},
		{"gpu: A100 80GB PCIe, count: 4", "kind: notebook, replicas: 6, memory: 5GiB, isolation: {memory: hardware}", "w", "mig 1g.20gb on p runs at 83% of its isolated rate", ""},
	} {
		f, err := ParseFleet([]byte("version: v1\npools: [{name: p, " + c.pool + "}]\nworkloads: [{name: w, " + c.workload + "}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(strings.Join(textOf(t, decide(t, f), TextOptions{Explain: c.explain}), " ")), " ")
		if !strings.Contains(text, c.want) || c.not != "" && strings.Contains(text, c.not) || exponent.MatchString(text) {
			t.Errorf("%s: want %q and not %q in\n%s", c.workload, c.want, c.not, text)
		}
	}
}
