package prompt

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/loadgen"
)

func readTestdata(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReadPrompts(t *testing.T) {
	got, err := Read(bytes.NewReader(readTestdata(t, "prompts/good.jsonl")))
	if err != nil {
		t.Fatal(err)
	}
	want := []loadgen.Prompt{
		{Text: "Why is the sky blue?", MaxTokens: 32, Session: "a"},
		{Messages: []loadgen.Message{message("system", "Be brief."), message("user", "Hi")}, Prefix: "brief"},
		{Text: "Count to ten.", MaxTokens: 40, PromptTokens: 5, Body: map[string]any{"temperature": 0.0}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadPromptsNamesEveryProblem(t *testing.T) {
	got, err := Read(bytes.NewReader(readTestdata(t, "prompts/bad.jsonl")))
	if got != nil || !errors.Is(err, loadgen.ErrInput) {
		t.Fatalf("%v, %v", got, err)
	}
	golden.Check(t, "testdata/prompts/bad.golden", []byte(err.Error()+"\n"))
}

func TestReadPromptsOneBadLineOfMany(t *testing.T) {
	var b bytes.Buffer
	for i := range 20_000 {
		if i == 12_345 {
			b.WriteString("{\"prompt\": \"cut off\n")
			continue
		}
		b.WriteString("{\"prompt\": \"fine\"}\n")
	}
	_, err := Read(&b)
	if err == nil || !strings.Contains(err.Error(), "line 12346") || strings.Count(err.Error(), "\n") != 0 {
		t.Errorf("%v", err)
	}
}

func TestReadPromptsEmpty(t *testing.T) {
	for _, in := range []string{"", "\n\n", "\xef\xbb\xbf"} {
		if _, err := Read(strings.NewReader(in)); !errors.Is(err, loadgen.ErrInput) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestReadLinesBoundsALine(t *testing.T) {
	_, err := Read(io.LimitReader(endless{}, maxLineBytes*2))
	if err == nil || !strings.Contains(err.Error(), "longer than 16 MiB") {
		t.Errorf("%v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func FuzzReadPrompts(f *testing.F) {
	for _, name := range []string{"prompts/good.jsonl", "prompts/bad.jsonl"} {
		f.Add(readTestdata(f, name))
	}
	f.Add([]byte(`{"messages":[{"role":"user","content":"\u0000"}],"tools":[{}],"body":{"a":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		prompts, err := Read(bytes.NewReader(data))
		if (err == nil) == (prompts == nil) {
			t.Fatalf("%v and %v", prompts, err)
		}
		if err != nil {
			return
		}
		for _, p := range prompts {
			if (p.Text == "") == (p.Messages == nil) || p.MaxTokens < 0 || p.PromptTokens < 0 {
				t.Errorf("%+v", p)
			}
		}
	})
}

func TestReadShareGPT(t *testing.T) {
	got, skipped, err := ReadShareGPT(bytes.NewReader(readTestdata(t, "prompts/sharegpt.json")))
	if err != nil || skipped != 1 {
		t.Fatalf("%d skipped, %v", skipped, err)
	}
	want := []Conversation{
		{ID: "one", Turns: []Turn{{"Hello", "Hello! How can I help?"}, {"Count.", "1 2 3"}}},
		{ID: "2", System: "Be brief.", Turns: []Turn{{"Hi\n\nthere", "Hey"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadShareGPTErrors(t *testing.T) {
	for in, want := range map[string]string{
		`{"prompt": "x"}`: "not a JSON array",
		`[{"id": "a"}]`:   "[0]: has no conversations",
		`[{"conversations": [{"from": "alien"}]}]`:     `[0].conversations[0].from: unknown speaker "alien"`,
		`[{"conversations": []}`:                       "the array does not end",
		`[{"conversations": []}] x`:                    "something follows the array",
		`[{"conversations": "text"}]`:                  "[0]: not a ShareGPT conversation",
		`[{"id": 1, "conversation": []}, {"id": 2}, ]`: "[1]: has no conversations",
	} {
		got, _, err := ReadShareGPT(strings.NewReader(in))
		if got != nil || !errors.Is(err, loadgen.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

func FuzzReadShareGPT(f *testing.F) {
	f.Add(readTestdata(f, "prompts/sharegpt.json"))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		conversations, _, err := ReadShareGPT(bytes.NewReader(data))
		if err != nil && conversations != nil {
			t.Fatal("a value and an error")
		}
		for _, c := range conversations {
			if len(c.Turns) == 0 {
				t.Fatal("a conversation without turns")
			}
		}
	})
}

// follow walks through a session, answering each question with answer.
func follow(p loadgen.Prompt, answer string) []loadgen.Prompt {
	all := []loadgen.Prompt{p}
	for p.Next != nil {
		next, _, ok := p.Next(loadgen.Reply{Text: answer})
		if !ok {
			break
		}
		all, p = append(all, next), next
	}
	return all
}

func TestConversations(t *testing.T) {
	recorded := []Conversation{{ID: "c", System: "S", Turns: []Turn{{"q1", "recorded1"}, {"q2", "recorded2"}}}, {ID: "none"}}
	ignoreNext := cmpopts.IgnoreFields(loadgen.Prompt{}, "Next")
	first := loadgen.Prompt{Messages: []loadgen.Message{message("system", "S"), message("user", "q1")}, MaxTokens: 3, Session: "c"}
	src := NewConversations(recorded)
	p, err := src.Next()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]loadgen.Prompt{first}, follow(p, "live"), ignoreNext); diff != "" {
		t.Error(diff)
	}
	if p, _ = src.Next(); p.Session != "c#1" {
		t.Errorf("second round is session %q", p.Session)
	}
	if _, err := NewConversations(nil).Next(); err != io.EOF {
		t.Errorf("no conversations: %v", err)
	}
}

func TestSyntheticIsDeterministic(t *testing.T) {
	opts := SyntheticOptions{
		Input: Normal{Mean: 40, StdDev: 10, Min: 10, Max: 80}, Output: LogNormal{Median: 20, Sigma: 1, Max: 100},
		Prefix: SharedPrefix{Groups: 3, Tokens: 50, Zipf: 1}, Seed: 4,
	}
	draw := func() []loadgen.Prompt {
		s, err := NewSynthetic(opts)
		if err != nil {
			t.Fatal(err)
		}
		var all []loadgen.Prompt
		for range 200 {
			p, err := s.Next()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
		return all
	}
	a := draw()
	if diff := cmp.Diff(a, draw()); diff != "" {
		t.Fatal(diff)
	}
	groups, starts := map[string]int{}, map[string]string{}
	for _, p := range a {
		if n := len(strings.Fields(p.Text)); n != p.PromptTokens || n < 60 || n > 130 {
			t.Fatalf("%d words for %d tokens", n, p.PromptTokens)
		}
		if p.MaxTokens < 1 || p.MaxTokens > 100 {
			t.Fatalf("max tokens %d", p.MaxTokens)
		}
		groups[p.Prefix]++
		start := strings.Join(strings.Fields(p.Text)[:50], " ")
		if starts[p.Prefix] == "" {
			starts[p.Prefix] = start
		} else if starts[p.Prefix] != start {
			t.Fatalf("group %s has two prefixes", p.Prefix)
		}
	}
	if len(groups) != 3 || groups["p0"] < groups["p1"] || groups["p1"] < groups["p2"] {
		t.Errorf("Zipf groups %v", groups)
	}
}

func TestSyntheticSessions(t *testing.T) {
	s, err := NewSynthetic(SyntheticOptions{
		Input: Fixed(3), Output: Fixed(5), Turns: Fixed(3), Think: time.Second, Prefix: SharedPrefix{Tokens: 4}, IgnoreEOS: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	var roles []string
	all := follow(p, "answer")
	for _, m := range all[len(all)-1].Messages {
		roles = append(roles, m.Role)
	}
	if diff := cmp.Diff([]string{"system", "user", "assistant", "user", "assistant", "user"}, roles); diff != "" {
		t.Error(diff)
	}
	for _, q := range all {
		if q.Session != "s0" || q.Prefix != "p0" || q.MaxTokens != 5 || q.Body["ignore_eos"] != true {
			t.Errorf("%+v", q)
		}
	}
	if len(p.Messages) != 2 {
		t.Errorf("the first question has %d messages after the session went on", len(p.Messages))
	}
}

func TestNewSyntheticNamesEveryProblem(t *testing.T) {
	_, err := NewSynthetic(SyntheticOptions{
		Input: Normal{Mean: -1, StdDev: -2, Min: 5, Max: 3}, Prefix: SharedPrefix{Groups: 2, Zipf: -1}, Turns: Empirical{}, Think: -1,
	})
	for _, want := range []string{"input.mean", "input.std_dev", "input.max", "output: missing", "turns: no lengths", "prefix:", "prefix.zipf", "think"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
}
