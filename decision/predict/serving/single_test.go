package serving_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

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
	Rate                                       float64 // requests a second of an open loop, without clients
	Sequences, Chunk, KVBits                   int     // as the server was told; 0 = its defaults
	Memory                                     float64 // the part of the GPU's; 0 = 0.9
	Value                                      float64
}

// quantized are the quantizations of published checkpoints by the end of their names.
var quantized = []struct{ suffix, config string }{
	{"-FP8", `{"quant_method":"fp8"}`}, {"-AWQ", `{"quant_method":"awq","bits":4}`},
	{"-GPTQ-Int4", `{"quant_method":"gptq","bits":4}`}, {"-GPTQ-Int8", `{"quant_method":"gptq","bits":8}`},
}

// singleModel reads the shape of a model, quantized as its name says, from its config.json.
func singleModel(t *testing.T, name string) costs.Model {
	var configs map[string]map[string]any
	data, err := os.ReadFile("testdata/single-models.json")
	if err == nil {
		err = json.Unmarshal(data, &configs)
	}
	if err != nil {
		t.Fatal(err)
	}
	base, quantization := name, json.RawMessage(nil)
	for _, q := range quantized {
		if before, ok := strings.CutSuffix(name, q.suffix); ok {
			base, quantization = before, json.RawMessage(q.config)
		}
	}
	config := configs[base]
	if config == nil {
		t.Fatalf("%s is in no config", name)
	}
	if quantization != nil {
		config["quantization_config"] = quantization
	}
	data, err = json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	m, err := costs.ParseModelConfig(data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

// foreseeSingle predicts a published figure from the model's config.json and priors.
func foreseeSingle(t *testing.T, s *single) predicted {
	gpu, err := sharing.LookupGPU(s.GPU)
	if err != nil {
		t.Fatal(err)
	}
	memory, _ := gpu.Memory.Get()
	m := singleModel(t, s.Model)
	m.KVBits = s.KVBits
	e := costs.NewEngine(m.At(float64(s.Input)+float64(s.Output)/2), costs.MachineOf(gpu))
	if _, err := (costs.Scheduling{Engine: s.Engine, Sequences: s.Sequences, ChunkTokens: s.Chunk}).Schedule(&e, gpu, memory); err != nil {
		t.Fatal(err)
	}
	c := oneService(e, 1, sharing.Bytes(cmp.Or(s.Memory, 0.9)*float64(memory)))
	request := serving.Request{Input: s.Input, Output: s.Output}
	requests := func(yield func(serving.Request) bool) {
		for range s.Requests {
			if !yield(request) {
				return
			}
		}
	}
	load := fmt.Sprintf("%d x", s.Clients)
	var arrivals iter.Seq[serving.Request]
	if s.Rate > 0 {
		load = fmt.Sprintf("%g/s of", s.Rate)
		arrivals = func(yield func(serving.Request) bool) {
			rng, at := rand.New(rand.NewPCG(1, 1)), 0.0
			for range s.Requests {
				at += rng.ExpFloat64() / s.Rate
				request.At = time.Duration(1e9 * at)
				if !yield(request) {
					return
				}
			}
		}
	} else {
		c.Services[0].Clients = &serving.Clients{N: s.Clients, Requests: requests}
	}
	r, err := c.Foresee(t.Context(), arrivals)
	if err != nil {
		t.Fatalf("%s: %v", s.Model, err)
	}
	got := &r.Services[0]
	p := predicted{name: fmt.Sprintf("%s, %s, %s, %s %d/%d", s.Model, s.GPU, s.Engine, load, s.Input, s.Output), figure: s.Figure}
	tokens := got.Foreseen[profile.MetricTokensPerSecond]
	switch s.Figure {
	case "total tokens/s":
		p.around(got.TokensPerS.Or(0)*float64(s.Input+s.Output)/float64(s.Output), tokens)
	case "output tokens/s":
		p.around(got.TokensPerS.Or(0), tokens)
	case "requests/s":
		p.around(got.TokensPerS.Or(0)/float64(s.Output), tokens)
	case "TPOT mean, ms":
		p.around(got.TPOT.Mean.Or(0), got.Foreseen[profile.MetricTPOTP50])
	case "TPOT P50, ms":
		p.around(got.TPOT.P50.Or(0), got.Foreseen[profile.MetricTPOTP50])
	case "ITL mean, ms":
		p.around(got.ITL.Mean.Or(0), got.Foreseen[profile.MetricTPOTP50])
	case "ITL P50, ms":
		p.around(got.ITL.P50.Or(0), got.Foreseen[profile.MetricTPOTP50])
	case "E2E mean, ms":
		p.around(got.E2E.Mean.Or(0), got.Foreseen[profile.MetricE2EP50])
	default:
		t.Fatalf("%s is no figure", s.Figure)
	}
	return p
}

// compareSingles predicts the measurements of a file and holds what comes out, beside the figures where it has them,
// against a golden table.
func compareSingles(t *testing.T, file, table string) {
	race.Long(t)
	data, err := os.ReadFile(file)
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
		fmt.Fprintf(w, "%s\t%s\t%.4g\t%.4g to %.4g\t", p.name, p.figure, p.value, p.low, p.high)
		if s.Value == 0 {
			fmt.Fprintln(w, "\t\t")
			continue
		}
		verdict := ""
		n++
		sum += math.Abs(p.value/s.Value - 1)
		if s.Value < p.low || s.Value > p.high {
			verdict = "missed"
		} else {
			inside++
		}
		fmt.Fprintf(w, "%.4g\t%s\t%s\n", s.Value, p.off(s.Value), verdict)
	}
	_ = w.Flush() // into a buffer
	fmt.Fprintf(&out, "\n%d compared: mean error %.1f%%, %d inside the bounds (%.0f%%)\n", n, 100*sum/float64(max(n, 1)), inside, 100*float64(inside)/float64(max(n, 1)))
	golden.Check(t, table, out.Bytes())
}

// TestSingleGPU predicts the measurements of single servers that the constants of costs/kernels.go were read from: what
// the model makes of them, and no proof of it. REPORT-2026-11.md in decision/capacity says where they come from.
func TestSingleGPU(t *testing.T) {
	t.Parallel()
	compareSingles(t, "testdata/single.json", "testdata/golden/single.txt")
}

// TestHeldOut predicts measurements of sources that no constant was read from. Their inputs were taken by programs
// that left the figures out; the predictions were committed before the figures were read, and no constant changed
// after that.
func TestHeldOut(t *testing.T) {
	t.Parallel()
	compareSingles(t, "testdata/heldout.json", "testdata/golden/heldout.txt")
}
