package sharing

import "github.com/cotenant/cotenant/internal/enum"

// Side says which of two compared mechanisms has the better of it. The zero
// value is SideUnknown.
type Side uint8

// The sides.
const (
	SideUnknown Side = iota // one of the two is not known
	SideEqual
	SideA
	SideB
)

var sideNames = enum.Of[Side](ErrUnknownName, "side", "unknown", "equal", "a", "b")

// AxisComparison is one axis of a comparison.
type AxisComparison struct {
	Axis     Axis
	A, B     Property // what holds in the environment
	Stronger Side
}

// Comparison sets two mechanisms side by side in one environment.
type Comparison struct {
	A, B Mechanism
	// Axes holds the four axes in the order of their values.
	Axes [AxisCount]AxisComparison
	// AvailableA and AvailableB say whether the hardware can run each.
	AvailableA, AvailableB Finding
	// InfoA and InfoB hold what each is best for, when to avoid it and which
	// hardware it needs; they are shared and must not be modified.
	InfoA, InfoB Info
}

// Compare sets a and b side by side in env, by the primary reading.
func Compare(a, b Mechanism, env Environment) Comparison {
	c := Comparison{A: a, B: b, AvailableA: Available(a, env), AvailableB: Available(b, env), InfoA: InfoFor(a),
		InfoB: InfoFor(b)}
	for i := range c.Axes {
		axis := Axis(i)
		pa, pb := IsolationIn(a, axis, env), IsolationIn(b, axis, env)
		c.Axes[i] = AxisComparison{axis, pa, pb, stronger(pa.Level, pb.Level)}
	}
	return c
}

func stronger(a, b Level) Side {
	switch {
	case a == LevelUnknown || b == LevelUnknown:
		return SideUnknown
	case a == b:
		return SideEqual
	case a > b:
		return SideA
	}
	return SideB
}
