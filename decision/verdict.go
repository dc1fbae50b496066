package decision

// Verdict is what a gate, or all gates together, say of a candidate. The zero
// value is VerdictUnknown.
type Verdict uint8

// The verdicts.
const (
	VerdictUnknown Verdict = iota // cannot be told; the reason names the measurement that would settle it
	VerdictReject                 // does not do
	VerdictFixable                // does when the change in the reason is made
	VerdictPass                   // does
)

var verdictNames = []string{"unknown", "reject", "fixable", "pass"}

// String returns "unknown", "reject", "fixable" or "pass".
func (v Verdict) String() string { return nameOf(verdictNames, int(v)) }

// MarshalText returns the verdict's text.
func (v Verdict) MarshalText() ([]byte, error) { return textOf(verdictNames, int(v), "verdict") }

// UnmarshalText reads a verdict's text.
func (v *Verdict) UnmarshalText(b []byte) error {
	if string(b) == verdictNames[0] {
		*v = VerdictUnknown
		return nil
	}
	return parseName(verdictNames, b, "verdict", v)
}

// severity orders verdicts from the one that decides first: a rejection
// outweighs what is unknown, which outweighs what can be fixed.
func (v Verdict) severity() int {
	switch v {
	case VerdictReject:
		return 3
	case VerdictUnknown:
		return 2
	case VerdictFixable:
		return 1
	}
	return 0
}

func worse(a, b Verdict) Verdict {
	if b.severity() > a.severity() {
		return b
	}
	return a
}
