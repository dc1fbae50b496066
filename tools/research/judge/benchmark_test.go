// SPDX-License-Identifier: Apache-2.0

package judge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/tools/research/judge"
)

// A submission is scored as the rules of thumb are, and its answers are to questions that there are.
func TestBenchmark(t *testing.T) {
	rows, err := profile.LoadRows("../../../decision/predict/testdata/h200-mixes-3.json")
	if err != nil {
		t.Fatal(err)
	}
	mixes, err := predict.NewPredictor().Mixes(predict.MethodClosedForm, rows)
	if err != nil {
		t.Fatal(err)
	}
	b, err := judge.NewBenchmark(t.Context(), mixes)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Questions) < 50 || b.Kept == 0 || b.Kept == len(b.Questions) || len(b.Scores) != 5 {
		t.Fatalf("%d questions, %d kept, %+v", len(b.Questions), b.Kept, b.Scores)
	}
	data, err := json.Marshal(b.Questions[0])
	if err != nil || strings.Contains(string(data), "kept") || strings.Contains(string(data), "true") {
		t.Errorf("%s: a question tells its answer, %v", data, err)
	}
	yes := judge.Submission{Name: "me", Source: "all of them", Answers: map[string]sharing.Answer{}}
	for i := range b.Questions {
		yes.Answers[b.Questions[i].ID] = sharing.AnswerYes
	}
	if data, err = json.Marshal(yes); err != nil {
		t.Fatal(err)
	}
	if err := b.Submit(data); err != nil {
		t.Fatal(err)
	}
	scores := map[string]judge.Score{}
	for _, s := range b.Scores {
		scores[s.Name] = s
	}
	me, all := scores["me"], scores["always share"]
	if me.Tally != all.Tally || me.Points != all.Points || me.KeptTrue != b.Kept {
		t.Errorf("%+v, always %+v", me, all)
	}
	if never := scores["never share"]; never.Points != 0 || never.Lost != b.Kept || scores["predict"].Points <= 0 {
		t.Errorf("%+v, %+v", never, scores["predict"])
	}
	for bad, want := range map[string]string{
		"": "submission", `{"name":"x","answers":{"no such":"yes"}}`: "no question", `{"answers":{}}`: "name", `{"name":"x","answers":{"q":"perhaps"}}`: "perhaps",
	} {
		if err := b.Submit([]byte(bad)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	var out strings.Builder
	if err := b.WriteText(&out); err != nil || !strings.Contains(out.String(), "me ") {
		t.Errorf("%s, %v", out.String(), err)
	}
}
