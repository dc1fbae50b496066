package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/race"
)

func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// quick are flags of a search that takes a moment.
var quick = []string{"-trace", "rate=4,in=300,out=40,n=300", "-load", "1", "-gpu", "H100-SXM5-80GB=2.90"}

func TestBuiltin(t *testing.T) {
	race.Long(t)
	html := filepath.Join(t.TempDir(), "curves.html")
	code, out, errs := call(t, "-html", html)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	golden.Check(t, "testdata/builtin.txt", []byte(out))
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	page, err := os.ReadFile(html)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", `stroke-width="4"`, `class="chosen"`, ": chosen<", "polyline", "own-gpu", "All figures are simulated", "breaks first"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page has no %q", want)
		}
	}
	if bytes.Contains(page, []byte("http://")) || bytes.Contains(page, []byte("ZgotmplZ")) {
		t.Error("the page needs something else, or something in it was refused")
	}
}

// TestNoNumber: the table says that a kind is not kept by any number of GPUs that was
// tried, and gives no price for it.
func TestNoNumber(t *testing.T) {
	html := filepath.Join(t.TempDir(), "curves.html")
	code, out, errs := call(t, "-trace", "rate=6,in=500,out=100,n=400", "-load", "1", "-gpu", "A100-SXM4-80GB=1.80", "-slo", "ttft_p99=1s,tpot_p99=60ms", "-html", html)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if !regexp.MustCompile(`(?m)^ sleep +>64x A100 +\w+ +missed +- +- `).MatchString(out) || !strings.Contains(strings.Join(strings.Fields(out), " "), "sleep does not do: no number of A100-SXM4-80GB up to 64 does; with ") {
		t.Error(out)
	}
	if page, err := os.ReadFile(html); err != nil || !bytes.Contains(page, []byte("not by 64 A100-SXM4-80GB; figures of")) {
		t.Errorf("%v: %s", err, page)
	}
}

// TestContract reads the JSON as a script would.
func TestContract(t *testing.T) {
	code, out, errs := call(t, append(quick, "-json", "-slo", "ttft_p99=500ms,tpot_p99=60ms,share=0.99")...)
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

// TestTraces reads each form of trace.
func TestTraces(t *testing.T) {
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
		code, out, errs := call(t, "-trace", write(name, text), "-load", "1", "-gpu", "H100-SXM5-80GB=2.90", "-json")
		if code != 0 && code != 3 {
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

// TestNamedModels: a trace's models are those of the profiles with their names, in
// whatever order they come.
func TestNamedModels(t *testing.T) {
	for _, c := range []struct {
		names      [3]string
		first, say string
	}{
		{[3]string{"llama-8b", "llama-1b", "llama-8b"}, "llama-8b", ""},
		{[3]string{"ChatGPT", "LLAMA-1B", "ChatGPT"}, "llama-8b", `it plays "ChatGPT" as llama-8b`},
		{[3]string{"ChatGPT", "GPT-4", "ChatGPT"}, "llama-1b", `it plays "ChatGPT" as llama-1b, "GPT-4" as llama-8b`},
		{[3]string{"llama-8b", "llama-8b", "llama-8b"}, "llama-8b", ""},
	} {
		path := filepath.Join(t.TempDir(), "burst.csv")
		text := "Timestamp,Model,Request tokens,Response tokens\n"
		for i, name := range c.names {
			text += fmt.Sprintf("%d,%s,%d,18\n", 5+i, name, 100+i)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		o := options{trace: path, loads: "1", verifyFor: 1}
		in, err := o.read()
		if err != nil {
			t.Fatal(err)
		}
		if got := in.plan.Tenants[in.requests[0].Tenant].Name; got != c.first {
			t.Errorf("%v: the first request goes to %s", c.names, got)
		}
		notes := strings.Join(in.notes, "\n")
		if strings.Contains(notes, "it plays") != (c.say != "") || !strings.Contains(notes, c.say) {
			t.Errorf("%v: %s", c.names, notes)
		}
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	lengths := filepath.Join(dir, "lengths.jsonl")
	if err := os.WriteFile(lengths, []byte(`{"timestamp": 0, "hash_ids": [1]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(dir, "odd.json")
	if err := os.WriteFile(odd, bytes.ReplaceAll(builtinProfiles, []byte("llama-1b"), []byte("mystery")), 0o644); err != nil {
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
		{[]string{"-gpu", "L40S=cheap"}, "-gpu: L40S"},
		{[]string{"-gpu", "Abacus=1"}, "gpus[0].name"},
		{[]string{"-gpu", "L40S=0"}, "above 0"},
		{[]string{"-gpu", "L40S=1", "-gpu", "L4=1 EUR"}, "use one currency"},
		{[]string{"-load", "0"}, "multiples above 0"},
		{[]string{"-load", "1,x"}, `-load: "x"`},
		{[]string{"-trace", "nowhere.csv"}, "no such file"},
		{[]string{"-trace", "rate=0,in=1,out=1"}, "each above 0"},
		{[]string{"-trace", "rate=1"}, "a stream needs its lengths"},
		{[]string{"-trace", lengths}, "input_length: missing"},
		{[]string{"-profiles", lengths}, "neither profiles nor co-location rows"},
		{[]string{"-profiles", odd}, `model "mystery": its size is not in its name`},
		{[]string{"extra"}, "unknown argument"},
		{[]string{"-verify-for", "-1s"}, "not above 0"},
	} {
		if code, out, errs := call(t, c.args...); code != 2 || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d, %q, no %q in %s", c.args, code, out, c.want, errs)
		}
	}
	// Several problems come at once.
	if _, _, errs := call(t, "-slo", "x", "-load", "0", "-gpu", "y"); strings.Count(errs, "\n") != 3 {
		t.Errorf("%s", errs)
	}
}

// TestNothingDoes: objectives that no GPU meets are exit code 3, with the bound.
func TestNothingDoes(t *testing.T) {
	code, out, errs := call(t, append(quick, "-slo", "tpot_p50=1us")...)
	if code != 3 || !strings.Contains(out, "no GPU of the plan meets the objectives") || !strings.Contains(out, "chosen: none") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// TestVerify runs arrangements as load, on simulated servers and on given ones.
func TestVerify(t *testing.T) {
	code, out, errs := call(t, append(quick, "-verify", "-verify-for", "2s", "-json")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var got report
	if err := json.Unmarshal([]byte(out), &struct{ Verified *[]verified }{&got.Verified}); err != nil {
		t.Fatal(err)
	}
	if len(got.Verified) != 3 {
		t.Fatalf("%d arrangements were run", len(got.Verified))
	}
	for _, v := range got.Verified {
		if v.Basis != "simulated" || len(v.Tenants) != 2 || v.Endpoints < 2 {
			t.Errorf("%+v", v)
		}
		for _, tn := range v.Tenants {
			if tn.Failed > 0 || tn.Requests == 0 || tn.Measured["ttft_p50"] <= 0 || tn.Predicted["ttft_p50"] <= 0 {
				t.Errorf("%s: %+v", v.Kind, tn)
			}
		}
	}
	if code, _, errs := call(t, append(quick, "-verify", "-endpoint", "llama-1b=http://127.0.0.1:1")...); code != 2 || !strings.Contains(errs, "llama-8b has none") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestVerifyDeadServers: servers that answer nothing are an error, and no figure of theirs
// is zero.
func TestVerifyDeadServers(t *testing.T) {
	dead := "http://127.0.0.1:1"
	args := append(quick, "-verify", "-verify-for", "2s", "-endpoint", "llama-1b="+dead, "-endpoint", "llama-8b="+dead+","+dead)
	code, out, errs := call(t, args...)
	if code != 1 || !strings.Contains(errs, "llama-8b's") || !strings.Contains(errs, "requests failed; connect: ") || !strings.Contains(out, "llama-8b is predicted on 1 and measured on 2 servers") {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
	_, out, _ = call(t, append(args, "-json")...)
	var got struct{ Verified []verified }
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Verified) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, tn := range got.Verified[0].Tenants {
		if _, ok := tn.Measured["ttft_p50"]; ok || tn.Failed != tn.Requests {
			t.Errorf("%+v", tn)
		}
	}
}

// TestOut writes the chosen arrangement's routers, one for each model.
func TestOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "routers")
	if code, _, errs := call(t, append(quick, "-out", dir)...); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, name := range []string{"inference-extension/llama-1b.yaml", "inference-extension/llama-8b.yaml", "llm-d/llama-8b.values.yaml"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if code, _, errs := call(t, append(quick, "-out", dir)...); code != 1 || !strings.Contains(errs, "not empty") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestInterrupted: what was found until Ctrl-C is printed.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"-trace", "rate=4,in=300,out=40"}, &out, &errs); code != 1 || !strings.Contains(errs.String(), "interrupted") || !strings.Contains(out.String(), "interrupted before") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteErrors(t *testing.T) {
	var errs bytes.Buffer
	if code := run(t.Context(), quick, full{}, &errs); code != 1 || !strings.Contains(errs.String(), "no space left") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	errs.Reset()
	if code := run(t.Context(), append(quick, "-html", filepath.Join(t.TempDir(), "no", "page.html")), &bytes.Buffer{}, &errs); code != 1 {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}

func TestHelp(t *testing.T) {
	code, out, errs := call(t, "-h")
	if code != 0 || errs != "" || !strings.Contains(out, "-slo") {
		t.Errorf("exit %d, %s", code, errs)
	}
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.ReplaceAll(strings.TrimRight(line, "\n"), "    \t", "        "))); n > width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func FuzzSLO(f *testing.F) {
	f.Add("ttft_p99=500ms,tpot_p99=30ms,share=0.99")
	f.Add("e2e_p50=1h")
	f.Fuzz(func(t *testing.T, text string) {
		o, err := parseSLO(text)
		if err == nil && len(o.Limits) == 0 && o.Share == 0 {
			t.Errorf("%q: nothing and no error", text)
		}
		for _, l := range o.Limits {
			if l.Most <= 0 {
				t.Errorf("%q: %v", text, l)
			}
		}
	})
}
