package sharing

import "github.com/cotenant/cotenant/internal/enum"

// Answer is a three-valued answer. The zero value is Unknown.
type Answer uint8

// The answers.
const (
	AnswerUnknown Answer = iota
	AnswerNo
	AnswerYes
)

var answerNames = enum.Of[Answer](ErrUnknownName, "answer", "unknown", "no", "yes")

// AnswerOf turns a known boolean into an Answer.
func AnswerOf(b bool) Answer {
	if b {
		return AnswerYes
	}
	return AnswerNo
}

// Basis says what kind of evidence a figure or statement rests on. The zero value is BasisUnknown.
type Basis uint8

// The kinds of evidence, weakest claims last.
const (
	BasisUnknown     Basis = iota // no source
	BasisMeasured                 // measured; the source names the run
	BasisDocumented               // the vendor's or project's own documentation, source code or binary
	BasisDerived                  // arithmetic on sourced figures
	BasisFitted                   // a parameter fitted to data; the source names the data
	BasisPopular                  // a widely read article, not a primary source
	BasisSecondHand               // quoted by a third party
	BasisInferred                 // our reading; no source says it in so many words
	BasisPrior                    // an assumption to start from, to be replaced by a measurement
	BasisSimulated                // the output of a simulation
	BasisTransferred              // found on another GPU and carried over
)

var basisNames = enum.Of[Basis](ErrUnknownName, "basis", "unknown", "measured", "documented", "derived", "fitted",
	"popular", "second-hand", "inferred", "prior", "simulated", "transferred")
