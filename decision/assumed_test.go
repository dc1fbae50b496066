// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// TestWhyNamesWhatIsAssumed: a figure that rests on an assumed latency alone says so.
func TestWhyNamesWhatIsAssumed(t *testing.T) {
	f := &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: "L40S", Count: 4}}, Workloads: []Workload{{Name: "w", Kind: KindOnlineInference, Replicas: Replicas{Max: 2}, Memory: gib8, GPUBusy: busy10,
		SLO: profile.SLO{E2EP99: sharing.Some(profile.Duration(1e9))}}}}
	if why := decide(t, f).Decision("w").Why; !strings.Contains(why, "of 1000, assumed to be 500 when isolated") {
		t.Error(why)
	}
	f.Workloads[0].Solo.E2EP99 = sharing.Some(profile.Duration(5e8))
	if why := decide(t, f).Decision("w").Why; strings.Contains(why, "assumed") {
		t.Error(why)
	}
}

// TestSizeTellsTheTokens: without load or isolated latencies, the bytes that a model reads, or its memory, bound its
// time per token, whatever its limit.
func TestSizeTellsTheTokens(t *testing.T) {
	for _, c := range []struct{ gpu, workload, want string }{
		{"H100 80GB HBM3", "model: {parameters: 8e9, weights: bf16}, slo: {tpot_p99: 200ms}", "is 5.9 to 17 ms, from 16 GB of weights and 3.35 TB/s"},
		{"H100 80GB HBM3", "model: {parameters: 8e9, weights: bf16}, slo: {tpot_p99: 20ms}", "is 5.9 to 17 ms, from 16 GB of weights and 3.35 TB/s"},
		{"H100 80GB HBM3", "gpus: 4, model: {parameters: 70e9, weights: bf16}, slo: {tpot_p99: 60ms}", "is 13 to 37 ms, from 140 GB of weights and 13.4 TB/s"},
		{"L4", "memory: 10GiB, slo: {tpot_p99: 200ms}", "is 4.5 to 89 ms, from up to 10.7 GB to read and 0.3 TB/s"},
		{"L4", "memory: 10GiB, slo: {tpot_p99: 100ms}", "isolated TPOT P99 of w is half of its limit"},
		{"H100 80GB HBM3", "memory: 10GiB, slo: {ttft_p99: 2s}", "isolated TTFT P99 of w is half of its limit"},
	} {
		f, err := ParseFleet([]byte("version: v1\npools: [{name: p, gpu: " + c.gpu + ", count: 4}]\nworkloads:\n  - {name: w, kind: online-inference, gpu_busy: 0.2, " + c.workload + "}\n"))
		if err != nil {
			t.Fatal(err)
		}
		d := decide(t, f).Decision("w")
		if len(d.Assumes) != 1 || !strings.Contains(d.Assumes[0].What, c.want) {
			t.Errorf("%s on %s: assumes %+v, want %s", c.workload, c.gpu, d.Assumes, c.want)
			continue
		}
		if prior := d.Assumes[0].Basis == sharing.BasisPrior; prior == strings.Contains(c.want, "half") {
			t.Errorf("%s: basis %v", c.workload, d.Assumes[0].Basis)
		}
	}
}

// TestMeanLengthsNearALimit: where only mean lengths are stated, an answer whose first token is near its limit, or whose
// time per token misses its limit with lengths as uneven as in traces, is provisional, in the same place as with stated
// lengths; one far from it is decided.
func TestMeanLengthsNearALimit(t *testing.T) {
	answer := func(limit, lengths string) *Decision {
		f, err := ParseFleet([]byte("version: v1\npools: [{name: p, gpu: L40S, count: 4, price_per_gpu_hour: 1.86 USD}]\nworkloads:\n" +
			"  - {name: w, kind: online-inference, model: {parameters: 8e9, weights: bf16}, load: {requests_per_s: 2, input_tokens: 1000, output_tokens: 200" +
			lengths + "}, slo: {" + limit + "}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return decide(t, f).Decision("w")
	}
	const stated = ", input_tokens_p99: 3000, output_tokens_p99: 600"
	for _, c := range [...]struct{ near, far string }{{"ttft_p99: 1500ms", "ttft_p99: 10s"}, {"tpot_p99: 101ms", "tpot_p99: 150ms"}} {
		near, same, far := answer(c.near, ""), answer(c.near, stated), answer(c.far, "")
		if near.Status != StatusProvisional || same.Status != StatusDecided || far.Status != StatusDecided {
			t.Errorf("%s: %v, %v with stated lengths; %v where %s: %s %v", c.near, near.Status, same.Status, far.Status, c.far, near.Why, near.Assumes)
		}
		if near.Pool != same.Pool || near.Mechanism != same.Mechanism || near.Placed != 1 {
			t.Errorf("%s: %s %v, with stated lengths %s %v", c.near, near.Pool, near.Mechanism, same.Pool, same.Mechanism)
		}
	}
}
