// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// tenantTime is the time of a pod in an account, by so many seconds a minute.
func tenantTime(account, pod, mechanism, basis string, seconds, low float64) string {
	l := fmt.Sprintf(`{gpu="G",node="n",account=%q,namespace="t",pod=%q,container="main",mechanism=%q,basis=%q}`, account, pod, mechanism, basis)
	return fmt.Sprintf("cotenant_gpu_seconds_total%s 0+%vx180\ncotenant_gpu_seconds_low_total%s 0+%vx180\n", l, seconds, l, low)
}

func accountTime(account string, seconds float64) string {
	return fmt.Sprintf("cotenant_gpu_account_seconds_total{gpu=\"G\",node=\"n\",account=%q,namespace=\"\"} 0+%vx600\n", account, seconds)
}

// latency is a histogram of 100 requests a minute, of which so many take at most 0.4 s.
func latency(metric string, within int) (text string) {
	for le, n := range map[string]int{"0.4": within, "0.8": 100, "+Inf": 100} {
		text += fmt.Sprintf("%s_bucket{namespace=\"t\",pod=\"p\",container=\"c\",le=%q} 0+%dx60\n", metric, le, n)
	}
	return text
}

// stated is an objective of 0.4 s.
func stated(latency string) string {
	return fmt.Sprintf("cotenant_objective_seconds{node=\"n\",namespace=\"t\",pod=\"p\",container=\"c\",latency=%q} 0.4x60\n", latency)
}

const (
	observed = `cotenant_gpu_observed_seconds_total{gpu="G",node="n"} 0+60x600` + "\n"
	up       = `cotenant_gpu_up{gpu="G",node="n",reason=""} 1x600` + "\n"
)

// TestAlerts: every alert fires where it should, and is silent where it should be.
func TestAlerts(t *testing.T) {
	four := ""
	for i := range 4 {
		four += tenantTime("held-idle", fmt.Sprint("p", i), "time-slicing", "derived", 15, 15)
	}
	promtool, missing := exec.LookPath("promtool")
	tested, tests := map[string]int{}, []any{}
	for _, c := range []struct {
		alert  string
		series string
		at     time.Duration
		want   string // the pods, nodes or GPUs that the alerts name; "" = silent
	}{
		{"GPUHeldIdle", four, 3 * time.Hour, "p0 p1 p2 p3"},
		{"GPUHeldIdle", tenantTime("held-idle", "p1", "exclusive", "measured", 60, 60), 3 * time.Hour, "p1"},
		{"GPUHeldIdle", tenantTime("execution-idle", "p1", "mig", "measured", 8.5, 8.5), 3 * time.Hour, "p1"},
		{"GPUHeldIdle", tenantTime("held-idle", "p1", "time-slicing", "derived", 13, 13) + tenantTime("tenant", "p1", "time-slicing", "measured", 2, 1), 3 * time.Hour, ""},
		{"GPUHeldIdle", tenantTime("held-idle", "p1", "exclusive", "measured", 60, 60), 50 * time.Minute, ""},
		{"GPUIdle", accountTime("idle", 60) + observed, 7 * time.Hour, "G"},
		{"GPUIdle", accountTime("idle", 40) + accountTime("tenant", 20) + observed, 7 * time.Hour, ""},
		{"GPUMemoryOversubscribed", `cotenant_gpu_memory_used_bytes{gpu="G",node="n"} 79x30
cotenant_gpu_memory_total_bytes{gpu="G",node="n"} 80x30
cotenant_gpu_resident_tenants{gpu="G",node="n"} 2x30`, 20 * time.Minute, "G"},
		{"GPUMemoryOversubscribed", `cotenant_gpu_memory_used_bytes{gpu="G",node="n"} 79x30
cotenant_gpu_memory_total_bytes{gpu="G",node="n"} 80x30
cotenant_gpu_resident_tenants{gpu="G",node="n"} 1x30`, 20 * time.Minute, ""},
		{"GPUNeighbourSlowdown", tenantTime("tenant", "p1", "time-slicing", "measured", 29, 21) + tenantTime("tenant", "p2", "time-slicing", "measured", 29, 21), 40 * time.Minute, "G"},
		{"GPUNeighbourSlowdown", tenantTime("tenant", "p1", "mps", "prior", 29, 0) + tenantTime("tenant", "p2", "mps", "prior", 29, 0), 40 * time.Minute, ""},
		{"GPUNeighbourSlowdown", tenantTime("tenant", "p1", "time-slicing", "measured", 58, 57), 40 * time.Minute, ""},
		{"ServerMissesObjective", latency("vllm:time_to_first_token_seconds", 94) + stated("ttft"), 30 * time.Minute, "p"},
		{"ServerMissesObjective", latency("sglang:time_to_first_token_seconds", 94) + stated("ttft"), 30 * time.Minute, "p"},
		{"ServerMissesObjective", latency("vllm:request_time_per_output_token_seconds", 94) + stated("tpot"), 30 * time.Minute, "p"},
		{"ServerMissesObjective", latency("vllm:time_to_first_token_seconds", 96) + stated("ttft"), 30 * time.Minute, ""},
		{"ServerMissesObjective", latency("vllm:time_to_first_token_seconds", 94) + stated("tpot"), 30 * time.Minute, ""},
		{"ServerMissesObjective", latency("vllm:time_to_first_token_seconds", 94), 30 * time.Minute, ""},
		{"GPUUnattributed", accountTime("unattributed", 30) + observed, time.Hour, "G"},
		{"GPUUnattributed", accountTime("unattributed", 1) + observed, time.Hour, ""},
		{"GPUDown", `cotenant_gpu_up{gpu="G",node="n",reason="lost"} 0x30`, 10 * time.Minute, "G"},
		{"GPUDown", up, 10 * time.Minute, ""},
		{"GPUStalled", `cotenant_gpu_stalled{gpu="G",node="n"} 1x60`, 30 * time.Minute, "G"},
		{"GPUStalled", `cotenant_gpu_stalled{gpu="G",node="n"} 1x10 0 1x49`, 18 * time.Minute, ""},
		{"GPUExporterAbsent", `cotenant_gpu_up{gpu="G",node="n",reason=""} 1x30 stale` + "\n" + `cotenant_gpu_up{gpu="H",node="m",reason=""} 1x180`, 90 * time.Minute, "n"},
		{"GPUExporterAbsent", `cotenant_gpu_up{gpu="G",reason=""} 1x30 stale` + "\n" + `up{job="cot"} 1x30 0x120`, 90 * time.Minute, "-"},
		{"GPUExporterAbsent", up, 90 * time.Minute, ""},
		{"GPUDevicesNotUnderstood", `cotenant_exporter_unknown_devices{node="n",form="gpu-vfio-N"} 2x60`, 30 * time.Minute, "n"},
		{"GPUDevicesNotUnderstood", `cotenant_exporter_unknown_devices{node="n",form="gpu-vfio-N"} 0x60`, 30 * time.Minute, ""},
		{"GPUExporterCannotStore", `cotenant_exporter_store_errors_total{node="n"} 0+3x60`, 30 * time.Minute, "n"},
		{"GPUExporterCannotStore", `cotenant_exporter_store_errors_total{node="n"} 3x60`, 30 * time.Minute, ""},
		{"GPUAccountsContradict", accountTime("idle", 50) + observed, time.Hour, "G"},
		{"GPUAccountsContradict", accountTime("idle", 60) + observed, time.Hour, ""},
	} {
		var input []map[string]string
		for line := range strings.Lines(c.series) {
			series, values, _ := strings.Cut(strings.TrimSpace(line), "} ")
			input = append(input, map[string]string{"series": series + "}", "values": values})
		}
		tests = append(tests, map[string]any{"interval": "1m", "name": fmt.Sprint(c.alert, " at ", c.at), "input_series": input,
			"promql_expr_test": []any{map[string]any{
				"expr": fmt.Sprintf(`count(ALERTS{alertname=%q,alertstate="firing"}) or vector(0)`, c.alert), "eval_time": fmt.Sprint(int(c.at.Minutes()), "m"),
				"exp_samples": []any{map[string]any{"labels": "{}", "value": len(strings.Fields(c.want))}}}}})
		if c.want != "" {
			tested[c.alert] |= 1
		} else {
			tested[c.alert] |= 2
		}
	}
	for _, g := range ruleGroups(t) {
		for _, r := range g.Rules {
			if r.Alert != "" && tested[r.Alert] != 3 {
				t.Errorf("%s is not tested firing and silent", r.Alert)
			}
		}
	}
	if missing != nil {
		t.Skip("every alert has cases; promtool is not on the PATH to run them")
	}
	rules, err := filepath.Abs("deploy/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	data, err := yaml.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tests.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
