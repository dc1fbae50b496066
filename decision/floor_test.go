// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

const measuredRows = "predict/testdata/"

// llama8B is an 8B server of 16-bit weights that was measured alone on an H200,
// where a token takes 6.89 ms at the 99th percentile.
func llama8B() Workload {
	return Workload{Name: "coder", Kind: KindOnlineInference, Replicas: Replicas{Max: 4}, GPUBusy: sharing.Some(0.1),
		Model:   &fleet.LanguageModel{Parameters: 8_030_000_000, Weights: "bf16", KVCache: sharing.Some(2 * sharing.GiB)},
		Profile: &profile.ProfileRef{Server: profile.Server{Model: "8b"}, Load: profile.Load{Concurrency: 1, Prompt: 128, Output: 64}}}
}

func withTPOT(w Workload, ms float64) Workload {
	w.SLO = profile.SLO{TPOTP99: sharing.Some(profile.Duration(1e6 * ms))}
	return w
}

func withProfiles(t *testing.T, f *Fleet, name string) (*Result, error) {
	t.Helper()
	profiles, err := profile.LoadProfiles(measuredRows + name)
	if err != nil {
		t.Fatal(err)
	}
	return Decide(t.Context(), f, Options{Profiles: profiles})
}

// TestProfileOfOtherHardware: a profile of a whole H200 promises nothing of an L4 or of slices, and an objective that
// no memory is fast enough for is refused with the floor.
func TestProfileOfOtherHardware(t *testing.T) {
	for _, c := range []struct {
		name, gpu  string
		mechanisms []sharing.Mechanism
		limit      float64 // ms
		floor      float64 // ms: 16.06e9 bytes over the bandwidth of GPU or slice
		status     Status
	}{
		{"an L4 reads 300 GB/s", "L4", nil, 9, 53.53, StatusNone},
		{"an L4 has time", "L4", nil, 400, 53.53, StatusProvisional},
		{"slices of the H200, 1/8 to 4/8 of 4800 GB/s", "H200", mechs(sharing.MechanismMIG), 40, 6.69, StatusProvisional},
		{"slices of an H100 80GB, 1/8 to 4/8 of 3350 GB/s", "H100-80GB", mechs(sharing.MechanismMIG), 4, 4.79, StatusNone},
		{"an H100 by shares", "H100-80GB", mechs(sharing.MechanismHAMi), 30, 4.79, StatusProvisional},
		{"an H100 by vGPU", "H100-80GB", mechs(sharing.MechanismVGPU), 30, 4.79, StatusProvisional},
		{"the H200 itself", "H200", mechs(sharing.MechanismMPS), 9, 3.34, StatusDecided},
	} {
		for _, modelled := range []bool{true, false} {
			w := withTPOT(llama8B(), c.limit)
			if !modelled {
				w.Model, w.Memory = nil, sharing.Some(20*sharing.GiB)
				c.floor *= 0.8 // DRAM traffic gives less
			}
			f := &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: c.gpu, Count: 8, Mechanisms: c.mechanisms, VGPU: true}}, Workloads: []Workload{w}}
			r, err := withProfiles(t, f, "h200-colocation.json")
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			d := r.Decision("coder")
			if d.Status != c.status {
				t.Errorf("%s (model %t): %s %s %s, want %s: %s", c.name, modelled, d.Status, d.Mechanism, d.Profile, c.status, d.Why)
			}
			for _, v := range d.Consequences {
				if v.Value < c.floor || v.Low < c.floor {
					t.Errorf("%s: promises %+v, below %.2f ms", c.name, v, c.floor)
				}
			}
			if c.status == StatusNone && (!strings.Contains(d.Why, "cannot be below") || !strings.Contains(d.Why, "objective is")) {
				t.Errorf("%s: the reason does not give the floor: %s", c.name, d.Why)
			}
			if c.status == StatusProvisional && (len(d.Assumes) == 0 || d.Assumes[0].Basis != sharing.BasisTransferred) {
				t.Errorf("%s: assumes %+v", c.name, d.Assumes)
			}
		}
	}
}

// TestMeasuredMixesOnSlices: measurements on whole GPUs decide nothing on their slices, and promise no token sooner
// than the slice's memory delivers the weights.
func TestMeasuredMixesOnSlices(t *testing.T) {
	race.Long(t)
	answers := 0
	for _, name := range []string{"h200-colocation.json", "h100-mixes.json", "h200-two-models.json"} {
		b, err := os.ReadFile(measuredRows + name)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := profile.ParseRows(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			parameters := map[string]int64{"1b": 1.24e9, "3b": 3.2e9, "8b": 8.03e9, "rand-1b": 1.24e9, "rand-3b": 3.2e9, "rand-8b": 8.03e9}[row.Server.Model]
			alone, ok := row.TPOT.P99.Get()
			if row.Tenants != 1 || !ok || parameters == 0 || row.Mechanism != sharing.MechanismTimeSlicing {
				continue
			}
			for _, gpu := range []string{"H200", "H100-80GB"} {
				w := withTPOT(llama8B(), 1.5*alone)
				w.Model.Parameters, w.Profile = parameters, &profile.ProfileRef{Server: row.Server, Load: row.Load}
				f := &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: gpu, Count: 8, Mechanisms: mechs(sharing.MechanismMIG)}}, Workloads: []Workload{w}}
				r, err := withProfiles(t, f, name)
				if err != nil {
					t.Fatal(err)
				}
				answers++
				d := r.Decision("coder")
				if d.Profile != "" {
					checkFloor(t, f, d)
				}
				if d.Status == StatusDecided && d.Mechanism == sharing.MechanismMIG {
					t.Errorf("%s %s on %s: decided %s: %s", row.Server, row.Load, gpu, d.Profile, d.Why)
				}
			}
		}
	}
	if answers < 40 {
		t.Errorf("%d answers", answers)
	}
}

// checkFloor holds a decision's figures against bytes over bandwidth and operations
// over peak rate, computed from the tables of GPUs and MIG profiles.
func checkFloor(t *testing.T, f *Fleet, d *Decision) {
	t.Helper()
	w := &f.Workloads[0]
	g, err := sharing.LookupGPU(f.Pools[0].GPU)
	if err != nil {
		t.Fatal(err)
	}
	gbps, known := g.MemoryBandwidthGBps.Get()
	if !known || len(d.Consequences) == 0 {
		return
	}
	sms, _ := g.SMs.Get()
	part, cut := 1.0, float64(sms)
	if d.Profile != "" {
		model, err := mig.Lookup(g.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range model.Profiles {
			if p.Name == d.Profile {
				part = float64(p.PlacementUnits) / float64(model.Units)
				cut = float64(sms * p.ComputeSlices / model.ComputeSlices)
				if n, known := p.SMs.Get(); known {
					cut = float64(n)
				}
			}
		}
	}
	bytes := map[fleet.Precision]float64{"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1, "fp4": 0.5, "int4": 0.5}[w.Model.Weights]
	parameters := float64(w.Model.Parameters)
	if w.Model.Active > 0 {
		parameters = float64(w.Model.Active)
	}
	gpus := float64(max(1, w.GPUs))
	token := 1e3 * parameters * bytes / gpus / (part * gbps * 1e9)
	// The highest dense 16-bit FLOP per SM and second of NVIDIA's data sheets.
	rate := [...]float64{sharing.ArchitecturePascal: 0.38e12, sharing.ArchitectureVolta: 1.6e12, sharing.ArchitectureTuring: 1.82e12, sharing.ArchitectureAmpere: 3e12,
		sharing.ArchitectureAda: 2.6e12, sharing.ArchitectureHopper: 8.2e12, sharing.ArchitectureBlackwell: 16.2e12}[g.Architecture]
	rate *= 2 / bytes
	prompt := 0.0
	if w.Load != nil && sms > 0 {
		prompt = 1e3 * 2 * parameters * float64(w.Load.InputTokens.Or(0)) / gpus / (rate * cut * 1.2)
	}
	for _, c := range d.Consequences {
		least := 0.0
		switch {
		case strings.HasPrefix(c.Metric, "TPOT"):
			least = token
		case strings.HasPrefix(c.Metric, "TTFT"), strings.HasPrefix(c.Metric, "E2E"):
			least = max(prompt, token)
		}
		if min(c.Value, c.Low) < 0.999*least-0.005 {
			t.Errorf("%s on %s %s %s: %s %.3f (%.3f to %.3f) ms, the hardware's least is %.3f", d.Mechanism, g.Name, d.Profile, d.Status, c.Metric, c.Value, c.Low, c.High, least)
		}
	}
}

// promises decides a random model server on a GPU under one mechanism, with typed figures or a profile that promise
// whatever comes to mind, and holds the answer against the hardware.
func promises(t *testing.T, rng *rand.Rand, gpu string, m sharing.Mechanism) (placed bool) {
	t.Helper()
	between := func(low, high float64) float64 { return low * math.Pow(high/low, rng.Float64()) }
	w := Workload{Name: "w", Kind: KindOnlineInference, GPUBusy: sharing.Some(between(0.02, 0.6)), Replicas: Replicas{Max: 1 + rng.IntN(3)}}
	w.Model = &fleet.LanguageModel{Parameters: int64(between(5e7, 4e10)), Weights: []fleet.Precision{"fp16", "bf16", "fp8", "int8", "int4", "fp32"}[rng.IntN(6)],
		KVCache: sharing.Some(sharing.GiB / 4)}
	if rng.IntN(3) == 0 {
		w.Model.Active = w.Model.Parameters / 4
	}
	if rng.IntN(4) == 0 {
		w.GPUs = 2
	}
	limit := func(low, high float64) sharing.Optional[profile.Duration] {
		return sharing.Some(profile.Duration(1e9 * between(low, high)))
	}
	w.SLO = profile.SLO{TTFTP99: limit(1e-3, 10), TPOTP99: limit(1e-4, 1)}
	switch rng.IntN(3) {
	case 0: // typed, far too fast
		w.Solo = profile.SLO{TTFTP99: sharing.Some(profile.Duration(1000)), TPOTP99: sharing.Some(profile.Duration(1000))}
	case 1:
		w.Load = &fleet.Traffic{RequestsPerS: between(0.01, 3), InputTokens: sharing.Some(int(between(16, 16384))), OutputTokens: sharing.Some(int(between(2, 1024)))}
	}
	f := &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: gpu, Count: 8, VGPU: true, Mechanisms: []sharing.Mechanism{m}}}, Workloads: []Workload{w}}
	opt := Options{}
	if rng.IntN(2) == 0 {
		opt.Profiles = fastProfile(t, gpu, rng)
		f.Workloads[0].Profile = &profile.ProfileRef{Server: profile.Server{Model: "fast"}, Load: profile.Load{Concurrency: 1, Prompt: 64, Output: 16}}
	}
	r, err := Decide(t.Context(), f, opt)
	if err != nil {
		t.Fatalf("%s, %s: %v", gpu, m, err)
	}
	d := r.Decision("w")
	checkFloor(t, f, d)
	if p := d.Predicted; p != nil && d.Pool != "" {
		for name, i := range p.Figures {
			if strings.HasPrefix(name, "tpot") {
				c := *d
				c.Consequences = []Consequence{{Metric: "TPOT " + name, Value: i.Value, Low: i.Low, High: i.High}}
				checkFloor(t, f, &c)
			}
		}
	}
	if opt.Profiles != nil && d.Status == StatusDecided && w.Load == nil && w.Solo == (profile.SLO{}) && (traits.Of(d.Mechanism).Sliced || d.From != fromProfiles) {
		t.Errorf("%s %s on %s is decided by a profile of other hardware: %s", d.Mechanism, d.Profile, gpu, d.Why)
	}
	return d.Mechanism != sharing.MechanismNone
}

// fastProfile is of a server that answers within microseconds, on the GPU or on an H200.
func fastProfile(t *testing.T, gpu string, rng *rand.Rand) *profile.Profiles {
	t.Helper()
	if rng.IntN(2) == 0 {
		gpu = "H200"
	}
	ms := func(v float64) profile.LatencyMS {
		return profile.LatencyMS{P50: sharing.Some(v), P99: sharing.Some(v)}
	}
	ps, err := profile.NewProfiles(profile.SoloProfile{Version: 1, Mechanism: sharing.MechanismTimeSlicing, GPU: gpu,
		Server: profile.Server{Model: "fast"}, Load: profile.Load{Concurrency: 1, Prompt: 64, Output: 16},
		Outcome: profile.Outcome{TokensPerS: sharing.Some(1e4), TTFT: ms(0.02), TPOT: ms(0.05), ITL: ms(0.05), E2E: ms(1.6)}})
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

// TestNothingBelowTheFloor is a sample of the GPUs and mechanisms; with -tags nightly it is all of them.
func TestNothingBelowTheFloor(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 1))
	placed, n := 0, 0
	gpus := sharing.GPUs()
	for _, g := range gpus {
		for _, m := range sharing.Mechanisms() {
			tries := float64(nightly.Cases(15, 4000)) / 100
			if rng.Float64() < tries-math.Floor(tries) {
				tries++
			}
			for range int(tries) {
				n++
				if promises(t, rng, g.Name, m) {
					placed++
				}
			}
		}
	}
	if placed < n/20 {
		t.Errorf("%d of %d were placed", placed, n)
	}
}

// TestMPSBeforeVolta: a profile of a GPU before Volta decides time-slicing on it, and nothing under MPS: that MPS was
// another than the one that predictors were calibrated on.
func TestMPSBeforeVolta(t *testing.T) {
	for m, want := range map[sharing.Mechanism]Status{sharing.MechanismTimeSlicing: StatusDecided, sharing.MechanismMPS: StatusProvisional} {
		const gpu = "Tesla P100-PCIE-16GB"
		ms := func(v float64) profile.LatencyMS {
			return profile.LatencyMS{P50: sharing.Some(v), P99: sharing.Some(v)}
		}
		p := profile.SoloProfile{Version: 1, Mechanism: sharing.MechanismTimeSlicing, GPU: gpu,
			Server: profile.Server{Model: "small"}, Load: profile.Load{Concurrency: 1, Prompt: 64, Output: 16},
			Outcome: profile.Outcome{TokensPerS: sharing.Some(150.0), TTFT: ms(9), TPOT: ms(6), ITL: ms(6), E2E: ms(105)}}
		profiles, err := profile.NewProfiles(p)
		if err != nil {
			t.Fatal(err)
		}
		w := Workload{Name: "w", Kind: KindOnlineInference, GPUBusy: sharing.Some(0.1), Memory: sharing.Some(2 * sharing.GiB), Replicas: Replicas{Max: 2},
			SLO: profile.SLO{TPOTP99: sharing.Some(profile.Duration(1e9))}, Profile: &profile.ProfileRef{Server: p.Server, Load: p.Load}}
		f := &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: gpu, Count: 2, Mechanisms: []sharing.Mechanism{m}}}, Workloads: []Workload{w}}
		r, err := Decide(t.Context(), f, Options{Profiles: profiles})
		if err != nil {
			t.Fatal(err)
		}
		if d := r.Decision("w"); d.Mechanism != m || d.Status != want {
			t.Errorf("%v: %v by %v: %s %v", m, d.Status, d.Mechanism, d.Why, d.Assumes)
		}
	}
}

// TestProfileThatCannotBe: a profile of a GPU that is not in the table, or with a
// figure that is none, is refused and named.
func TestProfileThatCannotBe(t *testing.T) {
	ms := func(v float64) profile.LatencyMS {
		return profile.LatencyMS{P50: sharing.Some(v), P99: sharing.Some(v)}
	}
	whole := func() profile.SoloProfile {
		return profile.SoloProfile{Version: 1, Mechanism: sharing.MechanismTimeSlicing, GPU: "H200",
			Server: profile.Server{Model: "m"}, Load: profile.Load{Concurrency: 1, Prompt: 64, Output: 16},
			Outcome: profile.Outcome{TokensPerS: sharing.Some(100.0), TTFT: ms(9), TPOT: ms(9), ITL: ms(9), E2E: ms(150)}}
	}
	decides := func(p profile.SoloProfile) (*Decision, error) {
		profiles, err := profile.NewProfiles(p)
		if err != nil {
			return nil, err
		}
		w := withTPOT(llama8B(), 30)
		w.Model, w.Memory, w.Profile = nil, sharing.Some(20*sharing.GiB), &profile.ProfileRef{Server: p.Server, Load: p.Load}
		r, err := Decide(t.Context(), &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: "H200", Count: 4, Mechanisms: mechs(sharing.MechanismExclusive)}}, Workloads: []Workload{w}}, Options{Profiles: profiles})
		if err != nil {
			return nil, err
		}
		return r.Decision("coder"), nil
	}
	if d, err := decides(whole()); err != nil || d.Status != StatusDecided {
		t.Fatalf("a whole profile: %v, %v", d, err)
	}
	p := whole()
	p.GPU = "H900"
	if _, err := decides(p); err == nil || !strings.Contains(err.Error(), `workloads[0] ("coder"): profile: its gpu_name`) {
		t.Errorf("a GPU that is not in the table: %v", err)
	}
	for name, at := range map[string]func(*profile.SoloProfile) *sharing.Optional[float64]{
		"tokens_per_s": func(p *profile.SoloProfile) *sharing.Optional[float64] { return &p.TokensPerS },
		"tpot_ms.p50":  func(p *profile.SoloProfile) *sharing.Optional[float64] { return &p.TPOT.P50 },
		"tpot_ms.p99":  func(p *profile.SoloProfile) *sharing.Optional[float64] { return &p.TPOT.P99 },
		"itl_ms.p50":   func(p *profile.SoloProfile) *sharing.Optional[float64] { return &p.ITL.P50 },
		"e2e_ms.p50":   func(p *profile.SoloProfile) *sharing.Optional[float64] { return &p.E2E.P50 },
	} {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1} {
			p := whole()
			*at(&p) = sharing.Some(v)
			if d, err := decides(p); err == nil && d.Status == StatusDecided {
				t.Errorf("%s of %v is passed: %s", name, v, d.Why)
			} else if err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("%s of %v: the error names another: %v", name, v, err)
			}
		}
	}
	p = whole()
	p.TPOT.P99 = sharing.Optional[float64]{}
	if d, err := decides(p); err != nil || d.Status == StatusDecided {
		t.Errorf("without the objective's figure: %+v, %v", d, err)
	}
}
