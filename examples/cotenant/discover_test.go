package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/golden"
)

func TestDiscoverBuiltIn(t *testing.T) {
	code, stdout, stderr := program(t, "", "discover")
	if code != exitDone || stderr != "" {
		t.Fatal(code, stderr)
	}
	golden.Check(t, "testdata/discover.txt", []byte(stdout))
}

func TestDiscoverJSON(t *testing.T) {
	code, stdout, stderr := program(t, "", "discover", "-json")
	if code != exitDone {
		t.Fatal(code, stderr)
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"fleet", "provenance", "findings", "unknown", "today", "rightsize"} {
		if len(doc[key]) == 0 || string(doc[key]) == "null" {
			t.Errorf("%s: %s", key, doc[key])
		}
	}
}

// TestDiscoverOut: the file is what cotenant decide reads.
func TestDiscoverOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	if code, _, stderr := program(t, "", "discover", "-out", file); code != exitDone || !strings.Contains(stderr, "wrote "+file) {
		t.Fatal(code, stderr)
	}
	f, err := decision.LoadFleet(file)
	if err != nil || len(f.Pools) != 2 || len(f.Workloads) != 8 {
		t.Error(err)
	}
	if code, _, stderr := program(t, "", "discover", "-out", filepath.Join(file, "below")); code != exitBadInput || !strings.Contains(stderr, "there is no folder") {
		t.Error(code, stderr)
	}
}

// knownHints say of two workloads of the built-in cluster what a plan needs.
const knownHints = `workloads:
  llm/chat: {memory: 8GiB, gpu_busy: 0.08, peak_busy: 0.1, slo: {e2e_p99: 8s}, solo: {e2e_p99: 200ms}}
  web/ranker: {memory: 3GiB, gpu_busy: 0.08, peak_busy: 0.1, slo: {e2e_p99: 8s}, solo: {e2e_p99: 200ms}}
`

// TestDiscoverDecide: the plan of the built-in cluster, on the terminal and in plan.md. Where nothing is known all
// stays as it is; of what is known, chat empties a node by moving into MIG instances that stand free, and ranker stays,
// as its autoscaler may ask for more than there would be. Both outputs tell the same steps.
func TestDiscoverDecide(t *testing.T) {
	dir := t.TempDir()
	hints := filepath.Join(dir, "hints.yaml")
	if err := os.WriteFile(hints, []byte(knownHints), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		args  []string
		files int
	}{{"nothing", nil, 1}, {"known", []string{"-hints", hints}, 2}} {
		file := filepath.Join(dir, c.name+".yaml")
		code, stdout, stderr := program(t, "", append([]string{"discover", "-decide", "-out", file}, c.args...)...)
		if code != exitDone {
			t.Fatal(code, stderr)
		}
		folder := filepath.Join(dir, c.name+"-config")
		page, err := os.ReadFile(filepath.Join(folder, "plan.md"))
		if err != nil {
			t.Fatal(err)
		}
		_, plan, _ := strings.Cut(stdout, "\nPLAN: ")
		golden.Check(t, "testdata/plan-"+c.name+".txt", []byte("PLAN: "+plan))
		golden.Check(t, "testdata/plan-"+c.name+".md", page)
		fleet, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "../../decision/migrate/testdata/"+c.name+".yaml", fleet) // whose steps are played there
		flat := func(text string) string { return strings.Join(strings.Fields(text), " ") }
		steps := 0
		for line := range strings.Lines(string(page)) {
			if title, is := strings.CutPrefix(line, "## "); is && strings.Contains(title, ". ") {
				steps++
				if !strings.Contains(flat(plan), flat(title)) {
					t.Errorf("%s: the terminal lacks %s", c.name, title)
				}
			}
		}
		if n := strings.Count(plan, "\n  "+"1. "); (steps > 0) != (n == 1) {
			t.Errorf("%s: %d steps in plan.md, and the terminal shows\n%s", c.name, steps, plan)
		}
		files, err := filepath.Glob(folder + "/*/*")
		if err != nil || len(files)+1 != c.files {
			t.Errorf("%s: %v %v", c.name, files, err)
		}
		code, stdout, stderr = program(t, "", append([]string{"discover", "-decide", "-json"}, c.args...)...)
		var doc struct {
			Fleet, Plan   map[string]json.RawMessage
			Configuration []struct{ Path, Data string }
		}
		if err := json.Unmarshal([]byte(stdout), &doc); err != nil || code != exitDone {
			t.Fatal(code, err, stderr)
		}
		if len(doc.Fleet["today"]) == 0 || len(doc.Plan["bill"]) == 0 || len(doc.Configuration) != c.files {
			t.Errorf("%s: %d files", c.name, len(doc.Configuration))
		}
		code, decided, stderr := program(t, "", "decide", file)
		if code != exitDone || !strings.Contains(decided, "\nPLAN: "+plan) {
			t.Errorf("decide of the fleet file: exit %d, %s\n%s", code, stderr, decided)
		}
	}
	if code, _, stderr := program(t, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}`, "discover", "-decide", "-"); code != exitBadInput || !strings.Contains(stderr, "can't be decided") {
		t.Error(code, stderr)
	}
}

func TestDiscoverExits(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	all := string(discoverCluster)
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"t"},"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"1"}}}]}}`
	const partly = -exitBadInput // what could be read is printed nevertheless
	const sample = `DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",Hostname="n"} `
	for _, c := range []struct {
		name  string
		stdin string
		args  []string
		code  int
		want  string // on standard error
	}{
		{"standard input", all, []string{"-"}, exitDone, ""},
		{"half a file", all[:len(all)/2], []string{"-"}, partly, "standard input: the JSON is cut off after"},
		{"one of two", all, []string{"-", write("x.txt", "hello")}, partly, "of no kind that is read"},
		{"blank", " \n\n", []string{"-"}, exitBadInput, "cotenant discover: invalid: standard input: it is empty\n"},
		{"no objects", `{"kind":"List","items":[]}`, []string{"-"}, exitDone, ""},
		{"half of the second file", pod[:40], []string{write("whole.json", all), "-"}, partly, "cut off after 0 objects"},
		{"refused by the API server", `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"nodes is forbidden"}`, []string{"-"}, exitBadInput, `the API server refused: "nodes is forbidden"`},
		{"refused beside the rest", `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"nodes is forbidden"}` + pod, []string{"-"}, partly, "the API server refused"},
		{"no URL of Prometheus", "", []string{"-prometheus", "host:9090"}, exitBadInput, "is no URL of a Prometheus server"},
		{"refused by Prometheus", `{"status":"error","errorType":"bad_data","error":"parse error"}`, []string{"-"}, exitBadInput, `Prometheus answers "parse error"`},
		{"a query without an answer", `{"status":"success","data":{"resultType":"matrix","result":[]}}`, []string{"-"}, exitBadInput, "it has no series"},
		{"what kubectl says", "No resources found\n", []string{"-"}, exitBadInput, "of no kind that is read"},
		{"an unknown version beside a known one", pod + strings.Replace(pod, `"v1"`, `"v9"`, 1), []string{"-"}, partly, `version "v9" is not known`},
		{"negative samples are a finding", sample + "-50\n", []string{write("ok.json", all), "-"}, exitDone, ""},
		{"samples that are no numbers", sample + "many\n", []string{write("ok.json", all), "-"}, partly, `got "many"`},
		{"a folder", all, []string{"-", dir}, exitBadInput, "is a directory"},
		{"nothing", "", []string{"-"}, exitBadInput, "is empty"},
		{"no file", "", []string{filepath.Join(dir, "none")}, exitBadInput, "none"},
		{"prices", all, []string{"-prices", write("p.yaml", "A100: 3"), "-"}, exitBadInput, "add a currency"},
		{"hints", all, []string{"-hints", write("h.yaml", "workload: {}"), "-"}, exitBadInput, "workload: unknown key"},
		{"nvidia-smi", "", []string{write("box.csv", "index, name, uuid\n0, NVIDIA L4, GPU-1\n")}, exitDone, ""},
		{"flag", "", []string{"-nope"}, exitBadInput, "not defined"},
		{"help", "", []string{"-h"}, exitDone, ""},
	} {
		code, stdout, stderr := program(t, c.stdin, append([]string{"discover"}, c.args...)...)
		if code != max(c.code, -c.code) || !strings.Contains(stderr, c.want) || c.want == "" && stderr != "" || (stdout == "") != (c.code == exitBadInput) {
			t.Errorf("%s: exit %d, %d bytes out, stderr %s", c.name, code, len(stdout), stderr)
		}
		if strings.Contains(stdout, "NAMEk") {
			t.Errorf("%s: %s\n%s", c.name, stderr, stdout)
		}
		for line := range strings.Lines(stdout) {
			if len([]rune(line)) > 101 {
				t.Errorf("%s: over 100 columns: %s", c.name, line)
			}
		}
	}
}

// TestDiscoverBadFiles: what is wrong with prices and hints is said at once, each line with its file.
func TestDiscoverBadFiles(t *testing.T) {
	dir := t.TempDir()
	prices, hints := filepath.Join(dir, "prices.yaml"), filepath.Join(dir, "hints.yaml")
	for file, text := range map[string]string{prices: "L4: -3 USD\nT4: 1 EUR\n", hints: "nodes: {a: {gpu: A100}, b: {gpu: none}}\n"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := program(t, "", "discover", "-prices", prices, "-hints", hints)
	for _, want := range []string{prices + ": L4: ", prices + ": T4: ", hints + ": nodes.a.gpu: ", hints + ": nodes.b.gpu: "} {
		if code != exitBadInput || out != "" || !strings.Contains(errs, want) {
			t.Errorf("exit %d: %s does not say %q", code, errs, want)
		}
	}
}
