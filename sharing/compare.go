package sharing

// AxisComparison is one axis of a comparison.
type AxisComparison struct {
	Axis Axis
	A, B Property // what holds in the environment
}

// Comparison sets two mechanisms side by side in one environment.
type Comparison struct {
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
	c := Comparison{AvailableA: Available(a, env), AvailableB: Available(b, env), InfoA: InfoFor(a),
		InfoB: InfoFor(b)}
	for i := range c.Axes {
		axis := Axis(i)
		c.Axes[i] = AxisComparison{axis, IsolationIn(a, axis, env), IsolationIn(b, axis, env)}
	}
	return c
}
