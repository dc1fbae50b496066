// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/must"
)

// TestTable holds the report for people, from a report that a run left.
func TestTable(t *testing.T) {
	b := must.Get(os.ReadFile("testdata/report.simulated.json"))(t)
	var rep Report
	must.Do(t, json.Unmarshal(b, &rep))
	var out bytes.Buffer
	must.Do(t, rep.WriteText(&out))
	golden.Check(t, "testdata/report.txt", out.Bytes())
	for line := range strings.SplitSeq(out.String(), "\n") {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestBuiltInPlans(t *testing.T) {
	for real, names := range map[bool][]string{false: {"simulated", "mixed"}, true: {"mixed", "two-models", "vllm"}} {
		for _, name := range names {
			if _, err := ParsePlan(builtin(name), PlanOptions{Real: real}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A limit that the requests which ended met, while others failed, is not shown as missed.
func TestOutcome(t *testing.T) {
	met := 18.2
	for want, o := range map[string]objective{"met": {ActualMS: &met, LimitMS: 30, Kept: true},
		"3 requests FAILED": {ActualMS: &met, LimitMS: 30, Failed: 3}, "MISSED": {ActualMS: &met, LimitMS: 12, Failed: 3}} {
		if got := o.outcome(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Equal remarks are kept once, and runs with figures shaped by the client are listed in order.
func TestEnd(t *testing.T) {
	b := &runner{Options: Options{Progress: func(string) {}}, shaped: map[string]bool{"time-slicing/pair": true, "mps/pair": true}}
	for range 11 {
		b.note("mps: no prediction: no profile of a")
		b.note("a prefix cache answers")
	}
	var rep Report
	rep.end(nil, b)
	want := []string{"mps: no prediction: no profile of a", "a prefix cache answers"}
	if !slices.Equal(rep.Notes, want) || !slices.Equal(rep.Invalid, []string{"mps/pair", "time-slicing/pair"}) || !rep.Complete {
		t.Errorf("%q, %q, complete %v", rep.Notes, rep.Invalid, rep.Complete)
	}
}
