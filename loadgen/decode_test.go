// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/optional"
)

func TestDecodeDelta(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want delta
		bad  bool
	}{
		{in: `{"choices":[{"delta":{"content":"a"}}]}`, want: delta{text: "a"}},
		{in: `{"choices":[{"delta":{"role":"assistant","content":""}}]}`, want: delta{}},
		{in: `{"choices":[{"delta":{"role":"assistant","content":null},"finish_reason":null}]}`, want: delta{}},
		{in: `{"choices":[{"text":"a","finish_reason":"length"}]}`, want: delta{text: "a", finish: "length"}},
		{in: `{"choices":[{"delta":{"reasoning_content":"r"}}]}`, want: delta{reasoning: "r"}},
		{in: `{"choices":[{"delta":{"reasoning":"r","content":null}}]}`, want: delta{reasoning: "r"}},
		{in: `{"choices":[{"delta":{"reasoning":"r","reasoning_content":"r"}}]}`, want: delta{reasoning: "r"}},
		{in: `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}`, want: delta{other: true}},
		{in: `{"choices":[{"delta":{"tool_calls":[]}}]}`, want: delta{}},
		{in: `{"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":5}}`,
			want: delta{text: "whole", finish: "stop", hasUsage: true, usage: usage{Prompt: 3, Completion: 5}}},
		{in: `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5}}`, want: delta{hasUsage: true, usage: usage{Prompt: 3, Completion: 5}}},
		{in: `{"choices":[{"delta":{"content":"a"}}],"usage":null,"error":null}`, want: delta{text: "a"}},
		{in: `{"error":{"message":"boom"}}`, want: delta{failure: `{"message":"boom"}`}},
		{in: `{"error":"boom"}`, want: delta{failure: `"boom"`}},
		{in: `{"object":"error","message":"boom"}`, want: delta{failure: `{"object":"error","message":"boom"}`}},
		{in: `{"choices":[{"delta":{"content":[{"type":"text","text":"a"},"b",{"type":"image"}]}}]}`, want: delta{text: "ab"}},
		{in: `{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"r"}]},{"type":"text","text":"a"}]}}]}`, want: delta{text: "a", reasoning: "r"}},
		{in: `{"choices":[],"usage":{"prompt_tokens":3.0,"completion_tokens":7e0}}`, want: delta{hasUsage: true, usage: usage{Prompt: 3, Completion: 7}}},
		{in: `{"choices":[],"usage":{"prompt_tokens":null,"completion_tokens":7}}`, want: delta{hasUsage: true, usage: usage{Completion: 7}}},
		{in: `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":8,"audio_tokens":0}}}`,
			want: delta{hasUsage: true, usage: usage{Prompt: 9, Completion: 7, Cached: cachedTokens{optional.Of(8)}}}},
		{in: `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":0}}}`,
			want: delta{hasUsage: true, usage: usage{Prompt: 9, Completion: 7, Cached: cachedTokens{optional.Of(0)}}}},
		{in: `{"choices":[],"usage":{"completion_tokens":7,"prompt_tokens_details":null}}`, want: delta{hasUsage: true, usage: usage{Completion: 7}}},
		{in: `{"choices":[],"usage":{"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":-1}}}`, want: delta{hasUsage: true, usage: usage{Completion: 7}}},
		{in: `{"choices":[],"usage":{"completion_tokens":7,"prompt_tokens_details":[]}}`, want: delta{hasUsage: true, usage: usage{Completion: 7}}},
		{in: `{"choices":[],"usage":{"completion_tokens":7.5}}`, bad: true},
		{in: `{"choices":[],"usage":{"completion_tokens":1e300}}`, bad: true},
		{in: `{"choices":[{"delta":{"content":"a"}}]`, bad: true},
		{in: `{"choices":[{"delta":{"content":7}}]}`, bad: true},
		{in: `{"choices":[],"usage":{"completion_tokens":-1}}`, bad: true},
		{in: `pong`, bad: true},
	} {
		got, err := decodeDelta([]byte(tc.in))
		if (err != nil) != tc.bad {
			t.Errorf("%s: %v", tc.in, err)
		}
		got.seen, got.finished = 0, 0 // TestChoices looks at these
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(delta{}, usage{})); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tc.in, diff)
		}
	}
}

const chatChunk = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%},"logprobs":null,"finish_reason":null}]}`

func chunkWith(text string) string { return strings.Replace(chatChunk, "%", text, 1) }

func TestTemplate(t *testing.T) {
	var tm template
	first := []byte(chunkWith(`" hello"`))
	d, err := decodeDelta(first)
	if err != nil {
		t.Fatal(err)
	}
	tm.learn(first, &d)
	if !tm.ready {
		t.Fatal("not learned")
	}
	for _, tc := range []struct {
		in, text string
		ok       bool
	}{
		{chunkWith(`" world"`), " world", true},
		{chunkWith(`"a\nb\"c\\"`), "a\nb\"c\\", true},
		{chunkWith(`"\u00e9"`), "", false},
		{chunkWith(`""`), "", false},
		{chunkWith(`"a","tool_calls":[{}],"x":"b"`), "", false},
		{chunkWith("\"a\nb\""), "", false},
		{chunkWith(`"\x"`), "", false},
		{chunkWith(`null`), "", false},
		{`[DONE]`, "", false},
	} {
		raw, ok := tm.match([]byte(tc.in))
		if ok != tc.ok || ok && unescape(raw) != tc.text {
			t.Errorf("%s: %q, %v", tc.in, raw, ok)
		}
	}
}

func TestChoices(t *testing.T) {
	d, err := decodeDelta([]byte(`{"choices":[{"index":2,"delta":{"content":"a"}},{"index":0,"delta":{},"finish_reason":"stop"},{"index":99,"delta":{}}]}`))
	if err != nil || d.seen != 1<<2|1|1<<63 || d.finished != 1 || d.seen.len() != 3 {
		t.Errorf("%b, %b, %v", d.seen, d.finished, err)
	}
	for want, fields := range map[int][]map[string]any{
		1: {nil, {"temperature": 0}}, 2: {nil, {"n": 2}}, 3: {{"n": 3.0}, {"n": 2}}, 4: {{"n": json.Number("4")}}, 64: {{"n": 1000}},
	} {
		if got := choicesAsked(fields...); got != want {
			t.Errorf("%v: %d", fields, got)
		}
	}
	if choicesAsked(map[string]any{"n": "many"}) != 1 || choicesAsked(map[string]any{"n": nil}, map[string]any{"n": 2}) != 1 {
		t.Error("no number taken for one")
	}
}

// FuzzTemplate compares the template with encoding/json on events.
func FuzzTemplate(f *testing.F) {
	f.Add([]byte(chunkWith(`"a"`)), []byte(chunkWith(`"b"`)))
	f.Add([]byte(`{"choices":[{"text":"a"}]}`), []byte(`{"choices":[{"text":"b\n"}]}`))
	f.Add([]byte(`{"content":"a","choices":[{"delta":{"content":"a"}}]}`), []byte(`{"content":"b","choices":[{"delta":{"content":"a"}}]}`))
	f.Add([]byte(`{"choices":[{"delta":{"content":"a","content":"b"}}]}`), []byte(`{"choices":[{"delta":{"content":"c","content":"b"}}]}`))
	f.Add([]byte(`{"x":"ab","choices":[{"text":"a"},{"text":"b"}]}`), []byte(`{"x":"c","choices":[{"text":"a"},{"text":"b"}]}`))
	f.Add([]byte(`{"choices":[{"delta":{"reasoning":"a"}}]}`), []byte(`{"choices":[{"delta":{"reasoning":"\\"}}]}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		d, err := decodeDelta(first)
		if err != nil {
			return
		}
		var tm template
		tm.learn(first, &d)
		raw, ok := tm.match(second)
		if !ok {
			return
		}
		want, err := decodeDelta(second)
		if err != nil {
			t.Fatalf("matched an event that does not decode: %q by %q: %v", second, first, err)
		}
		got := delta{text: unescape(raw), seen: d.seen} // the index is in the template
		if tm.reasoning {
			got = delta{reasoning: got.text, seen: d.seen}
		}
		if got != want {
			t.Errorf("template %+v, encoding/json %+v of %q after %q", got, want, second, first)
		}
	})
}

func FuzzDecodeDelta(f *testing.F) {
	f.Add([]byte(chunkWith(`"a"`)))
	f.Add([]byte(`{"error":{"message":"x"}}`))
	f.Add([]byte(`{"id":"a","x":[1,-2.5e3,true,{"y":"\u00e9"}],"choices":[{"index":1,"text":"t\n","delta":{"reasoning":"r","content":"é"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":12}}`))
	f.Add([]byte(`{"choices":[{"delta":{"content":"a","Content":"b"}}],"Usage":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := decodeDelta(data)
		if err != nil && d != (delta{}) {
			t.Errorf("value and error: %+v, %v", d, err)
		}
		if err == nil && !json.Valid(data) {
			t.Error("accepted text that is not JSON")
		}
	})
}

func BenchmarkTemplate(b *testing.B) {
	data := []byte(chunkWith(`" hello"`))
	d, err := decodeDelta(data)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("template", func(b *testing.B) {
		var tm template
		tm.learn(data, &d)
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := tm.match(data); !ok {
				b.Fatal("no match")
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decodeDelta(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
