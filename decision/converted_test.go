// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"strings"
	"testing"
)

// TestConvertedWeights: where a GPU has no arithmetic for the number format of a model's weights, the answer is
// provisional with that reason, and its interval includes the published figure.
func TestConvertedWeights(t *testing.T) {
	const (
		oss120 = "parameters: 116800000000, active_parameters: 5130000000, layers: 36, kv_heads: 8, head_dim: 64"
		oss20  = "parameters: 20900000000, active_parameters: 3610000000, layers: 24, kv_heads: 8, head_dim: 64"
		eight  = "parameters: 8030000000, layers: 32, kv_heads: 8, head_dim: 128"
		one    = "parameters: 1240000000, layers: 16, kv_heads: 8, head_dim: 64"
	)
	for _, c := range []struct {
		gpu, model, weights string
		says                string  // "" = decided
		published           float64 // ms a token of one client; 0 = none
	}{
		{"A100-SXM4-80GB", oss120, "fp4", "the fp4 weights of w, which an A100-SXM4-80GB has no arithmetic for", 11.2}, // vllm-project/vllm#22331
		{"A100-SXM4-80GB", oss20, "fp4", "has no arithmetic for", 0},
		{"H100-SXM5-80GB", oss120, "fp4", "which an H100 80GB HBM3 has no arithmetic for", 0},
		{"L40S", oss20, "fp4", "which an L40S has no arithmetic for", 0},
		{"B200", oss120, "fp4", "", 0},
		{"A100-SXM4-80GB", eight, "fp8", "the fp8 weights of w, which an A100-SXM4-80GB has no arithmetic for", 0},
		{"T4", eight, "fp8", "the fp8 weights of w, which a Tesla T4 has no arithmetic for", 0},
		{"L4", eight, "fp8", "", 0},
		{"H100-SXM5-80GB", eight, "fp8", "", 0},
		{"T4", one, "fp16", "", 0},
		{"A100-SXM4-80GB", eight, "bf16", "", 0},
		{"A100-SXM4-80GB", eight, "int4", "", 0},
	} {
		f, err := ParseFleet(fmt.Appendf(nil, "version: v1\npools: [{name: a, gpu: %s, count: 1}]\nworkloads:\n  - {name: w, kind: online-inference, "+
			"model: {%s, weights: %s}, load: {requests_per_s: 0.005, input_tokens: 100, output_tokens: 500, input_tokens_p99: 101, output_tokens_p99: 501}, "+
			"slo: {tpot_p99: 2s}, framework: {name: vllm}}\n", c.gpu, c.model, c.weights))
		if err != nil {
			t.Fatal(err)
		}
		d := decide(t, f).Decisions[0]
		at := fmt.Sprintf("%s in %s on %s", c.model, c.weights, c.gpu)
		if len(d.Consequences) != 1 {
			t.Errorf("%s: %+v", at, d.Why)
			continue
		}
		tpot, wide := d.Consequences[0], 4.0
		if c.says != "" {
			wide = 6
		}
		if c.says == "" {
			if d.Status != StatusDecided || len(d.Assumes) > 0 {
				t.Errorf("%s: %v, assumes %+v", at, d.Status, d.Assumes)
			}
		} else if d.Status != StatusProvisional || len(d.Assumes) != 1 || !strings.Contains(d.Assumes[0].What, c.says) || d.Measurement == nil {
			t.Errorf("%s: %v, assumes %+v, want %q", at, d.Status, d.Assumes, c.says)
		}
		if tpot.High/tpot.Low > wide || tpot.High > 5*tpot.Value || c.published > 0 && (tpot.Low > c.published || c.published > tpot.High) {
			t.Errorf("%s: %v to %v ms, published %v", at, tpot.Low, tpot.High, c.published)
		}
	}
	for _, gpu := range []string{"T4", "V100-SXM2-16GB", "GeForce RTX 2080 Ti"} {
		d := decideText(t, "pools: [{name: a, gpu: "+gpu+", count: 1}]\nworkloads: [{name: w, kind: online-inference, gpu_busy: 0.2, model: {"+one+", weights: bf16}}]").Decisions[0]
		if d.Placed > 0 || !strings.Contains(d.Why, "no bf16 arithmetic") {
			t.Errorf("bf16 on %s: %d placed: %s", gpu, d.Placed, d.Why)
		}
	}
	// Of a server without a stated load, too.
	f, err := ParseFleet([]byte("version: v1\npools: [{name: a, gpu: A100-SXM4-80GB, count: 1}]\nworkloads:\n  - {name: w, kind: online-inference, " +
		"gpu_busy: 0.2, model: {" + oss120 + ", weights: fp4}, slo: {tpot_p99: 1s}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	d := decide(t, f).Decisions[0]
	if n := len(d.Assumes); d.Status != StatusProvisional || n != 2 || !strings.Contains(d.Assumes[1].What, "the fp4 weights of w") {
		t.Errorf("%v, assumes %+v", d.Status, d.Assumes)
	}
}
