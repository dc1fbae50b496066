// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// mixesOf are the mixes of measured files, by the built-in predictor or, of several
// files, by the others.
func mixesOf(t *testing.T, names ...string) []predict.Mix {
	t.Helper()
	var files []profile.Rows
	for _, name := range names {
		rows, err := profile.LoadRows("../../../decision/predict/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, rows)
	}
	mixes, err := predict.NewPredictor().Mixes(predict.MethodSimulated, files...)
	if err != nil {
		t.Fatal(err)
	}
	return mixes
}

// Every tenant of every mix is asked about at every limit, in both doors, and the
// truth is the same for both.
func TestAskCountsEveryQuestion(t *testing.T) {
	race.Long(t)
	mixes := mixesOf(t, "h200-mixes-9.json")
	tenants := 0
	for i := range mixes {
		tenants += len(mixes[i].Rows)
	}
	a, err := Ask(t.Context(), mixes)
	if err != nil {
		t.Fatal(err)
	}
	if want := tenants * len(questionLimits); a.Questions+a.Disagreeing != want {
		t.Errorf("%d questions and %d that repeated runs disagree on, want %d together", a.Questions, a.Disagreeing, want)
	}
	truth := func(y Tally) int { return y.KeptTrue + y.Lost + y.Unknown }
	sum := Doors{}
	for m, d := range a.ByMechanism {
		if truth(d.Decide) != truth(d.Predict) {
			t.Errorf("%s: %d kept by one door, %d by the other", m, truth(d.Decide), truth(d.Predict))
		}
		sum.Questions += d.Questions
	}
	if sum.Questions != a.Questions {
		t.Errorf("%d questions by mechanism, want %d", sum.Questions, a.Questions)
	}
	for i := 1; i < len(a.ByLimit); i++ {
		if truth(a.ByLimit[i].Predict) < truth(a.ByLimit[i-1].Predict) {
			t.Errorf("fewer are kept at %v times alone than at less", a.ByLimit[i].Limit)
		}
	}
}

// Where two runs of one mix differ about a limit, nobody is asked.
func TestAskLeavesOutWhatRepeatedRunsDisagreeOn(t *testing.T) {
	mixes := mixesOf(t, "h200-mixes-9.json")[:1]
	again := mixes[0]
	again.Rows = append(profile.Rows(nil), mixes[0].Rows...)
	for i := range again.Rows {
		again.Rows[i].TPOT.P50 = sharing.Some(100 * again.Rows[i].TPOT.P50.Or(0))
	}
	a, err := Ask(t.Context(), append(mixes, again))
	if err != nil {
		t.Fatal(err)
	}
	if a.Disagreeing == 0 || a.Decide.KeptTrue+a.Predict.KeptTrue+a.Predict.Lost+a.Predict.Unknown > 0 {
		t.Errorf("%d disagree, and of the others %+v were asked about as kept", a.Disagreeing, a.Predict)
	}
	if a.Mixes[mixes[0].Rows[0].Mechanism].Questions == len(questionLimits) {
		t.Error("all mixes were asked about")
	}
}

func ExampleTally() {
	var y Tally
	y.add(sharing.AnswerYes, true)
	y.add(sharing.AnswerYes, false)
	y.add(sharing.AnswerUnknown, true)
	y.add(sharing.AnswerNo, true)
	y.add(sharing.AnswerNo, false)
	fmt.Printf("found %.2f\n", y.FoundFraction())
	// Output: found 0.33
}

func TestAnswersAreWritten(t *testing.T) {
	mixes := mixesOf(t, "h200-mixes-9.json")
	a, err := Ask(t.Context(), mixes[:race.Fewer(len(mixes))])
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := a.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	js, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mixes, mps", "tenants, mps", "1.6 times alone"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, &text)
		}
	}
	for _, want := range []string{`"decide"`, `"by_mechanism"`, `"by_limit"`, `"kept_true"`} {
		if !bytes.Contains(js, []byte(want)) {
			t.Errorf("%s is not in the JSON", want)
		}
	}
}

// Every way to place the mixes places the same tenants, the best by measurement misses
// nothing, and deciding misses less than sharing without deciding.
func TestRegretPlacesEveryTenant(t *testing.T) {
	race.Long(t)
	mixes := mixesOf(t, "h200-mixes-3.json")
	r, err := Regret(t.Context(), mixes)
	if err != nil {
		t.Fatal(err)
	}
	if r.Mixes == 0 || r.Fleets != r.Mixes*len(regretLimits) {
		t.Fatalf("%d mixes, %d fleets", r.Mixes, r.Fleets)
	}
	tenants := func(c Choice) int { return c.Kept + c.Missed + c.Unmeasured }
	for _, c := range r.Choices {
		if tenants(c) != tenants(r.Choices[0]) {
			t.Errorf("%s places %d tenants, the best %d", c.Name, tenants(c), tenants(r.Choices[0]))
		}
		if c.ExtraGPUs < 0 {
			t.Errorf("%s keeps its fleets on %d GPUs fewer than the fewest", c.Name, -c.ExtraGPUs)
		}
	}
	best, decided, mps, never := r.Choices[0], r.Choices[1], r.Choices[2], r.Choices[4]
	if best.Missed > 0 || never.Missed > 0 || decided.Missed >= mps.Missed || decided.GPUs > never.GPUs || mps.GPUs != r.Fleets {
		t.Errorf("best %+v, decided %+v, MPS %+v, never %+v", best, decided, mps, never)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "never sharing") {
		t.Errorf("%v: %s", err, &text)
	}
}
