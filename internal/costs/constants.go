// SPDX-License-Identifier: Apache-2.0

package costs

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"math"
)

// Constant is one of the constants (constants.json) that predictions rest on.
type Constant struct {
	Name  string  `json:"name,omitempty"` // of a quantity
	Value float64 `json:"value"`          // the median, where it is uncertain
	Unit  string  `json:"unit"`
	Sigma float64 `json:"sigma,omitzero"` // standard deviation of its logarithm; 0 = even over Spread, or not stated
	// Spread bounds an even distribution, and Range the physically plausible values; a fit stays within.
	Spread    [2]float64 `json:"spread,omitzero"`
	Range     [2]float64 `json:"range,omitzero"`
	Worse     int        `json:"worse,omitzero"` // +1: more is worse, -1: less is
	PerTenant bool       `json:"per_tenant,omitzero"`
	Basis     string     `json:"basis"`  // of a sharing.Basis
	Source    string     `json:"source"` // the id of a sharing.Source
	// over the rows of decision/predict/testdata, or the source's words
	Query string `json:"query,omitempty"`
}

// Constants are all constants that predictions rest on. Tests vary some, to see the worth of each.
type Constants struct {
	Priors     [priorCount]Constant // of the quantities of a Setting
	Unmeasured struct {
		StatedLengths, LaunchBusy, SlicePrefill, CarriedPrefill, Boost        Constant
		ServiceSigma, OtherHost, TokenAside, LeastCoLocated, ConvertedWeights Constant
	}
	// The parameters of time-slicing and of MPS, and constants of the contention of MPS that are none.
	Slices struct {
		SliceLoss, HostPerToken, BatchDoubling, PrefillTokens, PrefillBusy, PrefillCatchUp Constant
	}
	MPS struct {
		KernelBandwidth, MemoryBlocking, QueueShare, BatchWaits, PrefillWaits, Arbitration, CapExponent,
		CappedReading, CappedBlocking, CappedAlone, FillsGPU, SlowestSpeed Constant
	}
	// Of a server's steps and prefills; of kernels that a host launches one by one; of the share of the SMs that kernels
	// hold; and of steps about as long as a whole number of slices.
	Steps struct {
		Jitter, ClientDelay, HostError, PrefillError, GPMError, DecodeOfTPOT, LeastOfFirst, LoneError, UsualTail,
		UsualDoublings, Spared Constant
	}
	Launched struct{ Busy, BusyPrefilling, Between, SharedCore, Gapless Constant }
	SMs      struct{ Filling, LinkHalf, Usual Constant }
	Edges    struct{ Alike, Larger, Doubt, MostMoved Constant }
	// Of measured responses, of calibrations, and half-widths that are added to intervals.
	Response struct{ Exponent, MostSMs, Agreed Constant }
	Fit      struct{ FewSeries, PriorWeight Constant }
	Doubts   struct{ Usual, CoLocated, Near, Far Constant }
}

//go:embed constants.json
var table []byte

// Table holds the constants. A test holds that it can be read and that it is complete.
var Table = func() (c Constants) {
	d := json.NewDecoder(bytes.NewReader(table))
	d.DisallowUnknownFields()
	_ = d.Decode(&c)
	return c
}()

// Shifted is the quantity z standard deviations to its bad side (z > 0) or good side. What is even between bounds stays
// within them.
func (c *Constant) Shifted(z float64) float64 {
	z *= float64(c.Worse)
	if c.Sigma > 0 {
		return c.Value * math.Exp(z*c.Sigma)
	}
	return min(max(c.Value+z*(c.Spread[1]-c.Spread[0])/math.Sqrt(12), c.Spread[0]), c.Spread[1])
}

// The quantities that outcomes rest on where nothing was measured, as indices into a Setting.
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
	IsolatedError
	Burstiness
	LengthSigma
	priorCount
)

// Setting is a value for each quantity.
type Setting [priorCount]float64

// Priors are the constants of the quantities.
var Priors = Table.Priors

// Medians is the setting in which every quantity has its median.
var Medians = func() (s Setting) {
	for i := range Priors {
		s[i] = Priors[i].Value
	}
	return s
}()

// LaunchBusy is the part of a launch-bound prefill in which the GPU is active.
var LaunchBusy = Table.Unmeasured.LaunchBusy.Value
