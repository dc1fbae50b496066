package costs

import (
	"cmp"

	"github.com/cotenant/cotenant/sharing"
)

// The latencies of an outcome, as indices.
const (
	LatencyTTFT = iota
	LatencyTPOT
	LatencyE2E
	LatencyCount
)

// LatencyName is the name of a latency: TTFT, TPOT or E2E.
func LatencyName(k int) string { return [LatencyCount]string{"TTFT", "TPOT", "E2E"}[k] }

// Share holds the part of a GPU or slice that a mechanism gives its tenants.
type Share struct {
	Mechanism sharing.Mechanism // exclusive, time-slicing, mps or mig
	SMs       float64           // share of the GPU's SMs, 1 = all; of a MIG slice
	Bandwidth float64           // share of its memory bandwidth
}

// Least is the least work of a model server on each of its GPUs, whatever engine it
// runs. The zero value is of a server of which nothing is known.
type Least struct {
	Weights float64 // bytes of the weights that a decode step reads
	KV      float64 // bytes of one request's KV cache that it reads
	Prompt  float64 // operations of a prompt's prefill: 2 for each parameter and token
	Width   float64 // bytes of a parameter; 0 = 2
	Output  float64 // mean tokens of an answer; 0 = 1
}

var boost = Value("boost")

// Floor returns the least seconds that each latency can take on a share of the machine: the bytes over the peak
// bandwidth and the operations over the peak rate at the width of the weights; 0 where one of them is not known.
// This is the roofline model (S. Williams, A. Waterman and D. Patterson, Communications of the ACM 52(4), 2009). A
// step gives every request one token.
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

// Rate is the operations a second on operands of so many bytes: twice as many on
// those of half the width, down to the narrowest that the GPU computes with.
func (m Machine) Rate(width float64) float64 {
	return m.FLOPs * 2 / max(cmp.Or(width, 2), m.Narrowest)
}
