package sharing

import "slices"

// Severity says how much a trap costs whoever falls into it. The zero value,
// SeverityUnknown, is no severity.
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

var severityNames = [...]string{"unknown", "info", "low", "medium", "high", "critical"}

// String returns the severity's text, for example "high".
func (s Severity) String() string { return enumName(severityNames[:], int(s), "Severity") }

// MarshalText returns the severity's text.
func (s Severity) MarshalText() ([]byte, error) {
	return enumText(severityNames[:], int(s), "severity")
}

// UnmarshalText reads a severity's text.
func (s *Severity) UnmarshalText(b []byte) error {
	i, err := enumParse(severityNames[:], b, "severity")
	if err == nil {
		*s = Severity(i)
	}
	return err
}

// Trap is a claim or a habit that looks right and fails in production.
type Trap struct {
	ID        string // "T1" to "T21", "M1" to "M17"
	Statement string // what is believed or done
	Truth     string // what is so
	Detection string // how to notice it in a plan or on a machine
	Severity  Severity
	Sources   []SourceID // where it comes from, the row itself first
}

// Traps lists all traps: T1 to T21, then M1 to M17. The slice is the caller's;
// the Sources of its rows are shared and must not be modified.
func Traps() []Trap { return slices.Clone(trapTable) }

// TrapByID returns the trap of an id, and whether there is one.
func TrapByID(id string) (Trap, bool) {
	for i := range trapTable {
		if trapTable[i].ID == id {
			return trapTable[i], true
		}
	}
	return Trap{}, false
}
