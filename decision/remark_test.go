// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/fleet"

	"github.com/google/go-cmp/cmp"
)

// TestOddPricesAreRemarkedOn: an implausible price is used as stated and named, with its pool and the consequence.
func TestOddPricesAreRemarkedOn(t *testing.T) {
	for _, c := range []struct {
		prices string
		want   []string
	}{
		{`price_per_gpu_hour: "3.50 USD", spot: {price_per_gpu_hour: "1.20 USD"}, reserved: {count: 1, price_per_gpu_hour: "2 USD"}`, nil},
		{`price_per_gpu_hour: "3.50 USD", spot: {price_per_gpu_hour: "5 USD"}`, []string{"spot costs 5 USD, no less than on demand: nothing is bought as spot"}},
		{`price_per_gpu_hour: "3.50 USD", spot: {price_per_gpu_hour: "3.50 USD"}`, []string{"nothing is bought as spot"}},
		{`price_per_gpu_hour: "3.50 USD", spot: {price_per_gpu_hour: "0 USD"}`, []string{"spot GPUs cost nothing"}},
		{`price_per_gpu_hour: "3.50 USD", reserved: {price_per_gpu_hour: "4 USD"}`, []string{"reserved GPUs cost 4 USD"}},
		{`price_per_gpu_hour: "0 USD"`, []string{"its GPUs cost nothing"}},
		{`node_price_per_hour: "24000 USD", gpus_per_node: 8`, []string{"3,000 USD for an hour of a GPU"}},
		{`node_price_per_hour: "12 USD", gpus_per_node: 3`, []string{"its GPUs (8) are no whole nodes of 3 (gpus_per_node): the last node is paid for whole"}},
		{`price_per_gpu_hour: "500 JPY"`, nil},
		{`spot: {price_per_gpu_hour: "1 USD"}`, []string{"has a spot price and none on demand"}},
	} {
		f, err := ParseFleet([]byte("version: v1\npools: [{name: p, gpu: L40S, count: 8, " + c.prices + "}]\nworkloads: [{name: w, kind: batch, memory: 8GiB, gpu_busy: 0.3, spot: true}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		r := decide(t, f)
		if len(r.Remarks) != len(c.want) {
			t.Errorf("%s: %s", c.prices, cmp.Diff(c.want, r.Remarks))
			continue
		}
		text := strings.Join(strings.Fields(strings.Join(textOf(t, r, TextOptions{}), " ")), " ")
		for i, want := range c.want {
			if !strings.Contains(r.Remarks[i], want) || !strings.Contains(text, "remark: "+r.Remarks[i]) {
				t.Errorf("%s: %q, want %q, in\n%s", c.prices, r.Remarks[i], want, text)
			}
		}
	}
}

// TestOneGPU: reasons read well of pools with a single GPU.
func TestOneGPU(t *testing.T) {
	f, err := ParseFleet([]byte("version: v1\npools: [{name: p, gpu: L40S, count: 1}]\nworkloads: [{name: w, kind: training, gpus: 4}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if why, want := decide(t, f).Decisions[0].Why, "a replica needs 4 GPUs together, of which there are 1"; !strings.Contains(why, want) {
		t.Errorf("%q does not say %q", why, want)
	}
}

// TestConfigRemarks: unexpected and unknown parts of a model's config.json are remarked on once.
func TestConfigRemarks(t *testing.T) {
	const config = `{"model_type":"llama","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,` +
		`"intermediate_size":14336,"vocab_size":128256,"quantization_config":{"quant_method":"fp8","ignored_layers":["re:(?!lm_head)"],` +
		`"kv_cache_scheme":{"num_bits":8,"type":"float"}}}`
	f, err := fleet.ParseFleet([]byte("version: v1\npools: [{name: p, gpu: L40S, count: 2}]\nworkloads:\n"+
		"  - {name: a, kind: online-inference, gpu_busy: 0.3, model: {config: m.json}}\n"+
		"  - {name: b, kind: online-inference, gpu_busy: 0.3, model: {config: m.json}}\n"), func(string) ([]byte, error) { return []byte(config), nil })
	if err != nil {
		t.Fatal(err)
	}
	r := decide(t, f)
	text := strings.Join(strings.Fields(strings.Join(textOf(t, r, TextOptions{}), " ")), " ")
	if len(r.Remarks) != 2 || !strings.Contains(r.Remarks[0], "m.json: a KV cache in fp8 was counted, as kv_cache_scheme asks") ||
		!strings.Contains(r.Remarks[1], `m.json: quantization_config: the pattern "re:(?!lm_head)" is not understood`) || !strings.Contains(text, "remark: "+r.Remarks[1]) {
		t.Errorf("%q in\n%s", r.Remarks, text)
	}
}
