package study

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/internal/race"
)

// twoModels are profiles of a 1B and an 8B server.
const twoModels = "builtin/profiles.json"

// burstOf is a BurstGPT trace of requests to models with these names.
func burstOf(t *testing.T, names ...string) string {
	path := filepath.Join(t.TempDir(), "burst.csv")
	text := "Timestamp,Model,Request tokens,Response tokens\n"
	for i, name := range names {
		text += fmt.Sprintf("%d,%s,%d,18\n", 5+i, name, 100+i)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestNamedModels: a trace's models are those that are described or measured under their names, in whatever order
// they come, and no other stands in for one that is neither.
func TestNamedModels(t *testing.T) {
	for _, c := range []struct {
		names  []string
		models []string
		first  string // model of the first request, with its parameters
		refuse string
	}{
		{[]string{"llama-8b", "llama-1b", "llama-8b"}, nil, "llama-8b 8.03e+09", ""},
		{[]string{"LLAMA-1B", "llama-8b"}, nil, "llama-1b 1.24e+09", ""},
		{[]string{"llama-8b", "llama-8b"}, nil, "llama-8b 8.03e+09", ""},
		{[]string{"llama-70b", "llama-70b"}, nil, "", `neither described nor measured: "llama-70b"; describe each with -model llama-70b=config.json`},
		{[]string{"ChatGPT", "LLAMA-1B", "GPT-4"}, nil, "", `measured: "ChatGPT", "GPT-4"; `},
		{[]string{"ChatGPT", "GPT-4"}, []string{"chatgpt=params:7e9,fp8", "GPT-4=params:32e9,active:3e9,awq"}, "chatgpt 7e+09", ""},
		{[]string{"", ""}, []string{}, "", "it names no model, and none is described or measured"},
		{[]string{"ChatGPT"}, []string{}, "", `neither described nor measured: "ChatGPT"; describe each with -model ChatGPT=config.json`},
		{[]string{"ChatGPT", "GPT-4"}, []string{"ChatGPT=params:7e9"}, "", `measured: "GPT-4"; describe each with -model GPT-4=config.json (Hugging Face's) or -model GPT-4=params:7e9,bf16, or give -profiles of it; known are ChatGPT`},
	} {
		options := Options{Trace: burstOf(t, c.names...), Models: c.models}
		if c.models == nil {
			options.Profiles = twoModels
		}
		in, err := Read(options)
		if c.refuse != "" {
			if err == nil || !strings.Contains(err.Error(), c.refuse) {
				t.Errorf("%v: %v, want %q", c.names, err, c.refuse)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		of := in.Plan.Tenants[in.requests[0].Tenant]
		if got := fmt.Sprintf("%s %g", of.Name, of.Shape.Parameters); got != c.first {
			t.Errorf("%v: the first request goes to %s", c.names, got)
		}
	}
}

// TestDescribed: models come from config.json, from their size and from a fleet, beside each other and with profiles.
func TestDescribed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := write("config.json", `{"model_type":"qwen3","num_hidden_layers":36,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"intermediate_size":12288,"vocab_size":151936,"tie_word_embeddings":false}`)
	page := write("login.html", "<html><title>Sign in</title>")
	fleet := write("fleet.yaml", "version: v1\npools: [{name: p, gpu: L40S, count: 1}]\nworkloads:\n  - {name: chat, kind: online-inference, model: {parameters: 7e9, weights: fp8, layers: 28, kv_heads: 4, head_dim: 128}}\n  - {name: tags, kind: online-inference, model: {parameters: 1.2e9, weights: bf16}}\n")
	in, err := Read(Options{Trace: "rate=1,in=100,out=10,n=200", Models: []string{"qwen=" + config, "llama-8b=params:9e9,awq"}, Fleet: fleet, Profiles: twoModels})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tn := range in.Plan.Tenants {
		got = append(got, fmt.Sprintf("%s %.3g %d %d %d", tn.Name, tn.Shape.Parameters, tn.Shape.Layers, tn.Shape.WeightBits, len(tn.Profiles)))
	}
	if want := []string{"chat 7e+09 28 8 0", "llama-1b 1.24e+09 16 0 1", "llama-8b 9e+09 32 4 1", "qwen 8.19e+09 36 0 0", "tags 1.2e+09 16 0 0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for text, want := range map[string]string{
		"qwen":                     "write llama-8b=config.json",
		"qwen=nowhere.json":        "nowhere.json",
		"qwen=" + page:             "is a page in HTML, as a login gives",
		"qwen=params:7b":           "params:7b: write the number of parameters",
		"qwen=params:7e9,q8":       `"q8": use active:NUMBER or one of awq, bf16`,
		"qwen=params:7e9,active:x": "active:x: write how many",
		"qwen=params:900e9":        "no model of about 9e+11 parameters is known here",
		"qwen=" + fleet:            "is no config.json",
	} {
		if _, err := Read(Options{Models: []string{text}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestTimestamps: a trace whose numbers are a thousand times too fast or too slow in its format's unit is asked for it.
func TestTimestamps(t *testing.T) {
	mooncake := func(step float64) string {
		path := filepath.Join(t.TempDir(), "trace.jsonl")
		var text strings.Builder
		for i := range 200 {
			fmt.Fprintf(&text, `{"timestamp": %g, "input_length": 10, "output_length": %d, "hash_ids": [%d]}`+"\n", step*float64(i), 2*(i%2), i)
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		step float64
		unit string
		perS float64
		asks bool
	}{{250, "", 4, false}, {0.25, "", 0, true}, {0.25, "s", 4, false}, {0.25, "ms", 4000, false}, {250, "s", 0.004, false}, {250, "min", 0, true}, {0, "", 0, false}} {
		in, err := Read(Options{Trace: mooncake(c.step), Timestamps: c.unit, Profiles: twoModels})
		if (err != nil) != c.asks || err != nil && !strings.Contains(err.Error(), "timestamps: ") {
			t.Errorf("%g %s: %v", c.step, c.unit, err)
		}
		if err == nil && c.perS > 0 {
			if got := 199 / in.requests[199].At.Seconds(); math.Abs(got/c.perS-1) > 0.01 || !strings.Contains(strings.Join(in.Notes, "\n"), "100 requests have no input or no output") {
				t.Errorf("%g %s: %g requests a second, %q", c.step, c.unit, got, in.Notes)
			}
		}
	}
}

// TestNoNumber: the table says that a kind is not kept by any number of GPUs that was tried, and gives no price for it.
func TestNoNumber(t *testing.T) {
	r := &Report{SLO: "ttft_p99=1s", load: 2, Result: &capacity.Result{Currency: "USD", Trace: capacity.TraceSummary{Requests: 10, PerS: 4},
		Arrangements: []capacity.Arrangement{{Kind: capacity.KindSleep, GPU: "A100-SXM4-80GB", GPUs: 8, Tried: 64, Verdict: capacity.VerdictMissed}}}}
	var text, html strings.Builder
	if err := errors.Join(r.WriteText(&text), r.Page().Write(&html)); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^ sleep +>64x A100 +\w* +missed +- +- `).MatchString(text.String()) || !strings.Contains(text.String(), "at load 2, 8 requests a second") {
		t.Error(text.String())
	}
	if !strings.Contains(html.String(), "not by 64 A100-SXM4-80GB; figures of") {
		t.Error(html.String())
	}
}

// TestNeedGrowsNoFaster: k times the load needs at most k times the GPUs, whatever a kind divides them into: so many
// copies of the first plan do. The one-hour trace has divisions that may do with fewest and are known to with many.
func TestNeedGrowsNoFaster(t *testing.T) {
	race.Long(t)
	for _, c := range []struct {
		trace string
		kinds []capacity.Kind
	}{
		{"rate=8,in=300,out=300,n=28800", []capacity.Kind{capacity.KindMIG}},
		{"rate=10,in=500,out=100,n=4000", []capacity.Kind{capacity.KindMIG, capacity.KindTimeSlicing}},
	} {
		for _, kind := range c.kinds {
			need := map[float64]int{}
			for _, load := range []float64{1, 1.5, 3} {
				s, err := Read(Options{Trace: c.trace, Profiles: twoModels, GPUs: []string{"H100-SXM5-80GB=2.90"}, Loads: []float64{load}, Seed: 1})
				if err != nil {
					t.Fatal(err)
				}
				s.Plan.Kinds = []capacity.Kind{kind}
				r, err := s.Plan.Search(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if r.Chosen != nil {
					need[load] = r.Chosen.GPUs
				}
			}
			t.Log(c.trace, kind, need)
			for less, n := range need {
				for more := range need {
					if k := more / less; k == math.Trunc(k) && need[more] > int(k)*n {
						t.Errorf("%s, %v: load %g needs %d, load %g needs %d", c.trace, kind, less, n, more, need[more])
					}
				}
			}
		}
	}
}

// TestOddTraces: prompts of a million tokens, answers of none and traces all at once are planned, refused or told, with
// what is amiss, and never in silence.
func TestOddTraces(t *testing.T) {
	write := func(lines ...string) string {
		path := filepath.Join(t.TempDir(), "trace.csv")
		text := "Timestamp,Model,Request tokens,Response tokens\n" + strings.Join(lines, "\n") + "\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	of := func(at, in, out int) string {
		return fmt.Sprintf("%d,llama-8b,%d,%d", at, in, out)
	}
	search := func(trace string) (*Report, []string) {
		s, err := Read(Options{Trace: trace, Models: []string{"llama-8b=params:8e9,bf16"}, GPUs: []string{"L40S=0.90"}})
		if err != nil {
			t.Fatal(err)
		}
		s.Plan.Kinds = []capacity.Kind{capacity.KindOwnGPU}
		r, err := s.Search(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r, s.Notes
	}
	// A million tokens of KV cache take 131 GB beside the weights: four L40S.
	r, _ := search(write(of(0, 1_000_000, 10), of(1, 100, 10)))
	if r.Chosen != nil || len(r.Why) != 1 || !strings.Contains(r.Why[0], "longest request (1000010 tokens) take at least 4 L40S") {
		t.Errorf("a million tokens: %v, %q", r.Chosen != nil, r.Why)
	}
	r, notes := search(write(of(0, 100, 10), of(1, 0, 10)))
	if r.Chosen == nil || r.Chosen.GPUs != 1 || !slices.Contains(notes, "1 requests have no input or no output and count as one token") {
		t.Errorf("nothing in: %v, %q", r.Chosen != nil, notes)
	}
	r, _ = search(write(of(0, 100, 10), of(1, 100, 0))) // BurstGPT's failed requests
	if r.Chosen == nil || r.Trace.Requests != 1 {
		t.Errorf("nothing out: %+v", r.Trace)
	}
	r, _ = search(write(slices.Repeat([]string{of(0, 100, 10)}, 50)...))
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || r.Chosen == nil || r.Trace.PerS != 0 || !strings.Contains(text.String(), "requests: 50, all at one time") {
		t.Errorf("all at once: %v, %s", err, text.String())
	}
	for trace, want := range map[string]string{"rate=1,in=2e7,out=10": "each above 0", "rate=1,in=0.5,out=10": "needs its lengths", "rate=1,in=100,out=0": "each above 0"} {
		if _, err := Read(Options{Trace: trace, Profiles: twoModels}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", trace, err)
		}
	}
}

// TestUnequalDivisions: of three servers on a GPU's slices the one that most of the requests ask for has more slices than
// the others, where with as many for each it would take another GPU.
func TestUnequalDivisions(t *testing.T) {
	race.Long(t)
	path := filepath.Join(t.TempDir(), "burst.csv")
	text := "Timestamp,Model,Request tokens,Response tokens\n"
	for i := range 3000 {
		text += fmt.Sprintf("%d,%s,2000,4\n", i/30, [...]string{"busy", "busy", "busy", "busy", "busy", "busy", "busy", "busy", "b", "c"}[i%10])
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Read(Options{Trace: path, Models: []string{"busy=params:1e9,bf16", "b=params:1e9,bf16", "c=params:1e9,bf16"}, GPUs: []string{"H100-SXM5-80GB=2.90"}, SLO: "ttft_p99=4s"})
	if err != nil {
		t.Fatal(err)
	}
	s.Plan.Kinds = []capacity.Kind{capacity.KindMIG}
	r, err := s.Search(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Chosen == nil || r.Chosen.GPUs != 1 || !regexp.MustCompile(`^busy [2-9] x \w.*\+ b \dg\.\w+ \+ c \dg\.\w+$`).MatchString(r.Chosen.Division) {
		t.Errorf("%+v", r.Arrangements[0].Division)
	}
	t.Log(r.Chosen.Division, r.Chosen.Gap)
}
