package sharing

import "fmt"

// Answer is a three-valued answer. The zero value is Unknown.
type Answer uint8

// The answers.
const (
	AnswerUnknown Answer = iota
	AnswerNo
	AnswerYes
)

var answerNames = [...]string{AnswerUnknown: "unknown", AnswerNo: "no", AnswerYes: "yes"}

// String returns "unknown", "no" or "yes".
func (a Answer) String() string { return enumName(answerNames[:], int(a), "Answer") }

// MarshalText returns the answer's text; a value that is no answer is an error.
func (a Answer) MarshalText() ([]byte, error) { return enumText(answerNames[:], int(a), "answer") }

// UnmarshalText reads "unknown", "no" or "yes".
func (a *Answer) UnmarshalText(b []byte) error {
	i, err := enumParse(answerNames[:], b, "answer")
	if err == nil {
		*a = Answer(i)
	}
	return err
}

// AnswerOf turns a known boolean into an Answer.
func AnswerOf(b bool) Answer {
	if b {
		return AnswerYes
	}
	return AnswerNo
}

// Basis says what kind of evidence a figure or statement rests on. The zero
// value is BasisUnknown.
type Basis uint8

// The kinds of evidence, weakest claims last.
const (
	BasisUnknown    Basis = iota // no source
	BasisMeasured                // measured; the source names the run
	BasisDocumented              // the vendor's or project's own documentation, source code or binary
	BasisDerived                 // arithmetic on sourced figures
	BasisFitted                  // a parameter fitted to data; the source names the data
	BasisPopular                 // a widely read article, not a primary source
	BasisSecondHand              // quoted by a third party
	BasisInferred                // our reading; no source says it in so many words
	BasisPrior                   // an assumption to start from, to be replaced by a measurement
	BasisSimulated               // the output of a simulation
)

var basisNames = [...]string{"unknown", "measured", "documented", "derived", "fitted", "popular", "second-hand", "inferred", "prior", "simulated"}

// String returns the basis's text, for example "documented".
func (b Basis) String() string { return enumName(basisNames[:], int(b), "Basis") }

// MarshalText returns the basis's text.
func (b Basis) MarshalText() ([]byte, error) { return enumText(basisNames[:], int(b), "basis") }

// UnmarshalText reads a basis's text.
func (b *Basis) UnmarshalText(t []byte) error {
	i, err := enumParse(basisNames[:], t, "basis")
	if err == nil {
		*b = Basis(i)
	}
	return err
}

func enumName(names []string, i int, typ string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("%s(%d)", typ, i)
	}
	return names[i]
}

func enumText(names []string, i int, what string) ([]byte, error) {
	if i < 0 || i >= len(names) {
		return nil, fmt.Errorf("sharing: %d is no %s", i, what)
	}
	return []byte(names[i]), nil
}

func enumParse(names []string, b []byte, what string) (int, error) {
	for i, n := range names {
		if n == string(b) {
			return i, nil
		}
	}
	return 0, &UnknownNameError{Kind: what, Name: string(b), Known: names}
}
