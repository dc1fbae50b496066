// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/loadgen"
)

func conditions(t *testing.T, texts ...string) (all []Condition) {
	t.Helper()
	for _, text := range texts {
		c, err := ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

func TestGate(t *testing.T) {
	run := runOf("mps-1", 50, 200)
	run.Counts = loadgen.Counts{Total: 200, OK: 196, Failed: 4}
	few := runOf("mps-2", 50, 20)
	invalid := runOf("mps-3", 50, 200)
	invalid.ClientHealth = loadgen.ClientHealth{Reasons: []string{"send lag"}}
	withSLO := runOf("mps-4", 50, 200)
	withSLO.Tenants[0].Goodput = &loadgen.Goodput{Met: 190, Fraction: optional.Of(0.95)}
	unknown := runOf("mps-5", 50, 200)
	unknown.Tenants[0].Goodput = &loadgen.Goodput{Unknown: 200}
	for _, tc := range []struct {
		s      *loadgen.Summary
		failIf string
		text   string // "" for a run that keeps it
	}{
		{&run, "failed>1%", "failed.share is 0.02"}, {&run, "failed>2%", ""}, {&run, "failed>=0.02", "failed.share"}, {&run, "failed.share > 5 %", ""},
		{&run, "ttft.p99>100ms", "ttft_ms.p99 is 150"}, {&run, "ttft.p99>0.2s", ""}, {&run, "ttft_ms.p99>200", ""},
		{&run, "output_tokens_per_s<100", "output_tokens_per_s is 20"}, {&run, "output_tokens_per_s<=19", ""},
		{&run, "goodput<99%", "no tenant has objectives"}, {&withSLO, "goodput<99%", "goodput.fraction is 0.95"}, {&withSLO, "goodput<95%", ""},
		{&unknown, "goodput<1%", "was not measured"}, {&few, "ttft.p99>1s", "unknown, p99 of 20 values"}, {&few, "failed>1%", "was not measured"},
		{&invalid, "ttft.p99>1s", "invalid by client health: send lag"},
	} {
		err := Gate(tc.s, conditions(t, tc.failIf)...)
		if (err == nil) != (tc.text == "") || err != nil && (!errors.Is(err, ErrGate) || !strings.Contains(err.Error(), tc.text)) {
			t.Errorf("%s: %v, want %q", tc.failIf, err, tc.text)
		}
	}
	err := Gate(&run, conditions(t, "failed>1%", "ttft.p99>100ms", "e2e.p50>1s")...)
	if err == nil || strings.Count(err.Error(), " is ") != 2 {
		t.Errorf("%v", err)
	}
}

func TestParseConditionErrors(t *testing.T) {
	for text, want := range map[string]string{
		"failed": "has none of", "ttfd.p99>1": `did you mean "ttft_ms.p99"?`, "failed>1ms": "is not in ms", "ttft.p99>5%": "is not in %", "failed>": "is not a number",
		"ttft.p99>NaN": "is not a number", "": "has none of",
	} {
		if _, err := ParseCondition(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
