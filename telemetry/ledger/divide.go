package ledger

import (
	"fmt"
	"math"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// spread bounds how many times as much GPU time a token of one client takes as another's under MPS: the GPU time of a
// token in one batch differs about eight times between models of 1 and 8 billion parameters.
const spread = 8

// Window holds the observations of a GPU over a stretch of time.
type Window struct {
	// Length is the window's duration.
	Length time.Duration
	// Mechanism is the way in which the GPU was shared. What is neither Exclusive, MPS nor
	// MIG is divided as TimeSlicing.
	Mechanism sharing.Mechanism
	// Busy is the share of the time in which the GPU did something, from 0 to 1; missing where nobody looked or the
	// GPU cannot say. Under MIG instances have their own.
	Busy Optional[float64]
	// Powered answers whether resident programs keep the power above deep idle; unknown counts as yes.
	Powered sharing.Answer
	// Slots is the number of devices that a plugin offers of it: the replicas of a shared
	// GPU. 0 is not known: then whatever is given out holds all of it.
	Slots int
	// SwitchShare is the most of the time that switching between contexts can take under time-slicing.
	SwitchShare float64
	// Samples is the number of the driver's samples that Claim.Busy rests on under time-slicing; 0 is not known.
	// The driver charges each sample to the one process that ran at its instant, so that the figures of several
	// processes have the error of a draw: twice its standard deviation widens the bounds.
	Samples float64
	// ComputeSlices is the GPU's number of them under MIG. 0 is 7; an A30 has 4.
	ComputeSlices int
	// Claims are those who used the GPU or were given it.
	Claims []Claim
}

// Claim is one container's claim to a GPU, or to an instance under MIG.
type Claim struct {
	// Pod is whose it is; the zero Pod is not known.
	Pod container.Pod
	// Resident says that a process of it holds a context.
	Resident bool
	// Held is the number of Window.Slots that it was given.
	Held int
	// Busy is the share of the time in which its kernels ran, from 0 to 1: of the GPU under time-slicing, of its
	// instance under MIG. Missing is not measured.
	Busy Optional[float64]
	// Tokens counts those that it served in that time, for MPS.
	Tokens Optional[float64]
	// Slices is the number of compute slices of its instance under MIG.
	Slices int
	// Overhead says that it is no tenant but the mechanism's own process.
	Overhead bool
}

func (c *Claim) known() bool { return c.Pod != (container.Pod{}) }

func (w *Window) check() error {
	var probs problem.List
	fraction := func(path string, v float64) {
		probs.If(!(v >= 0 && v <= 1), path, "use 0 to 1", "%v is no share", v)
	}
	probs.If(w.Length < 0, "length", "use 0 or more", "%v", w.Length)
	fraction("busy", w.Busy.Or(0))
	fraction("switch_share", w.SwitchShare)
	probs.If(!(w.Samples >= 0) || math.IsInf(w.Samples, 0), "samples", "use 0 or more", "%v samples", w.Samples)
	probs.If(w.Slots < 0 || w.ComputeSlices < 0, "slots", "use 0 or more", "a count below zero")
	for i, c := range w.Claims {
		at := fmt.Sprintf("claims[%d]", i)
		fraction(at+".busy", c.Busy.Or(0))
		t := c.Tokens.Or(0)
		probs.If(!(t >= 0) || math.IsInf(t, 0), at+".tokens", "use 0 or more", "%v tokens", t)
		probs.If(c.Held < 0 || c.Slices < 0, at, "use 0 or more", "a count below zero")
	}
	if err := probs.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	return nil
}

// Divide divides a window. The parts' times add up to Length exactly; what cannot be told is a part of
// AccountUnattributed. Every claim whose pod is known has a part, be it of no time.
//
// Under time-slicing each tenant has what the driver measured of its processes, held against what it measured of
// the GPU: an excess is scaled down, of a shortfall up to SwitchShare is overhead where two or more ran, and the
// rest is unattributed. Under MPS the driver cannot tell clients apart: the busy time is divided by tokens served,
// or equally, between bounds. Under MIG each instance has its own counters. Idle time is divided equally among
// those who are resident, or by what they hold.
func Divide(w Window) ([]Part, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	d := &division{w: &w}
	switch w.Mechanism {
	case sharing.MechanismMIG, sharing.MechanismMIGWithMPS:
		d.byInstance()
	case sharing.MechanismMPS, sharing.MechanismHAMiWithMPS:
		d.together()
	default:
		d.inTurn()
	}
	return d.parts(), nil
}

// share is a part as shares of the window.
type share struct {
	Part
	value, low, high float64
}

type division struct {
	w      *Window
	shares []share
	given  float64
}

func (d *division) give(a Account, pod container.Pod, basis sharing.Basis, value float64) {
	d.between(a, pod, basis, [3]float64{value, value, value})
}

// between gives a share with bounds: low, value, high.
func (d *division) between(a Account, pod container.Pod, basis sharing.Basis, v [3]float64) {
	d.shares = append(d.shares, share{Part{Account: a, Pod: pod, Basis: basis}, v[1], min(v[0], v[1]), max(v[1], v[2])})
	d.given += v[1]
}

// tiny is less than a nanosecond of any window that is posted.
const tiny = 1e-9

// parts turns the shares into whole nanoseconds by rounding their running sum, so that they add up to the length.
func (d *division) parts() []Part {
	if rest := 1 - d.given; rest > tiny {
		d.give(AccountUnattributed, container.Pod{}, sharing.BasisUnknown, rest)
	}
	length := float64(d.w.Length)
	sum, at := 0.0, time.Duration(0)
	out := make([]Part, len(d.shares))
	for i, s := range d.shares {
		sum += s.value
		to := d.w.Length
		if i < len(d.shares)-1 {
			to = min(time.Duration(math.Round(sum/d.given*length)), d.w.Length)
		}
		p := s.Part
		p.Time = to - at
		p.Low = min(time.Duration(s.low*length), p.Time)
		p.High = min(max(time.Duration(math.Ceil(s.high*length)), p.Time), d.w.Length)
		if s.low == s.value && s.high == s.value {
			p.Low, p.High = p.Time, p.Time
		}
		out[i], at = p, to
	}
	return out
}

// idle divides an idle share of the GPU, or of an instance, among its claims.
func (d *division) idle(v float64, slots int, claims []Claim) {
	if v <= 0 {
		return
	}
	var resident, holding []Claim
	held, stranger := 0, false
	for _, c := range claims {
		switch {
		case c.Overhead:
		case c.Resident && c.known():
			resident = append(resident, c)
		case c.Resident:
			stranger = true
		}
		if c.Held > 0 && c.known() {
			holding = append(holding, c)
			held += c.Held
		}
	}
	account := AccountExecutionIdle
	if d.w.Powered == sharing.AnswerNo {
		account = AccountHeldIdle
	}
	switch {
	case len(resident) > 0:
		if stranger { // an equal part is nobody's
			resident = append(resident, Claim{})
		}
		d.spread(account, v, resident, func(Claim) float64 { return 1 })
	case stranger:
		d.give(account, container.Pod{}, sharing.BasisMeasured, v)
	case len(holding) > 0:
		part := v
		if slots > held {
			part = v * float64(held) / float64(slots)
			d.give(AccountIdle, container.Pod{}, sharing.BasisMeasured, v-part)
		}
		d.spread(AccountHeldIdle, part, holding, func(c Claim) float64 { return float64(c.Held) })
	default:
		d.give(AccountIdle, container.Pod{}, sharing.BasisMeasured, v)
	}
}

// spread divides a share by weight. Among several that is arithmetic, not measurement.
func (d *division) spread(a Account, v float64, claims []Claim, weight func(Claim) float64) {
	sum := 0.0
	for _, c := range claims {
		sum += weight(c)
	}
	basis := sharing.BasisDerived
	if len(claims) == 1 {
		basis = sharing.BasisMeasured
	}
	for _, c := range claims {
		d.give(a, c.Pod, basis, v*weight(c)/sum)
	}
}
