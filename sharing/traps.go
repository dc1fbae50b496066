// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"slices"

	"github.com/cotenant/cotenant/internal/enum"
)

// Severity is the harm done by falling into a trap. The zero value is SeverityUnknown.
type Severity uint8

// The severities, mildest first.
const (
	SeverityUnknown  Severity = iota
	SeverityInfo              // good to know
	SeverityLow               // a wrong figure in a report
	SeverityMedium            // wasted capacity or a missed target
	SeverityHigh              // an outage of one workload, or a plan that does not fit
	SeverityCritical          // tenants not isolated although the plan promises it
)

var severityNames = enum.Of[Severity](ErrUnknownName, "severity", "unknown", "info", "low", "medium", "high",
	"critical")

// Trap is a plausible claim or habit that fails in production.
type Trap struct {
	ID        string // in words, for example "mps-fault-spreads"
	Statement string // the belief or practice
	Truth     string // the fact
	Detection string // how to notice it in a plan or on a machine
	Remedy    string // the better practice
	Severity  Severity
	Sources   []SourceID // first those of the truth, then of the claim
}

// trapTable holds first the traps of widely read sources, then those of MPS, time-slicing and HAMi.
var trapTable = table[Trap]("traps.json")

// Traps lists all traps. The slice is the caller's; the Sources of its rows are shared and must not be modified.
func Traps() []Trap { return slices.Clone(trapTable()) }

// TrapByID returns the trap of an id, and whether there is one.
func TrapByID(id string) (Trap, bool) {
	for _, t := range trapTable() {
		if t.ID == id {
			return t, true
		}
	}
	return Trap{}, false
}

// WarningCode names a kind of Warning for machines, for example "not-delivered". Each package lists its codes.
type WarningCode string

// Warning marks a part of a configuration that is legal but has no effect or an unexpected one: a field that the
// software ignores, a limit that cannot take effect, a document that lacks a feature gate.
type Warning struct {
	Code    WarningCode `json:"code"`
	Path    string      `json:"path,omitempty"` // where in the document, e.g. "mig.strategy"
	Message string      `json:"message"`
	Remedy  string      `json:"remedy,omitempty"`
	Source  SourceID    `json:"source,omitempty"`
}

// String formats the warning on one line.
func (w Warning) String() string {
	s := w.Message
	if w.Path != "" {
		s = w.Path + ": " + s
	}
	if w.Remedy != "" {
		s += " (" + w.Remedy + ")"
	}
	if w.Source != "" {
		s += " [" + string(w.Source) + "]"
	}
	return s
}
