package gate

import (
	"fmt"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Reason is one gate's word: a code, the verdict that it alone gives, and what was compared. Which of the operands
// mean something, and their units, stands with the [Code]. A Reason is comparable.
type Reason struct {
	Code      Code
	Verdict   Verdict
	Mechanism sharing.Mechanism
	Axis      sharing.Axis  // of isolation
	Level     sharing.Level // that is demanded on it
	Metric    profile.Metric
	Tenants   int32        // replicas on the GPU
	Profile   *mig.Profile // the MIG slice that it is about
	// Need is the demand, or a limit; Have is the amount that there is, or that was
	// found; Low and High bound it where it is predicted.
	Need, Have, Low, High int64

	demand *Demand // nil = not known
	ground *Ground // nil = not known
}

// ReasonText is a reason in words, as results hold it.
type ReasonText struct {
	Code    Code             `json:"code"`
	Message string           `json:"message"`
	Source  sharing.SourceID `json:"source,omitempty"` // absent where it rests on the input alone
	Verdict Verdict          `json:"verdict"`          // the candidate's verdict by this reason alone
}

// Text puts the reason into words, with its source.
func (r Reason) Text() ReasonText {
	return ReasonText{Code: r.Code, Message: r.String(), Source: r.source(), Verdict: r.Verdict}
}

// source is that of the statement about this mechanism on this GPU, else the code's.
func (r *Reason) source() sharing.SourceID {
	if g := r.ground; g != nil {
		id := sharing.SourceID("")
		switch r.Code {
		case CodeIsolation, CodeIsolationUnknown, CodeWeaker:
			id = g.isolation[r.Mechanism][r.Axis].Source
		case CodeHardware, CodeHardwareUnknown:
			id = g.available[r.Mechanism].Source
		}
		if id != "" {
			return id
		}
	}
	return r.Code.Source()
}

// About returns the reason with what its words may name.
func (r Reason) About(d *Demand, g *Ground) Reason {
	r.demand, r.ground = d, g
	return r
}

// Pass is the reason where nothing speaks against a candidate.
func Pass() Reason { return Reason{Verdict: VerdictPass} }

// Closer makes r the reason that came nearer to a fit.
func (r *Reason) Closer(other Reason) {
	nearer := other.Have > r.Have
	switch {
	case other.Code != r.Code:
		nearer = other.Code > r.Code
	case other.Verdict != r.Verdict:
		nearer = other.Verdict == VerdictUnknown
	}
	if nearer {
		*r = other
	}
}

// share writes thousandths as a percentage.
func share(permille int64) string { return fmt.Sprintf("%.3g%%", float64(permille)/10) }

// millis are microseconds in milliseconds.
func millis(micros int64) float64 { return float64(micros) / 1e3 }
