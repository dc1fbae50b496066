// SPDX-License-Identifier: Apache-2.0

package prompt

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		{Messages: []loadgen.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Hi"}}},
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

func TestSyntheticIsDeterministic(t *testing.T) {
	opts := SyntheticOptions{
		Input: Lengths{LogNormal: &LogNormal{Median: 40, Sigma: 0.3, Min: 10, Max: 80}}, Output: Lengths{LogNormal: &LogNormal{Median: 20, Sigma: 1, Max: 100}},
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
	groups := map[string]int{}
	for _, p := range a {
		if n := len(strings.Fields(p.Text)); n != p.PromptTokens || n < 60 || n > 130 {
			t.Fatalf("%d words for %d tokens", n, p.PromptTokens)
		}
		if p.MaxTokens < 1 || p.MaxTokens > 100 {
			t.Fatalf("max tokens %d", p.MaxTokens)
		}
		groups[strings.Join(strings.Fields(p.Text)[:50], " ")]++
	}
	if used := slices.Sorted(maps.Values(groups)); len(used) != 3 || used[2] < used[0]*2 {
		t.Errorf("Zipf groups %v", used)
	}
}

func TestNewSyntheticNamesEveryProblem(t *testing.T) {
	_, err := NewSynthetic(SyntheticOptions{
		Input: Lengths{LogNormal: &LogNormal{Median: -1, Sigma: -2, Min: 5, Max: 3}}, Prefix: SharedPrefix{Groups: 2, Zipf: -1},
	})
	for _, want := range []string{"input.median", "input.sigma", "input.max", "output: 0 of them", "prefix:", "prefix.zipf"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
}
