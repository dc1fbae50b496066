// SPDX-License-Identifier: Apache-2.0

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
	for _, key := range []string{"fleet", "provenance", "findings", "unknown", "today"} {
		if len(doc[key]) == 0 || string(doc[key]) == "null" {
			t.Errorf("%s: %s", key, doc[key])
		}
	}
}

// TestDiscoverOut: cotenant decide reads the file.
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
	const partly = -exitBadInput // the readable part is printed nevertheless
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
		{"nvidia-smi", "", []string{write("box.csv", "index, name, uuid\n0, NVIDIA L4, GPU-1\n")}, exitBadInput, "it is nvidia-smi --query-gpu: give `nvidia-smi -q -x` of the machine"},
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
			if len([]rune(line)) > 101 && strings.HasPrefix(line, "# ") {
				t.Errorf("%s: over 100 columns: %s", c.name, line)
			}
		}
	}
}

// TestDiscoverBadFiles: all problems of prices and hints are reported at once, each line with its file.
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
