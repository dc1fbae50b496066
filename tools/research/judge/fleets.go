// SPDX-License-Identifier: Apache-2.0

package judge

import (
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

//go:embed fleets.yaml
var fleetsYAML []byte

type gpuChoice struct {
	GPU    string  `yaml:"gpu"`
	Price  float64 `yaml:"price"`
	Weight float64 `yaml:"weight"`
}

type modelChoice struct {
	Name       string  `yaml:"name"`
	Parameters float64 `yaml:"parameters"`
	Layers     int     `yaml:"layers"`
	KVHeads    int     `yaml:"kv_heads"`
	HeadDim    int     `yaml:"head_dim"`
	Weight     float64 `yaml:"weight"`
}

type lengthChoice struct {
	Input  int     `yaml:"input"`
	Output int     `yaml:"output"`
	Weight float64 `yaml:"weight"`
}

// distributions are those of the fleets.
type distributions struct {
	GPUs    []gpuChoice        `yaml:"gpus"`
	Models  []modelChoice      `yaml:"models"`
	Kinds   map[string]float64 `yaml:"kinds"`
	Lengths []lengthChoice     `yaml:"lengths"`
}

// pick draws one of a weighted list.
func pick[T any](rng *rand.Rand, list []T, weight func(T) float64) T {
	total := 0.0
	for _, v := range list {
		total += weight(v)
	}
	at := rng.Float64() * total
	for _, v := range list {
		if at -= weight(v); at < 0 {
			return v
		}
	}
	return list[len(list)-1]
}

// scene holds a fleet as it is, and as its users describe it.
type scene struct {
	full, shown *decision.Fleet
	stated      []bool // by workload: nothing that decides was left out
	gpus        []*sharing.GPU
	prices      []float64        // by pool, a GPU-hour
	profiles    [][]*mig.Profile // by pool, smallest first; none without MIG
}

// logBetween draws between low and high, even on a logarithmic scale.
func logBetween(rng *rand.Rand, low, high float64) float64 {
	return low * math.Exp(rng.Float64()*math.Log(high/low))
}

func milliseconds(v float64) sharing.Optional[profile.Duration] {
	return sharing.Some(profile.Duration(time.Duration(math.Round(v*1e3)) * time.Microsecond))
}

// scene makes one fleet.
func (d *distributions) scene(rng *rand.Rand) (*scene, error) {
	s := &scene{full: &decision.Fleet{Version: "v1"}}
	if rng.IntN(2) == 0 {
		s.full.Trust = "all"
	}
	n, most := 1+rng.IntN(4), 12
	if rng.IntN(10) < 3 {
		n, most = 5+rng.IntN(4), 30
	}
	pools := 1 + rng.IntN(2)
	for p := range pools {
		c := pick(rng, d.GPUs, func(g gpuChoice) float64 { return g.Weight })
		g, err := sharing.LookupGPU(c.GPU)
		if err != nil {
			return nil, err
		}
		price, err := cost.FromMicros(int64(c.Price*1e6), "USD")
		if err != nil {
			return nil, err
		}
		s.gpus, s.prices, s.profiles = append(s.gpus, g), append(s.prices, c.Price), append(s.profiles, profilesOf(g))
		s.full.Pools = append(s.full.Pools, decision.Pool{Name: fmt.Sprintf("pool%d", p+1), GPU: c.GPU, Count: 40,
			PricePerGPUHour: sharing.Some(price),
			Mechanisms: []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS,
				sharing.MechanismMIG}})
	}
	left := most
	for i := range n {
		w := d.workload(rng, i, s.gpus)
		w.Replicas.Max = min(w.Replicas.Max, max(1, left-(n-1-i)))
		left -= w.Replicas.Max
		s.full.Workloads = append(s.full.Workloads, w)
	}
	if err := s.full.Validate(); err != nil {
		return nil, err
	}
	s.hide(rng)
	return s, s.shown.Validate()
}

func (d *distributions) workload(rng *rand.Rand, i int, gpus []*sharing.GPU) decision.Workload {
	kinds := []string{"llm", "vision", "notebook", "training", "batch"}
	kind := pick(rng, kinds, func(k string) float64 { return d.Kinds[k] })
	w := decision.Workload{Name: fmt.Sprintf("%s%d", kind, i+1), Replicas: decision.Replicas{Max: 1 + rng.IntN(4)}}
	if rng.IntN(10) < 3 {
		w.Tenant = string(rune('a' + rng.IntN(3)))
	}
	gib := func(v float64) sharing.Optional[sharing.Bytes] {
		return sharing.Some(sharing.Bytes(v * float64(sharing.GiB)))
	}
	largest := 0.0
	for _, g := range gpus {
		largest = max(largest, float64(g.Memory.Value)/float64(sharing.GiB))
	}
	switch kind {
	case "llm":
		w.Kind = decision.KindOnlineInference
		d.server(rng, &w, gpus)
		if rng.IntN(6) == 0 {
			w.Isolation = fleet.Isolation{Memory: sharing.LevelHardware, Fault: sharing.LevelHardware}
		}
	case "vision":
		w.Kind = decision.KindOnlineInference
		w.Memory = gib(math.Round(logBetween(rng, 1, 8)*4) / 4)
		busy := math.Round(logBetween(rng, 0.03, 0.5)*100) / 100
		service := logBetween(rng, 0.008, 0.2)
		alone := service * unitP99(busy, 1.25)
		w.GPUBusy, w.Evidence = sharing.Some(busy), "measured"
		w.Solo.E2EP99 = milliseconds(alone * 1e3)
		w.SLO.E2EP99 = milliseconds(alone * 1e3 * logBetween(rng, 1.4, 8))
		if rng.IntN(6) == 0 {
			w.Isolation = fleet.Isolation{Memory: sharing.LevelHardware, Fault: sharing.LevelHardware}
		}
	case "notebook":
		w.Kind = decision.KindNotebook
		w.Replicas.Max = 1 + rng.IntN(6)
		w.Memory = gib(math.Round(logBetween(rng, 2, min(20, largest*0.6))))
		w.GPUBusy = sharing.Some(math.Round(logBetween(rng, 0.01, 0.2)*100) / 100)
	case "training":
		w.Kind = decision.KindTraining
		w.Memory = gib(math.Round(logBetween(rng, 4, largest*0.85)))
		w.GPUBusy = sharing.Some(math.Round((0.5+0.45*rng.Float64())*100) / 100)
	case "batch":
		w.Kind = decision.KindBatch
		w.Memory = gib(math.Round(logBetween(rng, 2, min(24, largest*0.8))))
		w.GPUBusy = sharing.Some(math.Round(logBetween(rng, 0.05, 0.7)*100) / 100)
	}
	if w.Load == nil { // measured on the first pool's GPU, as its users state
		w.BusyOn = gpus[0].Name
	}
	if w.Solo != (profile.SLO{}) {
		w.SoloOn = gpus[0].Name
	}
	return w
}

// server draws a language model's server whose objectives the best GPU keeps with some
// room, as they would be chosen there.
func (d *distributions) server(rng *rand.Rand, w *decision.Workload, gpus []*sharing.GPU) {
	var best *sharing.GPU
	for _, g := range gpus {
		if best == nil || g.MemoryBandwidthGBps.Value > best.MemoryBandwidthGBps.Value {
			best = g
		}
	}
	fits := func(m modelChoice) bool { return 2*m.Parameters < 0.6*float64(best.Memory.Value) }
	m := pick(rng, d.Models, func(m modelChoice) float64 {
		if !fits(m) {
			return 0
		}
		return m.Weight
	})
	l := pick(rng, d.Lengths, func(l lengthChoice) float64 { return l.Weight })
	w.Model = &fleet.LanguageModel{Parameters: int64(m.Parameters), Weights: "fp16",
		Layers: sharing.Some(m.Layers), KVHeads: sharing.Some(m.KVHeads), HeadDim: sharing.Some(m.HeadDim)}
	step := 2*m.Parameters/(best.MemoryBandwidthGBps.Value*1e9*0.75) + 0.00007*float64(m.Layers)
	prefill := max(0.0005*float64(m.Layers), 2*m.Parameters*float64(l.Input)/(predict.MachineOf(best).FLOPs*0.45))
	// A server is busy for a prefill and some of its steps of each request.
	most := 0.6 / (prefill + step*float64(l.Output)/8)
	each := math.Max(0.05, math.Round(logBetween(rng, 0.05, 0.8)*most*100)/100)
	w.Load = &fleet.Traffic{RequestsPerS: each * float64(w.Replicas.Max), InputTokens: sharing.Some(l.Input),
		OutputTokens: sharing.Some(l.Output)}
	w.SLO.TPOTP99 = milliseconds(roundTo(1e3*step*logBetween(rng, 2.5, 12), 5))
	w.SLO.TTFTP99 = milliseconds(roundTo(1e3*prefill*logBetween(rng, 10, 60), 50))
}

func roundTo(v, step float64) float64 { return max(step, math.Round(v/step)*step) }

// hide derives the fleet that users state: one workload in seven lacks a figure.
func (s *scene) hide(rng *rand.Rand) {
	shown := *s.full
	shown.Workloads = append([]decision.Workload(nil), s.full.Workloads...)
	for i := range shown.Workloads {
		w := &shown.Workloads[i]
		s.stated = append(s.stated, true)
		if rng.IntN(7) != 0 {
			continue
		}
		s.stated[i] = false
		switch {
		case w.Load != nil:
			w.Load = nil
		case w.Solo != (profile.SLO{}) && rng.IntN(2) == 0:
			w.Solo, w.SoloOn = profile.SLO{}, ""
		default:
			w.GPUBusy, w.BusyOn = sharing.Optional[float64]{}, ""
		}
	}
	s.shown = &shown
}

// stateLengths lets every other model server's users state how far lengths spread, as its own histograms have them.
func (s *scene) stateLengths(rng *rand.Rand, lengths spread) {
	for i := range s.full.Workloads {
		l := s.full.Workloads[i].Load
		if sigma, stated := lengths.draw(rng), rng.IntN(2) == 0; l != nil && stated {
			p99 := func(mean sharing.Optional[int]) sharing.Optional[int] {
				return sharing.Some(int(float64(mean.Or(0)) * math.Exp(distuv.UnitNormal.Quantile(0.99)*sigma-sigma*sigma/2)))
			}
			l.InputTokensP99, l.OutputTokensP99 = p99(l.InputTokens), p99(l.OutputTokens)
		}
	}
}

// meansAlone reports whether a model server's users state the means of lengths and not how far they spread.
func (s *scene) meansAlone(w int) bool {
	l := s.shown.Workloads[w].Load
	return l != nil && l.LengthSigma() == 0
}
