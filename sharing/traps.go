package sharing

import (
	"slices"

	"github.com/cotenant/cotenant/internal/enum"
)

// Severity says how much a trap costs whoever falls into it. The zero value, SeverityUnknown, is no severity.
type Severity uint8

// The severities, mildest first.
const (
	SeverityUnknown  Severity = iota
	SeverityInfo              // good to know
	SeverityLow               // a wrong figure in a report
	SeverityMedium            // wasted capacity or a missed target
	SeverityHigh              // an outage of one workload, or a plan that does not fit
	SeverityCritical          // tenants not isolated from one another though the plan says so
)

var severityNames = enum.Of[Severity](ErrUnknownName, "severity", "unknown", "info", "low", "medium", "high",
	"critical")

// Trap is a claim or a habit that looks right and fails in production.
type Trap struct {
	ID        string // in words, for example "mps-fault-spreads"
	Statement string // what is believed or done
	Truth     string // what is so
	Detection string // how to notice it in a plan or on a machine
	Remedy    string // what to do instead
	Severity  Severity
	Sources   []SourceID // what shows the truth, then who makes the claim
}

// trapTable holds first what widely read sources claim or fall into, then what
// fails with MPS, time-slicing and HAMi.
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
