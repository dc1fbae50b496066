// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"errors"

	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/internal/enum"
)

// Code identifies the subject of a reason. Compare its text, such as "gpu-memory", which is stable and part of outputs.
// Of two refusals the one with the later code is closer to a fit.
type Code uint8

var codeNames = func() *enum.Names[Code] {
	names := make([]string, codes.Count)
	for c := range codes.Words {
		names[c] = codes.Words[c].Code
	}
	return enum.Of[Code](errUnknownName, "code", names...)
}()

// Codes lists every code in the order of their values.
func Codes() []Code { return codeNames.Values() }

// errUnknownName is wrapped by the error about a text that names no verdict or code, or a value that has no text.
var errUnknownName = errors.New("filter: unknown name")

// Verdict is the answer of a check, or of all checks together, about a candidate. The zero value is VerdictUnknown.
type Verdict uint8

// The verdicts.
const (
	VerdictUnknown Verdict = iota // undecided; the reason names the measurement that would decide it
	VerdictReject                 // does not fit
	VerdictFixable                // fits after the change in the reason
	VerdictPass                   // fits
)

var verdictNames = enum.Of[Verdict](errUnknownName, "verdict", "unknown", "reject", "fixable", "pass")

var severities = [...]int{VerdictUnknown: 2, VerdictReject: 3, VerdictFixable: 1, VerdictPass: 0}

// Severity orders verdicts: 0 for pass, then fixable, unknown and reject.
func (v Verdict) Severity() int { return severities[v&3] }
