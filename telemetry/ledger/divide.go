// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"math"
	"slices"
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
	// Mechanism is the way in which the GPU was shared. Mechanisms other than Exclusive, MPS and MIG are divided as
	// TimeSlicing.
	Mechanism sharing.Mechanism
	// Busy is the share of the time in which the GPU ran anything, from 0 to 1; missing if not observed or not reported.
	// Under MIG instances have their own.
	Busy sharing.Optional[float64]
	// Powered answers whether resident programs keep the power above deep idle; unknown counts as yes.
	Powered sharing.Answer
	// Slots is the whole GPU in the units of Claim.Held, as its delivery gives it out: replicas of a shared GPU, bytes of
	// memory, percent. With 0 the claims with Held share all of it; without any, the holders are unknown, and resident
	// claims count as holders of equal parts, as they do if the holding pod is KAI's or Run:ai's reservation.
	Slots int
	// SwitchShare is the largest share of the time that switching contexts can take under time-slicing.
	SwitchShare float64
	// Samples is the number of the driver's samples that Claim.Busy rests on under time-slicing; 0 is not known. The
	// driver charges each sample to the one process that ran at that instant, so that the figures of several processes
	// have a sampling error: twice its standard deviation widens the bounds.
	Samples float64
	// ComputeSlices is the GPU's number of them under MIG. 0 is 7; an A30 has 4.
	ComputeSlices int
	// Claims are the claims of containers that use or hold the GPU.
	Claims []Claim
}

// Claim is one container's claim to a GPU, or to an instance under MIG.
type Claim struct {
	// Pod is the owner; the zero Pod means unknown.
	Pod container.Pod
	// Resident is set if one of its processes holds a context.
	Resident bool
	// Held is the number of Window.Slots that it was given; under MIG, its shares of the instance.
	Held int
	// Busy is the share of the time in which its kernels ran, from 0 to 1: of the GPU under time-slicing, of its instance
	// under MIG. Missing means not measured.
	Busy sharing.Optional[float64]
	// Tokens counts the tokens that it served in the window, for MPS.
	Tokens sharing.Optional[float64]
	// Slices is the number of compute slices of its instance under MIG; 0 means unknown. Claims with the same Instance
	// share it; without one each claim has an instance of its own.
	Slices   int
	Instance sharing.Optional[int]
	// Overhead marks the mechanism's own process, such as the MPS server, which is no tenant. Its Busy is the part that
	// it takes for itself.
	Overhead bool
}

func (c *Claim) known() bool { return c.Pod != (container.Pod{}) }

// reserves reports that a scheduler's own pod holds a GPU in place of the pods that share it, as KAI's and Run:ai's do.
func (c *Claim) reserves() bool {
	return c.Pod.Namespace == "kai-resource-reservation" || c.Pod.Namespace == "runai-reservation"
}

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
		return fmt.Errorf("%w: %w", errInput, err)
	}
	return nil
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
	// holders is set where the GPU's holders are known.
	holders bool
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
		d.give(accountUnattributed, container.Pod{}, sharing.BasisUnknown, rest)
	}
	d.residents()
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

// residents marks one share of each pod that is resident, and gives those that have none one of no time.
func (d *division) residents() {
	marked := map[container.Pod]bool{}
	for _, c := range d.w.Claims {
		if c.Overhead || !c.Resident || marked[c.Pod] {
			continue
		}
		marked[c.Pod] = true
		k := slices.IndexFunc(d.shares, func(s share) bool {
			return s.Pod == c.Pod && s.Account != accountIdle && s.Account != accountOverhead
		})
		if k < 0 {
			none := share{Part: Part{Account: accountExecutionIdle, Pod: c.Pod, Basis: sharing.BasisMeasured}}
			if !c.known() {
				none.Account = accountUnattributed
			}
			k, d.shares = 0, slices.Insert(d.shares, 0, none)
		}
		d.shares[k].Resident = true
	}
}

// idle divides an idle share of the GPU, or of an instance, among its holders. With several holders that is
// arithmetic, not measurement.
func (d *division) idle(v float64, slots int, claims []Claim) {
	if v <= 0 {
		return
	}
	parts, held, holders := make([]int, len(claims)), 0, 0
	for i, c := range claims {
		switch {
		case c.Overhead:
		case d.holders:
			parts[i] = c.Held
		case c.Resident:
			parts[i] = 1
		}
		held += parts[i]
		holders += min(parts[i], 1)
	}
	basis := sharing.BasisDerived
	if holders == 1 {
		basis = sharing.BasisMeasured
	}
	whole := max(slots, held, 1)
	for i, n := range parts {
		if n > 0 {
			account := accountHeldIdle
			if claims[i].Resident && d.w.Powered != sharing.AnswerNo {
				account = accountExecutionIdle
			}
			d.give(account, claims[i].Pod, basis, v*float64(n)/float64(whole))
		}
	}
	if held < whole {
		d.give(accountIdle, container.Pod{}, sharing.BasisMeasured, v*float64(whole-held)/float64(whole))
	}
}
