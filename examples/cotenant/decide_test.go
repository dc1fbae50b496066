// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict/profile"
)

const decideFleets = "../quickstart/testdata/"

// TestDecide: the answer, its exit code and refusals.
func TestDecide(t *testing.T) {
	const inPart = "version: v1\npools: [{name: p, gpu: L4, count: 1}]\n" +
		"workloads: [{name: w, kind: training, replicas: 3, memory: 20GiB, gpu_busy: 0.9}]\n"
	for _, c := range []struct {
		args     string
		code     int
		out, err string
	}{
		{"-", exitDone, "partly placed: 1 of 3 replicas have a place", ""},
		{"-", exitDone, "1 of 3 replicas have a place", ""},
		{"-strict -", exitNo, "2 GPUs more in p would do", ""},
		{"-json -", exitDone, `"workload": "w"`, ""},
		{"-schema", exitDone, `"$schema"`, ""},
		{"-explain w -", exitDone, "For more: -explain WORKLOAD, -json", ""},
		{"-h", exitDone, "-confidence", ""},
		{"", exitBadInput, "", "name a fleet file"},
		{"a.yaml -json", exitBadInput, "", "flag -json comes after a.yaml"},
		{"a.yaml", exitBadInput, "", "a.yaml"},
		{"-explain nobody -", exitBadInput, "", "the fleet has w"},
		{"-explain w -json -", exitBadInput, "", "-json has everything"},
		{"-confidence 0.4 -", exitBadInput, "", "use 0.5 to 0.999"},
		{"-confidence NaN -", exitBadInput, "", "use 0.5 to 0.999"},
		{"-predictor x.json -", exitBadInput, "", "needs -profiles"},
		{"-profiles missing.json -", exitBadInput, "", "missing.json"},
		{"-profiles decide.go -", exitBadInput, "", "decide.go"},
		{"-out decide.go -", exitCannot, "", "decide.go"},
	} {
		code, out, errs := program(t, inPart, append([]string{"decide"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.err) || (c.err == "") != (errs == "") {
			t.Errorf("%q: exit %d\n%s\n%s", c.args, code, out, errs)
		}
	}
}

// TestDecideStrictToday: with a today, -strict asks whether replicas go on waiting for a device.
func TestDecideStrictToday(t *testing.T) {
	const fleet = "version: v1\npools: [{name: p, gpu: L4, count: 2, gpus_per_node: 1, price_per_gpu_hour: 1 USD}]\n" +
		"workloads: [{name: w, kind: batch, replicas: %d, memory: 20GiB, gpu_busy: 0.9, today: {mechanism: exclusive, object: Deployment}}]\n" +
		"today: {nodes: [{name: a, pool: p, devices: [{gpu: L4, mode: exclusive}], assignments: [{workload: w}]}, {name: b, pool: p, devices: [{gpu: L4, mode: exclusive}]}]}\n"
	for replicas, want := range map[int]int{1: exitDone, 2: exitDone, 3: exitNo} {
		code, out, errs := program(t, fmt.Sprintf(fleet, replicas), "decide", "-strict", "-")
		if starts := strings.Contains(out, "Start 1 replica of w on b (1)"); code != want || starts != (replicas == 2) {
			t.Errorf("%d replicas: exit %d\n%s%s", replicas, code, out, errs)
		}
	}
}

// TestDecideOut: the configuration is written once and never over existing files.
func TestDecideOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plan")
	for _, want := range []int{exitDone, exitBadInput} {
		code, _, errs := program(t, "", "decide", "-out", dir, decideFleets+"four-teams.yaml")
		if code != want || (code == exitDone) != strings.Contains(errs, "plan.md first") {
			t.Errorf("exit %d: %s", code, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "plan.md")); err != nil {
		t.Error(err)
	}
}

// TestDecideConfig: a fleet's models may name their config.json, from the fleet's folder; standard input has none.
func TestDecideConfig(t *testing.T) {
	const fleet = "version: v1\npools: [{name: p, gpu: L4, count: 1}]\n" +
		"workloads: [{name: w, kind: online-inference, gpu_busy: 0.2, model: {config: w/config.json}}]\n"
	const config = `{"model_type":"llama","num_hidden_layers":16,"hidden_size":2048,"num_attention_heads":32,` +
		`"num_key_value_heads":8,"head_dim":64,"intermediate_size":8192,"vocab_size":128256,"tie_word_embeddings":true}`
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "w"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"fleet.yaml": fleet, "w/config.json": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, out, errs := program(t, "", "decide", "-json", filepath.Join(dir, "fleet.yaml")); code != exitDone || !strings.Contains(out, `"memory": "3.3GiB"`) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, _, errs := program(t, fleet, "decide", "-")
	if code != exitBadInput || !strings.Contains(errs, "workloads[0].model.config: w/config.json cannot be opened") || !strings.Contains(errs, "name the fleet as a file") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestMeasureCommand: the measurement of a provisional answer is this program's command.
func TestMeasureCommand(t *testing.T) {
	for want, s := range map[string]decision.Measurement{
		"cotenant monitor -real -duration 10m -json": {Duration: profile.Duration(10 * time.Minute)},
		"cotenant monitor -real -duration 5m -csv a-b-alone.csv & cotenant bench -endpoint http://REPLICA:8000 -model ITS-MODEL " +
			"-rate 0.75 -random-input-len 9 -random-output-len 7 -ignore-eos -duration 5m -out a-b-alone": {Workload: "a/b", Endpoint: true,
			Rate: 0.75, InputTokens: 9, OutputTokens: 7, Duration: profile.Duration(5 * time.Minute)},
	} {
		if got := measureCommand(&s); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		for command := range strings.SplitSeq(want, " & ") {
			if code, _, errs := program(t, "", append(strings.Fields(command)[1:], "-h")...); code != exitDone {
				t.Errorf("%s -h: exit %d, %s", command, code, errs)
			}
		}
	}
	const open = "version: v1\npools: [{name: p, gpu: L4, count: 1}]\n" +
		"workloads: [{name: w, kind: online-inference, memory: 4GiB}]\n"
	if _, text, _ := program(t, open, "decide", "-"); !strings.Contains(text, "measure: cotenant ") {
		t.Error(text)
	}
}

// TestDecideOnWorkstationGPUs: popular boards hold as much as their memory does.
func TestDecideOnWorkstationGPUs(t *testing.T) {
	for gpu, memory := range map[string][2]string{
		"RTX A6000": {"40GiB", "50GiB"}, "NVIDIA-RTX-A5000": {"20GiB", "25GiB"}, "RTX PRO 4000 Blackwell": {"20GiB", "25GiB"}, "Tesla P40": {"20GiB", "25GiB"},
	} {
		for i, need := range memory {
			fleet := "version: v1\npools: [{name: a, gpu: " + gpu + ", count: 1, price_per_gpu_hour: \"0.50 USD\"}]\n" +
				"workloads:\n  - {name: w, kind: batch, memory: " + need + ", gpu_busy: 0.5}\n"
			_, stdout, stderr := program(t, fleet, "decide", "-")
			all := strings.Join(strings.Fields(stdout+stderr), " ")
			if strings.Contains(all, "exclusive on a, ") != (i == 0) || strings.Contains(all, "needs "+need) != (i == 1) {
				t.Errorf("%s, %s:\n%s%s", gpu, need, stdout, stderr)
			}
		}
	}
}
