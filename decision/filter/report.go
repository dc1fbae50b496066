// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"

	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

const maxReasons = 16 // bound of the reasons of a report; no path through the checks gives more

// Report holds the checks' reasons about a demand on a target by one mechanism.
type Report struct {
	Mechanism sharing.Mechanism
	Verdict   Verdict // the worst verdict of the reasons
	// Tenants is the number of replicas expected on one GPU, and Slowdown their mutual slowdown.
	Tenants  int
	Slowdown profile.Interval

	slice  int16 // index into the target's slices, -1 = none
	n      uint8
	notes  [maxReasons + 1]note // the last one takes any excess
	demand *Demand
	target *Target
}

// note is a reason as small as a report can keep it.
type note struct {
	code       Code
	verdict    Verdict
	metric     profile.Metric
	axis       sharing.Axis
	level      sharing.Level
	slice      int16 // index into the target's slices plus one
	need, have int64
}

// say adds a reason without numbers, and returns it so that numbers can be set.
func (r *Report) say(v Verdict, c Code) *note {
	if v.Severity() > r.Verdict.Severity() {
		r.Verdict = v
	}
	n := &r.notes[r.n]
	if r.n < maxReasons {
		r.n++
	}
	*n = note{code: c, verdict: v}
	return n
}

func (r *Report) compare(v Verdict, c Code, need, have int64) *note {
	n := r.say(v, c)
	n.need, n.have = need, have
	return n
}

// Len is the number of reasons.
func (r *Report) Len() int { return int(r.n) }

// Reason returns the i-th reason, in the order of the checks.
func (r *Report) Reason(i int) Reason {
	n := &r.notes[:r.n][i]
	why := Reason{Code: n.code, Verdict: n.verdict, Mechanism: r.Mechanism, Axis: n.axis, Level: n.level, Metric: n.metric,
		Need: n.need, Have: n.have, demand: r.demand, target: r.target}
	if n.slice > 0 {
		why.Profile = r.target.slices[n.slice-1].Profile
	}
	return why
}

// Slice returns the MIG profile that the checks chose, or nil. It is read-only.
func (r *Report) Slice() *MIGSlice {
	if r.slice < 0 {
		return nil
	}
	return &r.target.slices[r.slice]
}

func (r *Report) reset(t *Target, d *Demand, m sharing.Mechanism) {
	r.Mechanism, r.Verdict, r.Tenants, r.slice, r.n, r.demand, r.target = m, VerdictPass, 1, -1, 0, d, t
}

// Reason is one check's answer: a code, its verdict, and the compared figures. The [Code] defines the operands in use
// and their units. A Reason is comparable.
type Reason struct {
	Code      Code
	Verdict   Verdict
	Mechanism sharing.Mechanism
	Axis      sharing.Axis  // of isolation
	Level     sharing.Level // required on the axis
	Metric    profile.Metric
	Tenants   int32        // replicas on the GPU
	Profile   *mig.Profile // the MIG slice concerned
	// Need is the demand, or a limit; Have is the available or found amount; Low and High bound Have if it is predicted.
	Need, Have, Low, High int64

	demand *Demand // nil = not known
	target *Target // nil = not known
}

// ReasonText is a reason in words, as results hold it.
type ReasonText struct {
	Code    Code             `json:"code"`
	Message string           `json:"message"`
	Source  sharing.SourceID `json:"source,omitempty"` // absent if the reason depends only on the input
	Verdict Verdict          `json:"verdict"`          // the candidate's verdict by this reason alone
}

// Text puts the reason into words, with its source.
func (r Reason) Text() ReasonText {
	return ReasonText{Code: r.Code, Message: r.String(), Source: r.source(), Verdict: r.Verdict}
}

// source is that of the statement about this mechanism on this GPU, else the code's.
func (r *Reason) source() sharing.SourceID {
	if t := r.target; t != nil {
		id := sharing.SourceID("")
		switch r.Code {
		case codes.Isolation, codes.IsolationUnknown, codes.Weaker:
			id = t.isolation[r.Mechanism][r.Axis].Source
		case codes.Hardware, codes.HardwareUnknown:
			id = t.available[r.Mechanism].Source
		case codes.MultiGPU:
			if traits.Of(r.Mechanism).Sliced {
				id = "nvidia-mig-guide-deployment"
			}
		}
		if id != "" {
			return id
		}
	}
	return codes.Words[r.Code].Source
}

// About returns the reason with the subjects of its text.
func (r Reason) About(d *Demand, t *Target) Reason {
	r.demand, r.target = d, t
	return r
}

// Pass returns the reason of a candidate without objections.
func Pass() Reason { return Reason{Verdict: VerdictPass} }

// share writes thousandths as a percentage.
func share(permille int64) string { return fmt.Sprintf("%.3g%%", float64(permille)/10) }

// millis are microseconds in milliseconds.
func millis(micros int64) float64 { return float64(micros) / 1e3 }
