package costs

import (
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

// The quantities that outcomes rest on where nothing was measured, as indices into a Setting: the first rows of the
// table of constants, in its order.
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

// Setting is a value for each quantity.
type Setting [priorCount]float64

// Priors are the constants of the quantities.
var Priors = [priorCount]Constant(Constants())

// Medians is the setting in which every quantity has its median.
var Medians = func() (s Setting) {
	for i := range Priors {
		s[i] = Priors[i].Value
	}
	return s
}()

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

// Machine holds the peaks of a GPU.
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

// LaunchBusy is the part of a launch-bound prefill in which the GPU is active.
var LaunchBusy = Value("launch_busy")
