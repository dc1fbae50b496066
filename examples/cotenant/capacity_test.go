package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/capacity/study"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/internal/race"
)

// capacityQuick are the arguments of a search that takes a moment.
var capacityQuick = []string{"capacity", "-trace", "rate=4,in=300,out=40,n=300", "-profiles", twoModels, "-load", "1", "-gpu", "H100-SXM5-80GB=2.90"}

// twoModels are profiles of a 1B and an 8B server.
const twoModels = "../../decision/capacity/study/builtin/profiles.json"

// TestCapacityPage: the text fits its columns, and the page needs no other file.
func TestCapacityPage(t *testing.T) {
	capacityPage(t, capacityQuick...)
}

// capacityPage runs a search, checks the form of its text and its page, and returns
// the text.
func capacityPage(t *testing.T, args ...string) string {
	t.Helper()
	html := filepath.Join(t.TempDir(), "curves.html")
	code, out, errs := program(t, "", append(args, "-report", html)...)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > page.Width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	written, err := os.ReadFile(html)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<figure>", `class="chosen"`, ": chosen</li>", "Money against load", "own-gpu", "All figures are simulated", "breaks first"} {
		if !strings.Contains(string(written), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(string(written), "ZgotmplZ") {
		t.Error("the page needs something else, or something in it was refused")
	}
	return out
}

// TestCapacityContract reads the JSON as a script would.
func TestCapacityContract(t *testing.T) {
	code, out, errs := program(t, "", append(capacityQuick, "-json", "-slo", "ttft_p99=500ms,tpot_p99=60ms,share=0.99")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var got struct {
		Currency     string
		Arrangements []map[string]any
		Crossovers   []any
		Chosen       map[string]any
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Currency != "USD" || len(got.Arrangements) < 3 || got.Crossovers == nil || got.Chosen == nil {
		t.Errorf("%s", out)
	}
	last, chosen := 0.0, false
	for _, a := range got.Arrangements {
		for _, key := range []string{
			"kind", "mechanism", "gpu", "gpus", "copies_per_gpu", "router", "adapters", "verdict", "predicted", "goodput_per_s", "cost_per_hour", "first_limit", "basis",
		} {
			if _, ok := a[key]; !ok {
				t.Errorf("%v has no %s", a["kind"], key)
			}
		}
		cost, number := a["cost_per_hour"].(float64)
		if !number || cost < last {
			t.Errorf("%v costs %v after %v", a["kind"], a["cost_per_hour"], last)
		}
		last = cost
		for name, of := range a["predicted"].(map[string]any) {
			i := of.(map[string]any)
			if len(i) != 3 || i["low"].(float64) > i["value"].(float64) || i["value"].(float64) > i["high"].(float64) {
				t.Errorf("%v: %s is %v", a["kind"], name, of)
			}
		}
		if v := a["verdict"]; v != "kept" && v != "missed" && v != "unknown" {
			t.Errorf("verdict %v", v)
		}
		if !chosen && a["verdict"] == "kept" {
			chosen = true
			if fmt.Sprint(a) != fmt.Sprint(got.Chosen) {
				t.Errorf("the chosen one is no copy of the cheapest that is kept:\n%v\n%v", a, got.Chosen)
			}
		}
	}
}

// TestCapacityTraces reads each form of trace.
func TestCapacityTraces(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	mooncake := &strings.Builder{}
	for i := range 60 {
		fmt.Fprintf(mooncake, `{"timestamp": %d, "input_length": 1500, "output_length": 20, "hash_ids": [0, %d, %d]}`+"\n", 700*i, 1+i%5, 100+i)
	}
	azure := "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:51.2224670,879,55\n"
	burst := "Timestamp,Model,Request tokens,Response tokens\n5,ChatGPT,472,18\n45,GPT-4,1087,230\n118,ChatGPT,417,276\n"
	share := `[{"id":"a","conversations":[{"from":"human","value":"one two three"},{"from":"gpt","value":"four five six seven"},{"from":"human","value":"eight"},{"from":"gpt","value":"nine ten"}]}]`
	for name, text := range map[string]string{"mooncake.jsonl": mooncake.String(), "azure.csv": azure, "burst.csv": burst, "sharegpt.json": share} {
		code, out, errs := program(t, "", "capacity", "-trace", write(name, text), "-load", "1", "-gpu", "H100-SXM5-80GB=2.90", "-json", "-model", "ChatGPT=params:7e9", "-model", "GPT-4=params:14e9,fp8")
		if code != exitDone && code != exitNo {
			t.Errorf("%s: exit %d, %s", name, code, errs)
		}
		var got struct {
			Trace struct{ Requests int }
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || got.Trace.Requests == 0 {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
		if name == "mooncake.jsonl" && !strings.Contains(out, "come from prefix caches") {
			t.Error("Mooncake's hashes share nothing")
		}
	}
}

func TestCapacityBadInput(t *testing.T) {
	dir := t.TempDir()
	lengths := filepath.Join(dir, "lengths.jsonl")
	if err := os.WriteFile(lengths, []byte(`{"timestamp": 0, "hash_ids": [1]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	profiles, err := os.ReadFile("../../decision/capacity/study/builtin/profiles.json")
	if err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(dir, "odd.json")
	if err := os.WriteFile(odd, []byte(strings.ReplaceAll(string(profiles), "llama-1b", "mystery")), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-slo", "ttft_p99"}, "write each once, like ttft_p99=500ms"},
		{[]string{"-slo", "ttft_p98=1s"}, "use _p50, _p90, _p95 or _p99"},
		{[]string{"-slo", "speed_p99=1s"}, "use ttft, tpot or e2e"},
		{[]string{"-slo", "ttft_p99=0s"}, "use a time above 0"},
		{[]string{"-slo", "share=99"}, "above 0, at most 1"},
		{[]string{"-slo", "share=0.9"}, "say what that part of the requests must keep"},
		{[]string{"-gpu", "L40S"}, "write the name and its price"},
		{[]string{"-gpu", "L40S=cheap"}, "gpu: L40S"},
		{[]string{"-gpu", "Abacus=1"}, `gpu: Abacus: sharing: unknown GPU "Abacus"`},
		{[]string{"-gpu", "L40S=0"}, "above 0"},
		{[]string{"-gpu", "L40S=1", "-gpu", "L4=1 EUR"}, "use one currency"},
		{[]string{"-load", "0"}, "use a multiple above 0"},
		{[]string{"-load", "1,x"}, `"x": use multiples`},
		{[]string{"-trace", "nowhere.csv"}, "no such file"},
		{[]string{"-trace", "rate=0,in=1,out=1"}, "each above 0, at most 1e7, and once"},
		{[]string{"-trace", "rate=1,in=1,out=1,in=2"}, `"in=2": write a stream like rate=4,in=500,out=120,n=2000, each above 0, at most 1e7, and once`},
		{[]string{"-out", "."}, "-out: . is not empty (name a new folder)"},
		{[]string{"-trace", "rate=1e-7,in=1,out=1"}, "to end within three years"},
		{[]string{"-trace", "rate=4,in=9,out=9", "-timestamps", "hours"}, `timestamps: "hours" is no unit`},
		{[]string{"-trace", "rate=4,in=9,out=9", "-model", "a=params:8e9", "-model", "A=params:70e9"}, "model: A: is described twice"},
		{[]string{"-gpu", "L40S=1", "-gpu", "NVIDIA L40S=2"}, "NVIDIA L40S twice (name each once)"},
		{[]string{"-trace", "rate=4,in=9,out=9,n=200", "-model", "a=params:8e9", "-max-batched-tokens", "1"}, "scheduling.chunk_tokens: 1 leave no token for a prompt"},
		{[]string{"-trace", "rate=1"}, "a stream needs its lengths"},
		{[]string{"-trace", lengths}, "input_length: missing"},
		{[]string{"-trace", "rate=1,in=100,out=10"}, "trace: it names no model, and none is described or measured: give -model NAME=config.json"},
		{[]string{"-profiles", lengths}, "neither profiles nor co-location rows"},
		{[]string{"-profiles", odd}, `model "mystery": its size is not in its name; describe it with -model mystery=config.json`},
		{[]string{"-model", "chat"}, "write llama-8b=config.json"},
		{[]string{"-engine", "tgi"}, "use vllm or sglang"},
		{[]string{"-max-seqs", "-1"}, "sequences: must lie between"},
		{[]string{"-timestamps", "h", "-trace", "../../loadgen/prompt/testdata/traces/mooncake.jsonl"}, `timestamps: "h" is no unit`},
		{[]string{"-predictor", "nowhere.json"}, "nowhere.json"},
		{[]string{"-fleet", "nowhere.yaml"}, "nowhere.yaml"},
		{[]string{"extra"}, "unexpected argument"},
		{[]string{"-verify-for", "-1s"}, "not above 0"},
	} {
		if code, out, errs := program(t, "", append([]string{"capacity"}, c.args...)...); code != 2 || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d, %q, no %q in %s", c.args, code, out, c.want, errs)
		}
	}
	// Several problems come at once.
	if _, _, errs := program(t, "", "capacity", "-slo", "x", "-trace", "rate=1", "-gpu", "y"); strings.Count(errs, "\n") != 3 {
		t.Errorf("%s", errs)
	}
}

// TestCapacityNothingDoes: objectives that no GPU meets are exit code 1, with the bound.
func TestCapacityNothingDoes(t *testing.T) {
	code, out, errs := program(t, "", append(capacityQuick, "-slo", "tpot_p50=1us")...)
	if code != exitNo || !strings.Contains(out, "no GPU of the plan meets the objectives") || !strings.Contains(out, "chosen: none") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// TestCapacityVerify runs arrangements as load, on simulated servers and on given ones.
func TestCapacityVerify(t *testing.T) {
	race.Long(t)
	code, out, errs := program(t, "", append(capacityQuick, "-verify", "-verify-for", "2s", "-json")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var got struct{ Verified []study.Verified }
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Verified) != 3 {
		t.Fatalf("%d arrangements were run", len(got.Verified))
	}
	for _, v := range got.Verified {
		if v.Basis.String() != "simulated" || len(v.Tenants) != 2 || v.Endpoints < 2 {
			t.Errorf("%+v", v)
		}
		for _, tn := range v.Tenants {
			if tn.Failed > 0 || tn.Requests == 0 || tn.Measured["ttft_p50"] <= 0 || tn.Predicted["ttft_p50"] <= 0 {
				t.Errorf("%s: %+v", v.Kind, tn)
			}
		}
	}
	if code, _, errs := program(t, "", append(capacityQuick, "-verify", "-endpoint", "llama-1b=http://127.0.0.1:1")...); code != 2 || !strings.Contains(errs, "llama-8b has none") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestCapacityVerifyDeadServers: servers that answer nothing are an error, and no figure of theirs
// is zero.
func TestCapacityVerifyDeadServers(t *testing.T) {
	dead := "http://127.0.0.1:1"
	args := append(capacityQuick, "-verify", "-verify-for", "2s", "-endpoint", "llama-1b="+dead, "-endpoint", "llama-8b="+dead+","+dead)
	code, out, errs := program(t, "", args...)
	if code != exitCannot || !strings.Contains(errs, "llama-8b's") || !strings.Contains(errs, "requests failed; connect: ") || !strings.Contains(out, "llama-8b is predicted on 1 and measured on 2 servers") {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
	_, out, _ = program(t, "", append(args, "-json")...)
	var got struct{ Verified []study.Verified }
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Verified) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, tn := range got.Verified[0].Tenants {
		if _, ok := tn.Measured["ttft_p50"]; ok || tn.Failed != tn.Requests {
			t.Errorf("%+v", tn)
		}
	}
}

// TestCapacityOut writes the chosen arrangement's routers, one for each model.
func TestCapacityOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "routers")
	if code, _, errs := program(t, "", append(capacityQuick, "-out", dir)...); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, name := range []string{"inference-extension/llama-1b.yaml", "inference-extension/llama-8b.yaml", "llm-d/llama-8b.values.yaml"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if code, _, errs := program(t, "", append(capacityQuick, "-out", dir)...); code != exitBadInput || !strings.Contains(errs, "not empty") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestCapacityInterrupted: what was found until Ctrl-C is printed.
func TestCapacityInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs strings.Builder
	code := run(ctx, []string{"capacity", "-trace", "rate=4,in=300,out=40", "-profiles", twoModels}, stdio{strings.NewReader(""), &out, &errs})
	if code != exitInterrupted || !strings.Contains(out.String(), "interrupted before") {
		t.Errorf("exit %d: %s%s", code, out.String(), errs.String())
	}
}

func TestCapacityWriteErrors(t *testing.T) {
	html := filepath.Join(t.TempDir(), "no", "page.html")
	if code, out, errs := program(t, "", append(capacityQuick, "-report", html)...); code != exitBadInput || out != "" || !strings.Contains(errs, "there is no folder") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
