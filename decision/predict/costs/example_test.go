package costs_test

import (
	"fmt"
	"log"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// How many tokens of context fit a GPU, or a slice of it, beside a model's weights? Its config.json gives its shape.
func ExampleParseModelConfig() {
	m, err := costs.ParseModelConfig([]byte(`{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
		"num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
		"tie_word_embeddings": false}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2fe9 parameters, %v of weights, %v of KV cache a token\n", m.Parameters/1e9, m.Weights(), m.KVPerToken())
	gpu, err := sharing.LookupGPU("A100-SXM4-80GB")
	if err != nil {
		log.Fatal(err)
	}
	engine := costs.NewEngine(m, costs.MachineOf(gpu))
	for _, memory := range []sharing.Bytes{72 * sharing.GiB, 18 * sharing.GiB, 9 * sharing.GiB} {
		tokens, err := engine.KVTokens(memory)
		fmt.Println(memory, "of memory:", tokens, "tokens", err)
	}
	// Output:
	// 8.03e9 parameters, 14.96GiB of weights, 128KiB of KV cache a token
	// 72GiB of memory: 454992 tokens <nil>
	// 18GiB of memory: 12624 tokens <nil>
	// 9GiB of memory: 0 tokens predict: 9GiB of memory leave no KV cache beside 14.96GiB of weights, 0B of adapters and 1.5GiB of overhead
}

// An H100's 2g.20gb has 32 of the 132 SMs and a quarter of the memory's bandwidth: decoding slows down by nearly all of
// that, long prompts by less.
func ExampleEngine_On() {
	gpu, err := sharing.LookupGPU("H100-SXM5-80GB")
	if err != nil {
		log.Fatal(err)
	}
	whole := costs.NewEngine(costs.Model{Parameters: 8.03e9, Layers: 32, KVHeads: 8, HeadDim: 128}, costs.MachineOf(gpu))
	slice := whole.On(costs.Share{Mechanism: sharing.MechanismMIG, SMs: 32.0 / 132, Bandwidth: 2.0 / 8})
	fmt.Printf("a step: %.1f ms, on 2g.20gb %.1f ms\n", whole.Step.Value, slice.Step.Value)
	fmt.Printf("1000 tokens of a prompt: %.1f ms, on 2g.20gb %.1f ms (%v)\n", whole.PrefillToken.Value, slice.PrefillToken.Value, slice.PrefillToken.Basis)
	// Output:
	// a step: 7.6 ms, on 2g.20gb 27.7 ms
	// 1000 tokens of a prompt: 35.3 ms, on 2g.20gb 136.8 ms (prior)
}

// No server is faster than its weights can be read and its prompts multiplied: what an objective may ask of a GPU.
func ExampleMachine_Floor() {
	m := costs.Model{Parameters: 8.03e9, Layers: 32, KVHeads: 8, HeadDim: 128}
	work := costs.Least{Weights: float64(m.Weights()), Prompt: 2 * m.Parameters * 1500, Output: 200}
	for _, name := range []string{"L4", "A100-SXM4-80GB", "H200"} {
		gpu, err := sharing.LookupGPU(name)
		if err != nil {
			log.Fatal(err)
		}
		s := costs.MachineOf(gpu).Floor(costs.Share{Mechanism: sharing.MechanismExclusive, SMs: 1, Bandwidth: 1}, work)
		fmt.Printf("%s: %.0f ms to the first token, then %.1f ms each\n", name, 1e3*s[costs.LatencyTTFT], 1e3*s[costs.LatencyTPOT])
	}
	// Output:
	// L4: 153 ms to the first token, then 53.5 ms each
	// A100-SXM4-80GB: 67 ms to the first token, then 7.9 ms each
	// H200: 21 ms to the first token, then 3.3 ms each
}

// A constant says in which unit it is, how uncertain, and who found it how.
func ExampleNamed() {
	c := costs.Named("decode_efficiency")
	fmt.Println(c.Value, c.Unit)
	fmt.Printf("%.2f to %.2f in 90%% of cases, %v by %v\n", c.Shifted(profile.Z90), c.Shifted(-profile.Z90), c.Basis, c.Source)
	// Output:
	// 0.77 fraction of the peak bandwidth that a decode step reaches
	// 0.63 to 0.94 in 90% of cases, fitted by cotenant-h200-colocation
}

// The parameters of a GPU are found by name, as a probe replaces them by what it measured.
func ExampleParameters_Lookup() {
	h200 := costs.H200()
	quantum := h200.Parameters.Lookup("quantum")
	fmt.Println("a turn of", quantum.Value, quantum.Unit, quantum.Basis, quantum.Source)
	fmt.Printf("10 ms of work take %.1f turns beside others\n", h200.Parameters.TurnsFor(10, 0))
	quantum.Value = 2 * quantum.Value
	fmt.Printf("with turns twice as long: %.1f\n", h200.Parameters.TurnsFor(10, 0))
	// Output:
	// a turn of 2.0906 ms measured cotenant-h200-quantum
	// 10 ms of work take 5.0 turns beside others
	// with turns twice as long: 3.0
}
