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
)

// TestTable holds the report for people, from a report that a run left.
func TestTable(t *testing.T) {
	b, err := os.ReadFile("testdata/report.simulated.json")
	if err != nil {
		t.Fatal(err)
	}
	var rep Report
	if err := json.Unmarshal(b, &rep); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := rep.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/report.txt", out.Bytes())
	for line := range strings.SplitSeq(out.String(), "\n") {
		if n := utf8.RuneCountInString(line); n > columns {
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

// Runs whose figures the client shaped are listed in order.
func TestInvalidRuns(t *testing.T) {
	var rep Report
	rep.end(nil, &bench{shaped: map[string]bool{"time-slicing/pair": true, "mps/pair": true}})
	if want := []string{"mps/pair", "time-slicing/pair"}; !slices.Equal(rep.Invalid, want) || !rep.Complete {
		t.Errorf("%q, complete %v", rep.Invalid, rep.Complete)
	}
}
