// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"cmp"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

// The latencies of an outcome, as indices.
const (
	LatencyTTFT = iota
	LatencyTPOT
	LatencyE2E
	LatencyCount
)

// LatencyName returns the name of a latency: TTFT, TPOT or E2E.
func LatencyName(k int) string { return [LatencyCount]string{"TTFT", "TPOT", "E2E"}[k] }

// Share is the part of a GPU that a mechanism gives its tenants.
type Share struct {
	Mechanism sharing.Mechanism // exclusive, time-slicing, mps or mig
	SMs       float64           // share of the GPU's SMs, such as a MIG slice's; 1 = all
	Bandwidth float64           // share of its memory bandwidth
}

// Least is the smallest possible work of a model server on each of its GPUs, with any engine; zero fields are unknown.
type Least struct {
	Weights float64 // bytes of the weights that a decode step reads
	KV      float64 // bytes of one request's KV cache that it reads
	Prompt  float64 // operations of a prompt's prefill: 2 per parameter and token
	Width   float64 // bytes of a parameter; 0 = 2
	Output  float64 // mean tokens of an answer; 0 = 1
}

var boost = table.Unmeasured.Boost.Value

// Floor returns a lower bound of each latency in seconds on a share of the machine: the bytes over the peak bandwidth
// and the operations over the peak rate at the width of the weights; 0 if one of them is not known. This is the
// roofline model (S. Williams, A. Waterman and D. Patterson, Communications of the ACM 52(4), 2009). A step generates
// one token for every request.
func (m Machine) Floor(share Share, l Least) (f [LatencyCount]float64) {
	if bandwidth := m.Bandwidth * share.Bandwidth; bandwidth > 0 {
		f[LatencyTTFT] = l.Weights / bandwidth
		f[LatencyTPOT] = (l.Weights + l.KV) / bandwidth
	}
	if rate := m.Rate(l.Width) * boost * share.SMs; rate > 0 {
		f[LatencyTTFT] = max(f[LatencyTTFT], l.Prompt/rate)
	}
	f[LatencyE2E] = f[LatencyTTFT] + max(0, l.Output-1)*f[LatencyTPOT]
	return f
}

// Rate returns the operations a second on operands of width bytes: twice as many at half the width, down to the
// narrowest that the GPU supports.
func (m Machine) Rate(width float64) float64 {
	return m.FLOPs * 2 / max(cmp.Or(width, 2), m.Narrowest)
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

// Machine holds the peak rates of a GPU.
type Machine struct {
	Bandwidth float64 // bytes a second; 0 = not known
	FLOPs     float64 // dense 16-bit operations a second; 0 = not known
	Narrowest float64 // bytes of the narrowest operand with a rate of its own; 0 = any
}

// MachineOf reads a GPU's row; figures that the table lacks stay 0.
func MachineOf(g *sharing.GPU) Machine {
	bandwidth, _ := g.MemoryBandwidthGBps.Get()
	sms, _ := g.SMs.Get()
	r := tensorRates[0]
	if int(g.Architecture) < len(tensorRates) {
		r = tensorRates[g.Architecture]
	}
	switch cc, _ := g.ComputeCapability.Get(); {
	case cc.Major == 8 && cc.Minor == 0: // GA100 has twice the rate of the other Ampere chips
		r.perCycle, r.ghz = 2048, 1.41
	case strings.HasPrefix(g.Name, "H20") && !strings.HasPrefix(g.Name, "H200"): // 148 TFLOP/s
		r.perCycle = 1037
	case cc.Major == 12: // the RTX chips of Blackwell have Ada's
		r.perCycle, r.ghz = 1024, 2.3
	}
	// GeForces have half the rate where sums have 32 bits, but those without tensor cores.
	if strings.HasPrefix(g.Name, "GeForce") && g.Architecture > sharing.ArchitecturePascal {
		r.perCycle /= 2
	}
	return Machine{Bandwidth: bandwidth * 1e9, FLOPs: float64(sms) * r.perCycle * r.ghz * 1e9, Narrowest: r.narrowest}
}
