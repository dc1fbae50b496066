package gate

import (
	"errors"

	"github.com/cotenant/cotenant/internal/enum"
)

// ErrUnknownName is wrapped by the error about a text that names no verdict or code, or a value that has no text.
var ErrUnknownName = errors.New("gate: unknown name")

// Verdict is the answer of a gate, or of all gates together, about a candidate. The zero value is VerdictUnknown.
type Verdict uint8

// The verdicts.
const (
	VerdictUnknown Verdict = iota // cannot be told; the reason names the measurement that would settle it
	VerdictReject                 // does not do
	VerdictFixable                // does when the change in the reason is made
	VerdictPass                   // does
)

var verdictNames = enum.Of[Verdict](ErrUnknownName, "verdict", "unknown", "reject", "fixable", "pass")

var severities = [...]int{VerdictUnknown: 2, VerdictReject: 3, VerdictFixable: 1, VerdictPass: 0}

// Severity orders verdicts from a pass, 0, to the one that decides first: a
// rejection outweighs what is unknown, which outweighs what can be fixed.
func (v Verdict) Severity() int { return severities[v&3] }
