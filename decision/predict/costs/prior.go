package costs

import (
	"math"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

// Prior is a quantity that outcomes rest on where nothing was measured: a median and how uncertain it is. It is
// log-normal with Sigma as the standard deviation of its logarithm, or even between Low and High.
type Prior struct {
	Name      string           `json:"name"`
	Unit      string           `json:"unit"`
	Median    float64          `json:"median"`
	Sigma     float64          `json:"sigma,omitzero"`
	Low       float64          `json:"low,omitzero"`
	High      float64          `json:"high,omitzero"`
	Basis     sharing.Basis    `json:"basis"`
	Source    sharing.SourceID `json:"source"`
	Worse     int              `json:"-"` // +1: more is worse, -1: less is
	PerTenant bool
}

// The quantities, as indices into a setting.
const (
	DecodeEfficiency = iota
	StepPerLayer
	PrefillPerLayer
	PrefillEfficiency
	HostFraction
	SMDecoding
	SMOther
	SliceDecoding
	SliceOther
	TurnsOverhead
	MPSStepPerLayer
	MPSBlocking
	LoadError
	BusyError
	AloneError
	Burstiness
	priorCount
)

// setting is a value for each quantity.
type Setting [priorCount]float64

const (
	rowsSource = sharing.SourceID("cotenant-h200-colocation")
	nosSource  = sharing.SourceID("nos-gpu-sharing")
)

var Priors = [priorCount]Prior{
	DecodeEfficiency:  {Name: "decode_efficiency", Unit: "fraction of the peak bandwidth that a decode step reaches", Median: 0.77, Sigma: 0.12, Worse: -1, Basis: sharing.BasisFitted, Source: rowsSource},
	StepPerLayer:      {Name: "step_per_layer", Unit: "ms of a decode step for each layer, whatever the bandwidth", Median: 0.07, Sigma: 0.18, Worse: 1, Basis: sharing.BasisFitted, Source: rowsSource},
	PrefillPerLayer:   {Name: "prefill_per_layer", Unit: "ms of a prefill for each layer, where kernel launches bound it", Median: 0.45, Sigma: 0.25, Worse: 1, Basis: sharing.BasisFitted, Source: rowsSource},
	PrefillEfficiency: {Name: "prefill_efficiency", Unit: "fraction of the peak dense 16-bit rate that a long prefill reaches", Median: 0.45, Sigma: 0.2, Worse: -1, Basis: sharing.BasisPrior, Source: rowsSource},
	HostFraction:      {Name: "host_fraction", Unit: "fraction of a decode step in which the GPU waits for the host", Median: 0.1, Low: 0.06, High: 0.14, Worse: 1, Basis: sharing.BasisMeasured, Source: rowsSource},
	SMDecoding:        {Name: "sm_decoding", Unit: "SM activity of decoding", Median: 0.42, Sigma: 0.25, Worse: 1, Basis: sharing.BasisMeasured, Source: rowsSource, PerTenant: true},
	SMOther:           {Name: "sm_other", Unit: "SM activity of other work", Median: 0.6, Sigma: 0.2, Worse: 1, Basis: sharing.BasisPrior, Source: rowsSource, PerTenant: true},
	SliceDecoding:     {Name: "slice_decoding", Unit: "exponent of the inverse bandwidth share by which decoding slows down on a slice", Median: 0.93, Low: 0.85, High: 1, Worse: 1, Basis: sharing.BasisPrior, Source: rowsSource},
	SliceOther:        {Name: "slice_other", Unit: "exponent of the inverse SM share by which other work slows down on a slice", Median: 0.7, Sigma: 0.12, Worse: 1, Basis: sharing.BasisFitted, Source: nosSource, PerTenant: true},
	TurnsOverhead:     {Name: "turns_overhead", Unit: "fraction of a GPU's time that taking turns costs", Median: 0.06, Low: 0.01, High: 0.11, Worse: 1, Basis: sharing.BasisMeasured, Source: nosSource},
	MPSStepPerLayer:   {Name: "mps_step_per_layer", Unit: "ms that MPS adds to a decode step for each layer", Median: 0.04, Sigma: 0.15, Worse: 1, Basis: sharing.BasisFitted, Source: rowsSource},
	MPSBlocking:       {Name: "mps_blocking", Unit: "share of a neighbour's SM activity that delays one's own kernels", Median: 1, Sigma: 0.12, Worse: 1, Basis: sharing.BasisFitted, Source: rowsSource},
	LoadError:         {Name: "load_error", Unit: "the peak hour's rate over the stated one", Median: 1, Sigma: 0.06, Worse: 1, Basis: sharing.BasisPrior, Source: rowsSource, PerTenant: true},
	BusyError:         {Name: "busy_error", Unit: "the busy share over the stated one", Median: 1, Sigma: 0.06, Worse: 1, Basis: sharing.BasisMeasured, Source: rowsSource, PerTenant: true},
	AloneError:        {Name: "alone_error", Unit: "the latency alone over the stated one", Median: 1, Sigma: 0.05, Worse: 1, Basis: sharing.BasisMeasured, Source: rowsSource, PerTenant: true},
	Burstiness:        {Name: "burstiness", Unit: "coefficient of variation of the gaps between requests", Median: 1.25, Low: 1, High: 1.5, Worse: 1, Basis: sharing.BasisMeasured, Source: rowsSource, PerTenant: true},
}

// medians is the setting in which every quantity has its median.
var Medians = func() (s Setting) {
	for i := range Priors {
		s[i] = Priors[i].Median
	}
	return s
}()

// shifted is the quantity z standard deviations to its bad side (z > 0) or good
// side. What is even between bounds stays within them.
func (p *Prior) Shifted(z float64) float64 {
	z *= float64(p.Worse)
	if p.Sigma > 0 {
		return p.Median * math.Exp(z*p.Sigma)
	}
	sd := (p.High - p.Low) / math.Sqrt(12)
	return min(max(p.Median+z*sd, p.Low), p.High)
}

// tensorRates are the dense 16-bit rate of a streaming multiprocessor in FLOP a cycle, its usual clock in GHz, and the
// bytes of the narrowest operand that it multiplies at a rate of its own, as NVIDIA's architecture papers give them.
var tensorRates = [...]struct{ perCycle, ghz, narrowest float64 }{
	sharing.ArchitecturePascal:    {256, 1.3, 2},
	sharing.ArchitectureVolta:     {1024, 1.53, 2},
	sharing.ArchitectureTuring:    {1024, 1.59, 0.5},
	sharing.ArchitectureAmpere:    {1024, 1.7, 0.5},
	sharing.ArchitectureAda:       {1024, 2.3, 0.5},
	sharing.ArchitectureHopper:    {4096, 1.83, 1},
	sharing.ArchitectureBlackwell: {8192, 1.96, 0.5},
}

// Machine is what outcomes need to know of a GPU.
type Machine struct {
	Bandwidth float64 // bytes a second; 0 = not known
	FLOPs     float64 // dense 16-bit operations a second; 0 = not known
	Narrowest float64 // bytes of the narrowest operand that it has a rate of its own for; 0 = any
	// Efficiency is the fraction of FLOPs that long prompts reach; 0 = not known.
	Efficiency float64
}

// MachineOf reads a GPU's row; what the table does not know stays 0.
func MachineOf(g *sharing.GPU) Machine {
	var m Machine
	if v, ok := g.MemoryBandwidthGBps.Get(); ok {
		m.Bandwidth = v * 1e9
	}
	r := tensorRates[0]
	if int(g.Architecture) < len(tensorRates) {
		r = tensorRates[g.Architecture]
	}
	switch cc, _ := g.ComputeCapability.Get(); {
	case cc.Major == 8 && cc.Minor == 0: // GA100 has twice the rate of the other Ampere chips
		r.perCycle, r.ghz, m.Efficiency = 2048, 1.41, 0.6
	case strings.HasPrefix(g.Name, "H20") && !strings.HasPrefix(g.Name, "H200"): // 148 TFLOP/s
		r.perCycle, m.Efficiency = 1037, 0.7
	case cc.Major == 9:
		m.Efficiency = 0.46
	case cc.Major == 12: // the RTX chips of Blackwell have Ada's
		r.perCycle, r.ghz = 1024, 2.3
	}
	if strings.HasPrefix(g.Name, "GeForce") { // half the rate where sums have 32 bits
		r.perCycle /= 2
	}
	m.Narrowest = r.narrowest
	if v, ok := g.SMs.Get(); ok {
		m.FLOPs = float64(v) * r.perCycle * r.ghz * 1e9
	}
	return m
}

// launchBusy is the part of a launch-bound prefill in which the GPU is active.
const LaunchBusy = 0.4
