// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

const sample = `
version: v1
pools:
  - {name: prod, gpu: A100-SXM4-80GB, count: 4, price_per_gpu_hour: "3.25 USD", driver: "580.65.06", gpus_per_node: 4, layouts: []}
workloads:
  - name: chat
    kind: online-inference
    replicas: 4
    gpus: 1
    memory: 18GiB
    gpu_busy: 0.25
    framework: {name: vllm, memory_fraction: 0.9, cuda_graphs: true, processes: 1, privileged: false}
    slo: {ttft_p99: 500ms, tpot_p99: 60ms, e2e_p99: 2s}
    tenant: search
    isolation: {memory: hardware, fault: hardware}
    pool: prod
`

func TestParseFleet(t *testing.T) {
	f, err := ParseFleet([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	want := Workload{Name: "chat", Kind: KindOnlineInference, Replicas: Replicas{Max: 4}, GPUs: 1, Memory: sharing.Some(18 * sharing.GiB), GPUBusy: sharing.Some(0.25),
		Framework: &fleet.Framework{Name: "vllm", MemoryFraction: sharing.Some(0.9), CUDAGraphs: sharing.Some(true), Processes: 1},
		SLO:       profile.SLO{TTFTP99: sharing.Some(profile.Duration(500e6)), TPOTP99: sharing.Some(profile.Duration(60e6)), E2EP99: sharing.Some(profile.Duration(2e9))},
		Tenant:    "search", Isolation: hard, Pool: "prod"}
	if diff := cmp.Diff(want, f.Workloads[0]); diff != "" {
		t.Errorf("workload (-want +got):\n%s", diff)
	}
	if p := f.Pools[0]; p.Driver != (sharing.Driver{Major: 580, Minor: 65, Patch: 6}) || p.PricePerGPUHour.Or(cost.Money{}).Decimal() != "3.25" {
		t.Errorf("pool %+v", p)
	}
}

func TestParametersAreOneNumber(t *testing.T) {
	var results []int64
	for _, n := range []string{"8e9", "8000000000.0", "8000000000", "8_000_000_000"} {
		f, err := ParseFleet([]byte(strings.Replace(sample, "memory: 18GiB", "model: {parameters: "+n+", weights: fp16, kv_cache: 2GiB}", 1)))
		if err != nil {
			t.Errorf("%s: %v", n, err)
			continue
		}
		results = append(results, f.Workloads[0].Model.Parameters)
	}
	if diff := cmp.Diff([]int64{8e9, 8e9, 8e9, 8e9}, results); diff != "" {
		t.Error(diff)
	}
}

// What a notebook or a batch asks for may be limited end to end.
func TestLatencyOfWhatServesNoTokens(t *testing.T) {
	for _, kind := range []string{"batch", "notebook", "hpc", "ci"} {
		text := strings.NewReplacer("kind: online-inference", "kind: "+kind, "ttft_p99: 500ms, tpot_p99: 60ms, ", "").Replace(sample)
		if f, err := ParseFleet([]byte(text)); err != nil || f.Workloads[0].SLO.E2EP99.IsZero() {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		want           []string
	}{
		{"unknown key", "gpu_busy: 0.25", "gpu_bsy: 0.25", []string{`workloads[0].gpu_bsy: unknown key (did you mean "gpu_busy"?)`}},
		{"negative", "replicas: 4", "replicas: -4", []string{"workloads[0].replicas: -4 is out of range"}},
		{"no replicas", "replicas: 4", "replicas: 0", []string{"workloads[0].replicas: must not be 0 (leave the key out for the default)"}},
		{"absurd", "gpu_busy: 0.25", "gpu_busy: 25", []string{"workloads[0].gpu_busy: 25 is out of range (use a share between 0 and 1"}},
		{"absurd memory", "memory: 18GiB", "memory: 18000TiB", []string{"workloads[0].memory: "}},
		{"no unit", "memory: 18GiB", `memory: "18"`, []string{"workloads[0].memory: ", "add a unit"}},
		{"no such GPU", "A100-SXM4-80GB", "A100-SXM5-80GB", []string{"pools[0].gpu: ", "A100-SXM4-80GB"}},
		{"ambiguous GPU", "gpu: A100-SXM4-80GB", "gpu: A100", []string{"pools[0].gpu: ", "A100-SXM4-40GB", "A100-SXM4-80GB"}},
		{"bad duration", "ttft_p99: 500ms", "ttft_p99: -5ms", []string{"workloads[0].slo.ttft_p99: "}},
		{"no duration", "ttft_p99: 500ms", "ttft_p99: soon", []string{"workloads[0].slo.ttft_p99: ", "write for example 500ms"}},
		{"contradiction", "memory: 18GiB", "memory: 18GiB\n    model: {parameters: 8e9, weights: fp16}", []string{"workloads[0].model: contradicts memory"}},
		{"contradicting SLO", "e2e_p99: 2s", "e2e_p99: 100ms", []string{"workloads[0].slo.e2e_p99: 100ms is below ttft_p99 500ms"}},
		{"contradicting percentiles", "tpot_p99: 60ms", "tpot_p50: 70ms, tpot_p99: 60ms", []string{"workloads[0].slo.tpot_p99: 60ms is below tpot_p50 70ms"}},
		{"latencies of what serves nobody", "kind: online-inference", "kind: training", []string{"workloads[0].slo: states latencies that kind training does not have (leave it out, or write kind: online-inference)"}},
		{"of a notebook measured alone", "kind: online-inference", "kind: notebook\n    solo: {tpot_p99: 9ms}", []string{"workloads[0].solo: states latencies that kind notebook does not have"}},
		{"a median of tokens", "kind: online-inference", "kind: notebook\n    solo: {tpot_p50: 9ms}", []string{"workloads[0].solo: states latencies that kind notebook does not have"}},
		{"a job that cannot be", "kind: online-inference", "kind: online-inference\n    job: {duration: 0h, on: H900, deadline: -2h}", []string{
			"workloads[0].job: states an end that kind online-inference does not have (leave it out, or write kind: batch)",
			"workloads[0].job: contradicts the requests of a server", "workloads[0].job.duration: 0s is out of range (write the time of the whole work, for example 40h)",
			"workloads[0].job.deadline: -2h0m0s is out of range", "workloads[0].job.on: "}},
		{"a job without an end", "kind: online-inference", "kind: batch\n    job: {duration: 4h}", []string{"workloads[0].job.deadline: is missing"}},
		{"parameters in billions", "memory: 18GiB", "model: {parameters: 8, weights: fp16}", []string{"workloads[0].model.parameters: 8 is out of range (write the number of parameters, for example 8e9)"}},
		{"no such pool", "pool: prod", "pool: prd", []string{`workloads[0].pool: there is no pool "prd" (did you mean "prod"?)`}},
		{"unknown kind", "online-inference", "online", []string{`workloads[0].kind: sharing: unknown name: kind "online"`}},
		{"unknown level", "fault: hardware", "fault: total", []string{"workloads[0].isolation.fault: "}},
		{"own tenant", "tenant: search", "tenant: search\n    trust: [search]", []string{"workloads[0].trust[0]: names the workload's own tenant"}},
		{"bad layout", "layouts: []", `layouts: ["3g.40gb@1", "9g.99gb@0"]`, []string{"pools[0].layouts[0]", "pools[0].layouts[1]"}},
		{"two memory sizes", "gpu: A100-SXM4-80GB", `gpu: {name: A100-SXM4-80GB, memory: 40GiB, bandwidth: 1555, sms: 108, compute: "8.0"}`,
			[]string{"pools[0].gpu: states 40GiB of memory, and one A100-SXM4-80GB has 80GiB"}},
		{"both prices", "gpus_per_node: 4", `gpus_per_node: 4, node_price_per_hour: "13.00 USD"`, []string{"pools[0].node_price_per_hour: contradicts price_per_gpu_hour"}},
		{"price without currency", `"3.25 USD"`, `"3.25"`, []string{"pools[0].price_per_gpu_hour: "}},
		{"driver", `"580.65.06"`, `"new"`, []string{"pools[0].driver: "}},
		{"many at once", "replicas: 4\n    gpus: 1\n    memory: 18GiB\n    gpu_busy: 0.25", "replicas: -1\n    gpus: 0x\n    memory: 18\n    gpu_busy: -1",
			[]string{"workloads[0].replicas", "workloads[0].gpus", "workloads[0].memory", "workloads[0].gpu_busy"}},
		{"version", "version: v1", "version: v2", []string{"version: must be v1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := strings.Replace(sample, c.from, c.to, 1)
			if in == sample {
				t.Fatal("the replacement does nothing")
			}
			f, err := ParseFleet([]byte(in))
			if err == nil {
				t.Fatalf("taken: %+v", f)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error lacks %q:\n%v", w, err)
				}
			}
		})
	}
	duplicate := sample + sample[strings.Index(sample, "  - name: chat"):]
	for in, want := range map[string]string{
		"": "the document is empty", "version: v1\n": "pools: is missing", "\xff\xfe": "invalid UTF-8",
		"version: v1\npools: []\nworkloads: []\n": "pools: is empty", duplicate: `duplicate workload name "chat"`,
	} {
		if _, err := ParseFleet([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %q", in, err, want)
		}
	}
	if _, err := ParseFleet(bytes.Repeat([]byte("#"), 17<<20)); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("100 MB: %v", err)
	}
}

func TestEnumTexts(t *testing.T) {
	var got Kind
	if err := got.UnmarshalText([]byte("ci")); err != nil || got != "ci" {
		t.Errorf("%s, %v", got, err)
	}
	if err := new(Kind).UnmarshalText([]byte("unknown")); err == nil {
		t.Error("kind unknown can be written")
	}
}

func FuzzParseFleet(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("version: v1\npools: [{name: a, gpu: T4, count: 1}]\nworkloads: [{name: w, kind: batch, memory: 1GiB}]"))
	f.Add([]byte(`{"version":"v1","pools":[],"workloads":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		fleet, err := ParseFleet(data)
		if (fleet == nil) == (err == nil) {
			t.Fatalf("fleet %v and error %v", fleet, err)
		}
		if err != nil {
			return
		}
		replicas := 0
		for _, w := range fleet.Workloads {
			replicas += w.ReplicaCount() * w.GPUCount()
		}
		if replicas > 10_000 {
			return
		}
		if _, err := Decide(t.Context(), fleet, Options{}); err != nil {
			t.Errorf("a fleet that was read cannot be decided: %v", err)
		}
	})
}

// TestErrorsAreBounded: a file with 20,000 unknown keys gets an error of a screen or two, which counts the rest.
func TestErrorsAreBounded(t *testing.T) {
	var file, row strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&file, "bad%d: 1\n", i)
		fmt.Fprintf(&row, `"bad%d": 1, `, i)
	}
	_, inFleet := ParseFleet([]byte("version: v1\n" + file.String()))
	_, inRows := profile.ParseRows([]byte(`[{` + row.String() + `"name": "a"}]`))
	for door, err := range map[string]error{"fleet": inFleet, "rows": inRows} {
		if text := fmt.Sprint(err); len(text) > 40_000 || !strings.Contains(text, "bad0") || !strings.Contains(text, " more problems") {
			t.Errorf("%s: an error of %d bytes: %.300s", door, len(text), text)
		}
	}
}
