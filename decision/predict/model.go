// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"math"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// cycleOf is a closed loop's time from one request in a slot to the next, with steps and prefills of these lengths.
func (t *tenantModel) cycleOf(step, prefill float64) float64 {
	return t.batch*prefill + t.steps*step + table.Steps.ClientDelay.Value
}

// launches is the number of pieces in which a prefill of kernels launched one by one, or a step with gaps, reaches the
// GPU: finer ones predict no better.
const launches = 20

// middle is the mean of the values from the 40th to the 60th percentile: where half of the steps wait for a slice
// and half do not, chance decides on which side of the gap the median lies.
func middle(sorted []float64) float64 {
	n, sum := float64(len(sorted)), 0.0
	mid := sorted[int(0.4*n):int(math.Ceil(0.6*n))]
	for _, v := range mid {
		sum += v
	}
	return sum / float64(len(mid))
}

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func inMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// learnsAs returns the group in which mispredictions are learned: a server's engine, another tenant's model.
func learnsAs(b *profile.SoloProfile) string {
	if b.Kind == profile.KindServer {
		return b.Engine
	}
	return b.Server.Model
}

// tenantModel is a workload taken apart for prediction. Times are in milliseconds, rates in requests a millisecond.
type tenantModel struct {
	demand
	work
	slicing
	blocking
	evidence
	isolated profile.Figures // of the isolated workload under the mechanism
	// reference is the value that a slowdown is relative to.
	reference float64
	growth    sharing.Optional[float64] // of the first token co-located, for each ms of a token's
	// offered is the half-width of an open loop's offered load: chance gives another seed another number of requests.
	offered float64
	// widen is added to the intervals' half-widths in quadrature.
	widen float64
	notes []string
}

// demand is the load of a tenant on the GPU.
type demand struct {
	base     *profile.SoloProfile // which it was read from
	pressure *profile.Pressure    // measured under MPS, whichever profile it was read from; nil where it was not
	kind     profile.Kind
	closed   bool
	clients  int
	rate     float64
	output   int
	steps    float64 // decode steps of a request: one fewer than its tokens
	slots    int
	think    float64 // between two steps of a burster
	pieces   int     // in which a server's prefill or another tenant's step reaches the GPU
	gaps     bool    // its kernels are launched one by one
	busy     float64 // of a step with gaps, in which the GPU works; 0 = not known
}

// work holds the parts of steps and prefills. A decode step with batch sequences in it takes host + perToken x batch on
// the host, then gpu on the GPU.
type work struct {
	adjusted
	host, perToken, batch, doubling float64
	added                           float64 // to each step, on top of the profile's
	// interrupts is the number of prefills, others' included, between a request's first and last token.
	interrupts float64
	cycle      float64 // closed loop: from one request in a slot of the batch to the next
}

// adjusted holds the parts of an isolated engine that are adjusted until it matches its profile: the times of a step
// and of a prefill, and the GPU's work in each.
type adjusted struct{ step, gpu, prefill, prefillGPU float64 }

// slicing holds the time slices of a step.
type slicing struct {
	sliceCount float64 // of a step, as counted with a spinning neighbour; 0 = not counted
	edge       float64 // slices that end where a step does, which may take one more, 0 = none do
	length     float64 // gpu, before it was moved to the slices that were counted
	otherWay   int8    // slices more than counted that a step may take as well: 1, -1, or 0 = sure
	otherShare float64 // of the steps that were counted with otherWay, with its sign
}

// blocking holds the delays between a tenant's kernels and those of others under MPS: by phase, by how much work takes
// longer for a neighbour that holds up others by 1, and by how much it holds up others; see tenantModel.findWaits.
type blocking struct {
	decodeWaits, prefillWaits, holds float64

	sms, filled float64 // of its time on the GPU in which its kernels leave others' no room, and those that fill the GPU
	unknownSMs  bool    // sms is assumed
	smsError    float64 // half-width that not knowing sms well adds to the intervals of its neighbours
}

// evidence holds the sources of the prediction of a tenant in its group.
type evidence struct {
	level       evidenceLevel
	response    float64  // its main figure in the group by its measurements, ms; 0 = not known
	least       float64  // the same with the neighbours of known pressure only, a lower bound
	apart       float64  // distance of the simulated figure from it, as a logarithm
	learned     *Learned // of its engine or model; nil = nothing
	seen        bool     // its engine is one that the predictor was calibrated on
	transferred bool     // the parameters are of another GPU
}

func (t *tenantModel) note(widen float64, format string, args ...any) {
	t.widen = math.Hypot(t.widen, widen)
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

func (t *tenantModel) stretch(extra float64) {
	request := t.steps * extra
	t.step += extra
	t.added += extra
	for _, m := range []profile.Metric{profile.MetricTPOTP50, profile.MetricTPOTP99} {
		if t.isolated[m] > 0 {
			t.isolated[m] += extra
		}
	}
	if t.closed {
		e2e := t.isolated[profile.MetricE2EP50]
		t.isolated[profile.MetricTokensPerSecond] *= e2e / (e2e + request)
	}
	for _, m := range []profile.Metric{profile.MetricE2EP50, profile.MetricE2EP90, profile.MetricE2EP99} {
		if t.isolated[m] > 0 {
			t.isolated[m] += request
		}
	}
}

// liveFraction is the share of time in which an open loop has a request that takes ms, by Poisson arrivals.
func (t *tenantModel) liveFraction(ms float64) float64 { return 1 - math.Exp(-t.rate*ms) }

// activeShare is the share of time in which a tenant has work at all: all of a closed loop's and a stepper's.
func (t *tenantModel) activeShare() float64 {
	switch {
	case t.kind == profile.KindBurster:
		return t.step / (t.step + t.think)
	case !t.closed:
		return t.liveFraction(t.isolated[profile.MetricE2EP50])
	}
	return 1
}

// waitsAssumed reports that a tenant's waits for a spinning neighbour were not counted.
func (t *tenantModel) waitsAssumed() bool {
	return t.base.Mechanism == sharing.MechanismTimeSlicing && t.base.SlicesPerStep.Or(0) <= 0
}
