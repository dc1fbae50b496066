package serving_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// single is a measurement of one server on one GPU that somebody published: the model, the engine with its defaults,
// a closed loop of clients, and the figure.
type single struct {
	Model, GPU, Engine, Figure, Source, Reason string
	Clients, Requests, Input, Output           int
	Value                                      float64
	Learning                                   bool // not counted
}

// publishedConfigs are the fields of published config.json files that a shape follows from.
var publishedConfigs = map[string]string{
	"Llama-3.1-8B":   `{"model_type":"llama","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":128256,"tie_word_embeddings":false}`,
	"Qwen3-30B-A3B":  `{"model_type":"qwen3_moe","num_hidden_layers":48,"hidden_size":2048,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,"intermediate_size":6144,"moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,"mlp_only_layers":[],"vocab_size":151936,"tie_word_embeddings":false}`,
	"Qwen3-0.6B":     `{"model_type":"qwen3","num_hidden_layers":28,"hidden_size":1024,"num_attention_heads":16,"num_key_value_heads":8,"head_dim":128,"intermediate_size":3072,"vocab_size":151936,"tie_word_embeddings":true}`,
	"Qwen3-0.6B-FP8": `{"model_type":"qwen3","num_hidden_layers":28,"hidden_size":1024,"num_attention_heads":16,"num_key_value_heads":8,"head_dim":128,"intermediate_size":3072,"vocab_size":151936,"tie_word_embeddings":true,"quantization_config":{"quant_method":"fp8"}}`,
	"Qwen3-8B":       `{"model_type":"qwen3","num_hidden_layers":36,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"intermediate_size":12288,"vocab_size":151936,"tie_word_embeddings":false}`,
	"Qwen3-14B":      `{"model_type":"qwen3","num_hidden_layers":40,"hidden_size":5120,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,"intermediate_size":17408,"vocab_size":151936,"tie_word_embeddings":false}`,
	"Qwen3-32B":      `{"model_type":"qwen3","num_hidden_layers":64,"hidden_size":5120,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":128,"intermediate_size":25600,"vocab_size":151936,"tie_word_embeddings":false}`,
}

// foreseeSingle predicts a published figure from the model's config.json and priors.
func foreseeSingle(t *testing.T, s *single) predicted {
	m, err := costs.ParseModelConfig([]byte(publishedConfigs[s.Model]))
	if err != nil {
		t.Fatalf("%s: %v", s.Model, err)
	}
	gpu, err := sharing.LookupGPU(s.GPU)
	if err != nil {
		t.Fatal(err)
	}
	memory, _ := gpu.Memory.Get()
	e := costs.NewEngine(m.At(float64(s.Input)+float64(s.Output)/2), costs.MachineOf(gpu))
	if _, err := (costs.Scheduling{Engine: s.Engine}).Schedule(&e, gpu, memory); err != nil {
		t.Fatal(err)
	}
	c := oneService(e, 1, memory*9/10)
	c.Services[0].Clients = &serving.Clients{N: s.Clients, Requests: func(yield func(serving.Request) bool) {
		for range s.Requests {
			if !yield(serving.Request{Input: s.Input, Output: s.Output}) {
				return
			}
		}
	}}
	r, err := c.Foresee(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := &r.Services[0]
	p := predicted{name: fmt.Sprintf("%s, %s, %s, %d x %d/%d", s.Model, s.GPU, s.Engine, s.Clients, s.Input, s.Output), figure: s.Figure}
	switch s.Figure {
	case "total tokens/s":
		p.around(got.TokensPerS.Or(0)*float64(s.Input+s.Output)/float64(s.Output), got.Foreseen[profile.MetricTokensPerSecond])
	case "output tokens/s":
		p.around(got.TokensPerS.Or(0), got.Foreseen[profile.MetricTokensPerSecond])
	case "TPOT mean, ms":
		p.around(got.TPOT.Mean.Or(0), got.Foreseen[profile.MetricTPOTP50])
	case "ITL mean, ms":
		p.around(got.ITL.Mean.Or(0), got.Foreseen[profile.MetricTPOTP50])
	case "E2E mean, ms":
		p.around(got.E2E.Mean.Or(0), got.Foreseen[profile.MetricE2EP50])
	default:
		t.Fatalf("%s is no figure", s.Figure)
	}
	return p
}

// TestSingleGPU predicts measurements of single servers that others published, from their models' config.json, the
// GPU's row and the engine's defaults: nothing is fitted to any of them. The golden table has each beside its
// published figure; REPORT-2026-11.md in decision/capacity says where they come from and why some miss.
func TestSingleGPU(t *testing.T) {
	t.Parallel()
	race.Long(t)
	data, err := os.ReadFile("testdata/single.json")
	var all []single
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "model, GPU, engine, clients x in/out\tfigure\tpredicted\t90% bounds\tpublished\toff\t")
	n, inside, sum := 0, 0, 0.0
	for i := range all {
		s := &all[i]
		p := foreseeSingle(t, s)
		verdict := ""
		if s.Value < p.low || s.Value > p.high {
			verdict = "missed"
		}
		if s.Learning {
			verdict += " (not counted)"
		} else {
			n++
			sum += math.Abs(p.value/s.Value - 1)
			if verdict == "" {
				inside++
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%.4g\t%.4g to %.4g\t%.4g\t%s\t%s\n", p.name, p.figure, p.value, p.low, p.high, s.Value, p.off(s.Value), verdict)
	}
	_ = w.Flush() // into a buffer
	fmt.Fprintf(&out, "\n%d counted: mean error %.1f%%, %d inside the bounds (%.0f%%)\n", n, 100*sum/float64(n), inside, 100*float64(inside)/float64(n))
	golden.Check(t, "testdata/golden/single.txt", out.Bytes())
}
