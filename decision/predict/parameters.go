// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mps/contention"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// Parameter is a constant of the models, with its meaning.
type Parameter struct {
	Value float64 `yaml:"value,required" json:"value"`
	Unit  string  `yaml:"unit,required" json:"unit"`
	// Low and High bound the physically plausible values; a fit stays within.
	Low  float64 `yaml:"low,required" json:"low"`
	High float64 `yaml:"high,required" json:"high"`
	// Basis is measured, fitted or assumed, and Source the origin of the value.
	Basis  sharing.Basis `yaml:"basis,required" json:"basis"`
	Source string        `yaml:"source" json:"source,omitempty"`
	// Independent is the same quantity measured in another way; missing if it was not.
	Independent sharing.Optional[float64] `yaml:"independent" json:"independent,omitzero"`
}

// Parameters are the constants of the models, each with a meaning, for one GPU model and driver.
type Parameters struct {
	// Time-slicing: Quantum is the time that a context keeps the GPU, Switch the time lost to a change of context,
	// SliceLoss the further time of a slice in which resumed work does not advance. Decode step: HostFraction is its part
	// off the GPU, HostPerToken the host's time per sequence, BatchDoubling the growth on the GPU with a doubled batch.
	// Prefill, which reads the weights once as a decode step does: PrefillTokens, used without GPM, are the prompt tokens
	// that add the work of another step; PrefillBusy is the largest part of its time with the GPU at work (the host has
	// the rest), PrefillCatchUp the part of that which remains when its kernels have queued behind a neighbour.
	Quantum        Parameter `yaml:"quantum,required" json:"quantum"`
	Switch         Parameter `yaml:"switch,required" json:"switch"`
	SliceLoss      Parameter `yaml:"slice_loss,required" json:"slice_loss"`
	HostFraction   Parameter `yaml:"host_fraction,required" json:"host_fraction"`
	HostPerToken   Parameter `yaml:"host_per_token,required" json:"host_per_token"`
	BatchDoubling  Parameter `yaml:"batch_doubling,required" json:"batch_doubling"`
	PrefillTokens  Parameter `yaml:"prefill_tokens,required" json:"prefill_tokens"`
	PrefillBusy    Parameter `yaml:"prefill_busy,required" json:"prefill_busy"`
	PrefillCatchUp Parameter `yaml:"prefill_catch_up,required" json:"prefill_catch_up"`
	MPSParameters
}

// MPSParameters are the constants of MPS.
type MPSParameters struct {
	// KernelBandwidth is the share of the memory bandwidth that a decode step's kernel uses while it reads; MemoryBlocking
	// and QueueShare are the shares of a neighbour's time, reading and not reading, for which a kernel waits; BatchWaits
	// is the growth of a step's waits with a doubled batch; PrefillWaits are a prefill's waits over a decode step's;
	// Arbitration is the growth of GPU work as soon as others are active; LoneStepCost is the time in ms that MPS adds to
	// a decode step of an isolated tenant; CapExponent is that of a step's growth with the inverse SM share.
	KernelBandwidth Parameter `yaml:"kernel_bandwidth,required" json:"kernel_bandwidth"`
	MemoryBlocking  Parameter `yaml:"memory_blocking,required" json:"memory_blocking"`
	QueueShare      Parameter `yaml:"queue_share,required" json:"queue_share"`
	BatchWaits      Parameter `yaml:"batch_waits,required" json:"batch_waits"`
	PrefillWaits    Parameter `yaml:"prefill_waits,required" json:"prefill_waits"`
	Arbitration     Parameter `yaml:"arbitration,required" json:"arbitration"`
	LoneStepCost    Parameter `yaml:"lone_step_cost,required" json:"lone_step_cost"`
	CapExponent     Parameter `yaml:"cap_exponent,required" json:"cap_exponent"`
}

// Named returns an iterator over the parameters with their JSON names, in order.
func (p *Parameters) Named() iter.Seq2[string, *Parameter] {
	return func(yield func(string, *Parameter) bool) {
		v := reflect.ValueOf(p).Elem()
		for _, f := range reflect.VisibleFields(v.Type()) {
			if !f.Anonymous && !yield(f.Tag.Get("json"), v.FieldByIndex(f.Index).Addr().Interface().(*Parameter)) {
				return
			}
		}
	}
}

// Residual is the error of a metric's predictions for measurements outside the calibration.
type Residual struct {
	// HalfWidth is the half-width of the 90% interval on the logarithmic scale: from value x exp(-HalfWidth) to value x
	// exp(HalfWidth).
	HalfWidth float64 `yaml:"half_width,required" json:"half_width"`
	// Points is the number of measurements behind it, 0 for a prior, and Series the number of series that they come from.
	// Mean and P95 are those of the absolute relative errors with the series, or the case if there is only one series,
	// left out of the calibration; absent for a prior.
	Points int                       `yaml:"points" json:"points"`
	Series int                       `yaml:"series" json:"series,omitempty"`
	Mean   sharing.Optional[float64] `yaml:"mean_error_fraction" json:"mean_error_fraction,omitzero"`
	P95    sharing.Optional[float64] `yaml:"p95_error_fraction" json:"p95_error_fraction,omitzero"`
}

type residuals = map[profile.Metric]Residual

// version is the version of a Predictor's JSON form.
const version = 4

// Predictor predicts co-location from profiles: it holds the constants of sharing a GPU and the expected errors. It is
// a value: copy it, write it as JSON, read it back with [ParsePredictor]. Make one with [NewPredictor], and calibrate
// it with [Predictor.Fit].
type Predictor struct {
	Version int `yaml:"version,required" json:"version"`
	// GPU and Driver are those on which it was measured.
	GPU        string     `yaml:"gpu_name,required" json:"gpu_name"`
	Driver     string     `yaml:"driver" json:"driver,omitempty"`
	Parameters Parameters `yaml:"parameters,required" json:"parameters"`
	// Models lists the models that the predictor was calibrated on; empty for priors. Intervals are wider for others.
	Models []string `yaml:"models" json:"models,omitempty"`
	// Engines lists the engines that it was calibrated on, in addition to that of the built-in constants.
	Engines []string `yaml:"engines" json:"engines,omitempty"`
	// Learned holds corrections of engines and tenants that the models were not calibrated on.
	Learned []Learned `yaml:"learned" json:"learned,omitempty"`
	// TimeSlicing and MPS are the expected errors, by metric, for groups of servers that the models are calibrated on.
	TimeSlicing map[profile.Metric]Residual `yaml:"time_slicing,required" json:"time_slicing"`
	MPS         map[profile.Metric]Residual `yaml:"mps,required" json:"mps"`
}

// Learned is the factor by which an engine, or a tenant without tokens, was slower co-located than predicted.
type Learned struct {
	Of        string            `yaml:"of,required" json:"of"` // the engine, or the tenant's model
	Mechanism sharing.Mechanism `yaml:"mechanism,required" json:"mechanism"`
	Factor    float64           `yaml:"factor,required" json:"factor"`         // of TPOT or a step
	HalfWidth float64           `yaml:"half_width,required" json:"half_width"` // as in Residual
	Points    int               `yaml:"points,required" json:"points"`
	Series    int               `yaml:"series,required" json:"series"`
}

// found returns the correction of an engine or tenant under a mechanism; nil where there is none.
func (p *Predictor) found(of string, m sharing.Mechanism) *Learned {
	if i := slices.IndexFunc(p.Learned, func(l Learned) bool { return l.Of == of && l.Mechanism == m }); i >= 0 {
		return &p.Learned[i]
	}
	return nil
}

// loneLayers are the layers of the server that LoneStepCost was derived for, a 1B model's, where it wasn't measured.
const loneLayers = 16

// NewPredictor returns the predictor for an H200 with driver 580, measured by this project. Its quantum and switch are
// measured; the other constants describe the co-location data there, and are priors on any other GPU.
func NewPredictor() Predictor {
	p := Predictor{Version: version, GPU: "H200", Driver: "580.159.04"}
	q, slices, mps := &p.Parameters, &table.Slices, &table.MPS
	measured := func(d time.Duration, low, high float64) Parameter {
		ms := inMillis(d)
		return Parameter{Value: ms, Unit: "ms", Low: low, High: high, Basis: sharing.BasisMeasured,
			Source: "cotenant-h200-quantum", Independent: sharing.Some(ms)}
	}
	s := timeslice.H200()
	q.Quantum, q.Switch = measured(s.Quantum, 0.2, 10), measured(s.Switch, 0.01, 1)
	q.SliceLoss, q.HostPerToken = prior(slices.SliceLoss), prior(slices.HostPerToken)
	q.BatchDoubling, q.HostFraction = prior(slices.BatchDoubling), prior(costs.Priors[costs.HostFraction])
	q.PrefillTokens = prior(slices.PrefillTokens)
	q.PrefillBusy, q.PrefillCatchUp = prior(slices.PrefillBusy), prior(slices.PrefillCatchUp)
	q.KernelBandwidth, q.MemoryBlocking = prior(mps.KernelBandwidth), prior(mps.MemoryBlocking)
	q.QueueShare, q.BatchWaits = prior(mps.QueueShare), prior(mps.BatchWaits)
	q.PrefillWaits = prior(mps.PrefillWaits)
	q.Arbitration, q.CapExponent = prior(mps.Arbitration), prior(mps.CapExponent)
	q.LoneStepCost = Parameter{Value: loneLayers * costs.Priors[costs.MPSStepPerLayer].Value, Unit: "ms", Low: 0, High: 3,
		Basis: sharing.BasisPrior, Source: "cotenant-h200-colocation"}
	p.TimeSlicing, p.MPS = residuals{}, residuals{}
	for m := range profile.MetricStepP50 {
		p.TimeSlicing[m] = Residual{HalfWidth: priorHalfWidths[0][m]}
		p.MPS[m] = Residual{HalfWidth: priorHalfWidths[1][m]}
	}
	return p
}

// priorHalfWidths are half-widths of the 90% intervals before there is data, for time-slicing and MPS by metric:
// about what leave-one-series-out gives on the H200 rows of decision/predict/testdata, and for TPOT and E2E P50 a
// quarter more, since unseen series were missed by that much more (tools/research/accuracy/REPORT-2026-11.md).
var priorHalfWidths = [2][profile.MetricStepP50]float64{
	{0.10, 0.11, 0.28, 0.50, 0.105, 0.10, 0.12, 0.10},
	{0.10, 0.14, 0.24, 0.42, 0.105, 0.13, 0.15, 0.08},
}

// Validate returns an error that names every problem of p, or nil.
func (p *Predictor) Validate() error {
	var list problem.List
	list.If(p.Version != version, "version",
		fmt.Sprintf("write version: %d if this version of the package made the file", version),
		"is %d, and this package reads %d", p.Version, version)
	list.If(p.GPU == "", "gpu_name", "", "is empty")
	for name, v := range p.Parameters.Named() {
		path := "parameters." + name
		switch {
		case math.IsNaN(v.Value) || math.IsNaN(v.Low) || math.IsNaN(v.High) || math.IsInf(v.Low, 0) || math.IsInf(v.High, 0):
			list.Addf(path, "", "must hold finite numbers")
		case v.Unit == "":
			list.Addf(path+".unit", "", "is empty")
		case v.Value < v.Low || v.Value > v.High:
			list.Addf(path+".value", "calibrate on other data", "%v %s is outside its plausible range, %v to %v", v.Value,
				v.Unit, v.Low, v.High)
		case v.Low < 0:
			list.Addf(path+".low", "", "is negative")
		}
	}
	if p.Parameters.Quantum.Value <= 0 {
		list.Addf("parameters.quantum.value", "", "must be positive")
	} else if p.Parameters.slice() <= 0 {
		list.Addf("parameters.slice_loss.value", "", "leaves nothing of the quantum")
	}
	for i, l := range p.Learned {
		path := fmt.Sprintf("learned[%d]", i)
		list.If(l.Of == "", path+".of", "", "is empty")
		list.If(!(l.Factor > 0.1 && l.Factor < 10), path+".factor", "", "must lie between 0.1 and 10, is %v", l.Factor)
		list.If(!(l.HalfWidth > 0 && l.HalfWidth < 5), path+".half_width", "", "must be positive and below 5")
		list.If(l.Points < 1 || l.Series < 1, path, "", "rests on no measurement")
	}
	for i, name := range []string{"time_slicing", "mps"} {
		residuals := p.residuals(profile.Mechanisms[i])
		for m := range profile.MetricStepP50 {
			if w := residuals[m].HalfWidth; !(w > 0 && w < 5) {
				list.Addf(name+"."+m.String()+".half_width", "", "must be positive and below 5")
			}
		}
	}
	return list.Err()
}

// residuals returns the errors to expect under a mechanism.
func (p *Predictor) residuals(m sharing.Mechanism) residuals {
	if m == sharing.MechanismMPS {
		return p.MPS
	}
	return p.TimeSlicing
}

// widened returns residuals with half-widths that hold another error too.
func widened(r residuals, by float64) residuals {
	out := maps.Clone(r)
	for m, v := range out {
		v.HalfWidth = math.Hypot(v.HalfWidth, by)
		out[m] = v
	}
	return out
}

// slice returns the time of a slice in which work advances, and change its time without work, in ms.
func (p *Parameters) slice() float64  { return p.Quantum.Value - p.SliceLoss.Value }
func (p *Parameters) change() float64 { return p.Switch.Value + p.SliceLoss.Value }

// Scheduler returns the time-slicing of the parameters; SliceLoss is subtracted from the quantum.
func (p *Parameters) Scheduler() timeslice.Scheduler {
	return timeslice.Scheduler{Quantum: millis(p.slice()), Switch: millis(p.change())}
}

// Law returns the constants of contention among MPS clients.
func (p *Parameters) Law() contention.Law {
	mps := &table.MPS
	return contention.Law{MostReading: 0.85, // so that waits end; no server that was measured reads more
		CappedReading: mps.CappedReading.Value, CappedBlocking: mps.CappedBlocking.Value, CappedAlone: mps.CappedAlone.Value,
		FillsGPU: mps.FillsGPU.Value, SlowestSpeed: mps.SlowestSpeed.Value,
		KernelBandwidth: p.KernelBandwidth.Value, MemoryBlocking: p.MemoryBlocking.Value, QueueShare: p.QueueShare.Value,
		Arbitration: p.Arbitration.Value}
}

// meanSlices is the mean number of slices of a step that takes quanta of them: near a whole number it may be either.
func meanSlices(quanta float64) float64 {
	within := timeslice.BoundaryTolerance * quanta
	n := max(1, math.Ceil(quanta-within))
	if quanta+within <= n {
		return n
	}
	return n + min(1, (quanta+within-n)/(2*within))
}

// transferSigma is the standard deviation of the logarithm that a transfer to another GPU adds; nil is an unknown one.
func transferSigma(from, to *sharing.GPU) float64 {
	switch {
	case from == nil || to == nil || from.Architecture != to.Architecture:
		return table.Doubts.Far.Value
	case from == to:
		return 0
	}
	return table.Doubts.Near.Value
}

// prior returns a constant as a parameter.
func prior(c costs.Constant) Parameter {
	return Parameter{Value: c.Value, Unit: c.Unit, Low: c.Range[0], High: c.Range[1], Basis: sharing.BasisPrior,
		Source: c.Source}
}
