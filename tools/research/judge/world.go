// SPDX-License-Identifier: Apache-2.0

package judge

import (
	_ "embed"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

//go:embed worlds.yaml
var worldsYAML []byte

// spread is the distribution of an uncertain quantity: log-normal around Median, or uniform between Low and High.
type spread struct {
	Median float64 `yaml:"median"`
	Sigma  float64 `yaml:"sigma"`
	Low    float64 `yaml:"low"`
	High   float64 `yaml:"high"`
	Unit   string  `yaml:"unit"`
	Source string  `yaml:"source"`
}

func (s spread) draw(rng *rand.Rand) float64 {
	if s.Median > 0 {
		return s.Median * math.Exp(s.Sigma*rng.NormFloat64())
	}
	return s.Low + (s.High-s.Low)*rng.Float64()
}

// outside is a value that the published spread does not hold.
func (s spread) outside(rng *rand.Rand) float64 {
	side := float64(2*rng.IntN(2) - 1)
	if s.Median > 0 {
		return s.Median * math.Exp(side*s.Sigma*(3+rng.Float64()))
	}
	half := (s.High - s.Low) / 2
	if side < 0 {
		return max(0, s.Low-half*rng.Float64())
	}
	return s.High + half*rng.Float64()
}

type spreads struct {
	Outliers    int                          `yaml:"outliers"`
	Quantities  map[string]spread            `yaml:"quantities"`
	Distortions map[string]map[string]spread `yaml:"distortions"`

	stage []runner // of all worlds drawn
}

// Distortions lists the names of the ways in which worlds may differ from what is published, for Options.Distort.
func Distortions() []string {
	s, _ := readSpreads("") // a test reads the file that is built in
	return slices.Sorted(maps.Keys(s.Distortions))
}

// readSpreads reads the spreads, those of a distortion in their place; "" is none.
func readSpreads(distort string) (*spreads, error) {
	var s spreads
	if err := strictyaml.Decode(worldsYAML, &s, strictyaml.Options{}); err != nil {
		return nil, fmt.Errorf("worlds.yaml: %w", err)
	}
	by, ok := s.Distortions[distort]
	if !ok && distort != "" {
		return nil, fmt.Errorf("judge: no distortion is named %q", distort)
	}
	maps.Copy(s.Quantities, by)
	return &s, nil
}

// alone returns the same spreads with a stage of their own.
func (s *spreads) alone() *spreads {
	return &spreads{Outliers: s.Outliers, Quantities: s.Quantities}
}

// world holds one draw of all uncertain quantities of a fleet: those of machines once, those of workloads for each.
type world struct {
	outlier string // the quantity that lies outside the published spread, or ""
	fleet   map[string]float64
	each    []map[string]float64 // by workload
	seed    uint64
	fates   []*fate   // by workload, once it was played
	stage   *[]runner // kept from play to play
}

// ofWorkload lists the quantities that are drawn for each workload.
var ofWorkload = []string{"sm_decode", "sm_other", "slice_other", "slice_prefill", "load_error", "busy_error",
	"latency_error", "burstiness", "length_sigma", "stated_lengths", "memory_use", "fragmentation", "by_bandwidth"}

// draw draws a world for n workloads. With outlier one quantity lies outside.
func (s *spreads) draw(rng *rand.Rand, n int, outlier bool) *world {
	names := slices.Sorted(maps.Keys(s.Quantities))
	w := &world{fleet: map[string]float64{}, seed: rng.Uint64(), fates: make([]*fate, n), stage: &s.stage}
	if outlier {
		w.outlier = names[rng.IntN(len(names))]
	}
	take := func(name string) float64 {
		if name == w.outlier {
			return s.Quantities[name].outside(rng)
		}
		return s.Quantities[name].draw(rng)
	}
	for _, name := range names {
		if !slices.Contains(ofWorkload, name) {
			w.fleet[name] = take(name)
		}
	}
	for range n {
		own := map[string]float64{}
		for _, name := range ofWorkload {
			own[name] = take(name)
		}
		w.each = append(w.each, own)
	}
	return w
}

// worst is a world in which memory is as short as the spreads allow, for n workloads.
func (s *spreads) worst(n int) *world {
	w := &world{fleet: map[string]float64{}}
	own := map[string]float64{}
	for name, q := range s.Quantities {
		v := max(q.Median, q.High)
		w.fleet[name], own[name] = v, v
	}
	for range n {
		w.each = append(w.each, own)
	}
	return w
}

// tenant is one replica on a GPU with its true properties in a world.
type tenant struct {
	workload int
	llm      *engine
	service  float64 // seconds of GPU time of a request, where it is no LLM
	host     float64 // seconds beside it
	rate     float64 // requests a second; 0 = it asks again after thinking
	think    float64 // mean seconds between
	cv       float64 // of the gaps between requests
	lengths  float64 // sigma of the logarithm of a request's lengths
	sm       float64 // SM activity while it is on the GPU
	slowBy   sliceLaw
	memory   float64 // bytes, high water, context and all
	loose    float64 // bytes lost to fragmentation where nothing limits it
	slo      [3]float64
}

// engine is a model server with continuous batching.
type engine struct {
	weights, bandwidth  float64 // bytes a step, bytes a second
	kvToken             float64
	perStep, host       float64 // seconds of a step whatever the batch; fraction on the host
	prefillFloor, perIn float64 // seconds
	input, output       float64 // mean tokens
	mpsStep             float64
	slots               int
}

// sliceLaw models the slowdown of GPU work on a part of the SMs and the bandwidth: decoding by a power of the inverse
// share of the bandwidth, other work by the SMs that it fills and does not find.
type sliceLaw struct {
	exponent       float64 // of decoding; 0 = does not decode
	fills, prefill float64 // shares of the SMs that other work and prefills fill
}

const (
	ttft = iota
	tpot
	e2e
)

var metricNames = [...]string{"TTFT P99", "TPOT P99", "E2E P99"}

// tenantOf returns a replica of workload i on a GPU of the pool as it is in the world.
func (w *world) tenantOf(f *decision.Fleet, i int, g *sharing.GPU) *tenant {
	wl, own := &f.Workloads[i], w.each[i]
	t := &tenant{workload: i, cv: own["burstiness"], lengths: own["length_sigma"], sm: own["sm_other"],
		slowBy: sliceLaw{fills: own["slice_other"], prefill: own["slice_prefill"]}}
	t.memory = float64(wl.MemoryNeed().Total)
	if !wl.Memory.IsZero() {
		t.memory = t.memory*own["memory_use"] + w.fleet["context_memory"]*float64(sharing.GiB)
	}
	t.loose = t.memory * own["fragmentation"]
	for k, m := range [...]profile.Metric{profile.MetricTTFTP99, profile.MetricTPOTP99, profile.MetricE2EP99} {
		if limit, ok := wl.SLO.At(m).Get(); ok {
			t.slo[k] = float64(limit) / 1e9
		}
	}
	replicas := float64(max(1, wl.Replicas.Max))
	if m, l := wl.Model, wl.Load; m != nil && l != nil {
		layers := float64(m.Layers.Or(0))
		kv, _ := m.KVPerToken()
		t.rate = l.PeakPerS() / replicas * own["load_error"]
		t.sm = own["sm_decode"]
		if stated := l.LengthSigma(); stated > 0 {
			t.lengths = stated * own["stated_lengths"]
		}
		t.slowBy.exponent = w.fleet["slice_decode"]
		t.llm = &engine{weights: 2 * float64(m.Parameters),
			bandwidth: g.MemoryBandwidthGBps.Value * 1e9 * w.fleet["decode_efficiency"],
			kvToken:   float64(kv), perStep: w.fleet["step_per_layer"] * layers / 1e3, host: w.fleet["host_fraction"],
			prefillFloor: w.fleet["prefill_per_layer"] * layers / 1e3,
			perIn:        2 * float64(m.Parameters) / (predict.MachineOf(g).FLOPs * w.fleet["prefill_efficiency"]),
			input:        float64(l.InputTokens.Or(0)), output: float64(l.OutputTokens.Or(0)),
			mpsStep: w.fleet["mps_step_per_layer"] * layers / 1e3, slots: 64}
		return t
	}
	busy := min(0.98, wl.PeakBusy.Or(wl.GPUBusy.Or(0))*own["busy_error"])
	by := timesOn(wl, g, own["by_bandwidth"])
	if alone, ok := wl.Solo.E2EP99.Get(); ok { // a server whose P99 alone is stated: its service follows
		t.service = float64(alone) / 1e9 * own["latency_error"] / unitP99(busy, t.cv)
		t.rate = busy / t.service
		t.host = 0.15 * t.service
		t.service = (t.service - t.host) * by
		return t
	}
	t.service = 0.100
	t.think = t.service * (1 - busy) / max(busy, 0.001)
	t.service *= by
	return t
}

// timesOn is the time of a workload's GPU work on a GPU over that on the GPU its figures were measured on, where a
// part of it goes by the memory's bandwidth and the rest by the rate of 16-bit arithmetic.
func timesOn(w *decision.Workload, on *sharing.GPU, byBandwidth float64) float64 {
	from, err := sharing.LookupGPU(w.BusyOn)
	if err != nil { // language models, whose time follows from their sizes
		return 1
	}
	here, there := predict.MachineOf(from), predict.MachineOf(on)
	return math.Pow(here.Bandwidth/there.Bandwidth, byBandwidth) * math.Pow(here.FLOPs/there.FLOPs, 1-byBandwidth)
}

// slice holds a tenant's shares of a GPU.
type slice struct {
	sms, bandwidth float64 // shares, 1 = all
}

// sliceOf returns a MIG profile's shares of the GPU: of its SMs as they were counted on the hardware, which is not
// always by slices (a 1g.20gb of an H100 has 26 of 132).
func sliceOf(m *mig.Model, p *mig.Profile) slice {
	s := slice{sms: float64(p.ComputeSlices) / float64(m.ComputeSlices),
		bandwidth: float64(p.PlacementUnits) / float64(m.Units)}
	own, known := p.SMs.Get()
	if all, ok := m.SMs.Get(); ok && known {
		s.sms = float64(own) / float64(all)
	}
	return s
}

func (l sliceLaw) slowdown(s slice) float64 {
	if l.exponent > 0 {
		return math.Pow(1/s.bandwidth, l.exponent)
	}
	return costs.OnSlice(l.fills, s.sms)
}
