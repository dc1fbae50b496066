// SPDX-License-Identifier: Apache-2.0

package prompt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/loadgen"
)

var traceFiles = []string{"traces/mooncake.jsonl", "traces/azure2023.csv", "traces/azure2024.csv", "traces/burstgpt.csv"}

func TestReadTrace(t *testing.T) {
	want := map[string]*Trace{
		"traces/mooncake.jsonl": {Format: "mooncake", BlockTokens: 512, Requests: []TraceRequest{
			{At: 0, InputTokens: 1200, OutputTokens: 50, Blocks: []int64{0, 1, 2}},
			{At: 27 * time.Millisecond, InputTokens: 600, OutputTokens: 92, Blocks: []int64{7, 8}},
			{At: 40 * time.Millisecond, InputTokens: 1024, OutputTokens: 3, Blocks: []int64{0, 1}},
			{At: 3 * time.Second, InputTokens: 1300, OutputTokens: 10, Blocks: []int64{0, 1, 9}},
		}},
		"traces/azure2023.csv": {Format: "azure", Requests: []TraceRequest{
			{At: 0, InputTokens: 374, OutputTokens: 44},
			{At: 4314579 * time.Microsecond, InputTokens: 396, OutputTokens: 109},
			{At: 4541877 * time.Microsecond, InputTokens: 879, OutputTokens: 55},
		}},
		"traces/azure2024.csv": {Format: "azure", Requests: []TraceRequest{
			{At: 0, InputTokens: 10, OutputTokens: 20},
			{At: 9930 * time.Microsecond, InputTokens: 2162, OutputTokens: 5},
			{At: 1500 * time.Millisecond, InputTokens: 33},
		}},
		"traces/burstgpt.csv": {Format: "burstgpt", Requests: []TraceRequest{
			{At: 0, InputTokens: 472, OutputTokens: 18, Session: "s1"},
			{At: 113 * time.Second, InputTokens: 1087, OutputTokens: 230, Session: "s2"},
		}},
	}
	for _, name := range traceFiles {
		t.Run(name, func(t *testing.T) {
			got, err := ReadTrace(bytes.NewReader(readTestdata(t, name)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[name], got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadTraceByColumnName(t *testing.T) {
	in := "Log Type,Response tokens,Extra,Timestamp,Request tokens\nx,7,y,1.5,100\n"
	tr, err := ReadTrace(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]TraceRequest{{InputTokens: 100, OutputTokens: 7}}, tr.Requests); diff != "" {
		t.Error(diff)
	}
}

func TestReadTraceErrors(t *testing.T) {
	for _, tc := range []struct {
		in, want string
	}{
		{"a,b,c\n", "cannot tell the trace's format"},
		{"TIMESTAMP,ContextTokens,GeneratedToken\nx,y,z\n", `no column "GeneratedTokens" (rename "GeneratedToken")`},
		{"TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,2\n", `line 2.TIMESTAMP: is "yesterday"`},
		{"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1\n", "line 2: 2 columns, the header has 3"},
		{"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,-1,2\n", `line 2.ContextTokens: is "-1"`},
		{"TIMESTAMP,ContextTokens,GeneratedTokens\n", "has no requests"},
		{"Timestamp,Request tokens,Response tokens\nNaN,1,2\n", `line 2.Timestamp: is "NaN"`},
		{"Timestamp,Request tokens,Response tokens\n1,1.5,2\n", `line 2.Request tokens: is "1.5"`},
		{`{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1]}`, "line 1.hash_ids: 1 ids for 600 tokens, which are 2 blocks"},
		{`{"timestamp": 1e300, "input_length": 0, "output_length": 1, "hash_ids": []}`, `line 1.timestamp: is "1e300"`},
		{`{"timestamp": 0}`, "line 1.input_length: missing"},
		{"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}\n[1]", "line 2: not a JSON object"},
	} {
		tr, err := ReadTrace(strings.NewReader(tc.in))
		if tr != nil || !errors.Is(err, loadgen.ErrInput) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v\nwant %q", tc.in, err, tc.want)
		}
	}
}

// TestMooncakeVariants: tools that write Mooncake's format leave hashes of blocks out, on all lines or some, or write
// blocks of another size.
func TestMooncakeVariants(t *testing.T) {
	line := func(in int, rest string) string {
		return fmt.Sprintf(`{"timestamp": %d, "input_length": %d, "output_length": 5%s}`, in, in, rest) + "\n"
	}
	for name, c := range map[string]struct {
		text    string
		block   int
		blocks  []int // per line
		problem string
	}{
		"no hashes":               {text: line(100, "") + line(700, ""), blocks: []int{0, 0}},
		"hashes on some lines":    {text: line(100, "") + line(700, `, "hash_ids": [1, 2]`), block: 512, blocks: []int{0, 2}},
		"no input":                {text: line(0, `, "hash_ids": []`), block: 512, blocks: []int{0}},
		"blocks of 64":            {text: line(100, `, "hash_ids": [1, 2]`) + line(130, `, "hash_ids": [1, 3, 4]`), block: 64, blocks: []int{2, 3}},
		"one line is no size":     {text: line(100, `, "hash_ids": [1, 2]`), problem: "line 1.hash_ids: 2 ids for 100 tokens, which are 1 blocks (give one id for each 512 tokens, or all"},
		"sizes that differ":       {text: line(100, `, "hash_ids": [1, 2]`) + line(100, `, "hash_ids": [1, 2, 3]`), problem: "line 2.hash_ids: 3 ids"},
		"hashes that are no list": {text: line(100, `, "hash_ids": 7`), problem: "line 1.hash_ids"},
		"no output":               {text: `{"timestamp": 0, "input_length": 3}`, problem: "line 1.output_length: missing"},
		"a list":                  {text: `[{"timestamp": 0, "input_length": 3, "output_length": 4}]`, problem: "jq -c '.[]' FILE"},
		"one document over lines": {text: "{\n \"timestamp\": 0}", problem: "one object a line"},
		"a list in lines":         {text: "[\n{\"timestamp\": 0, \"input_length\": 3, \"output_length\": 4}\n]", problem: "jq -c '.[]' FILE"},
		"a null for hashes":       {text: line(100, `, "hash_ids": null`), blocks: []int{0}},
	} {
		tr, err := ReadTrace(strings.NewReader(c.text))
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%s: %v, want %q", name, err, c.problem)
			}
			continue
		}
		if err != nil || tr.BlockTokens != c.block || len(tr.Requests) != len(c.blocks) {
			t.Errorf("%s: %+v, %v", name, tr, err)
			continue
		}
		for i, n := range c.blocks {
			if len(tr.Requests[i].Blocks) != n {
				t.Errorf("%s: line %d has blocks %v", name, i+1, tr.Requests[i].Blocks)
			}
		}
	}
}

func TestTraceSliceKeepsTimesAndPromptsTogether(t *testing.T) {
	tr, err := ReadTrace(bytes.NewReader(readTestdata(t, "traces/mooncake.jsonl")))
	if err != nil {
		t.Fatal(err)
	}
	part := tr.Slice(30*time.Millisecond, 0)
	var times []time.Duration
	for at := range part.Schedule(2).Arrivals(nil) {
		times = append(times, at)
	}
	if diff := cmp.Diff([]time.Duration{5 * time.Millisecond, 1485 * time.Millisecond}, times); diff != "" {
		t.Error(diff)
	}
	src := part.Prompts(0)
	var texts [][]string
	for {
		p, err := src.Next()
		if err == io.EOF {
			break
		}
		texts = append(texts, strings.Fields(p.Text))
	}
	if len(texts) != 2 || len(texts[0]) != 1024 || len(texts[1]) != 1300 {
		t.Fatalf("%d prompts of %d and %d words", len(texts), len(texts[0]), len(texts[1]))
	}
	if diff := cmp.Diff(texts[0], texts[1][:1024]); diff != "" {
		t.Error("equal blocks are different text")
	}
	if got := len(tr.Requests); got != 4 {
		t.Errorf("Slice changed the trace: %d requests", got)
	}
}

func FuzzReadTrace(f *testing.F) {
	for _, name := range traceFiles {
		f.Add(readTestdata(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := ReadTrace(bytes.NewReader(data))
		if (err == nil) == (tr == nil) {
			t.Fatalf("%v and %v", tr, err)
		}
		if err != nil {
			return
		}
		last := time.Duration(0)
		for _, r := range tr.Requests {
			if r.At < last || r.InputTokens < 0 || r.OutputTokens < 0 {
				t.Fatalf("%+v after %v", r, last)
			}
			last = r.At
		}
		if tr.Requests[0].At != 0 {
			t.Fatal("does not start at 0")
		}
	})
}

func BenchmarkReadTraceMooncake(b *testing.B) {
	line := bytes.SplitAfter(readTestdata(b, "traces/mooncake.jsonl"), []byte("\n"))[0]
	data := bytes.Repeat(line, 1000)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := ReadTrace(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
}
