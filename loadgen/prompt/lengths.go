package prompt

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/cotenant/cotenant/internal/problem"
)

// Lengths is a distribution of lengths in tokens.
type Lengths interface {
	// Draw returns a length of at least 1.
	Draw(rng *rand.Rand) int
	// String describes the distribution for the run's configuration.
	String() string
}

// Fixed is one length.
type Fixed int

// Draw returns the length.
func (f Fixed) Draw(*rand.Rand) int { return int(f) }

// String returns e.g. "fixed 128".
func (f Fixed) String() string { return fmt.Sprintf("fixed %d", int(f)) }

func (f Fixed) check() error { return checkLength("length", float64(f)) }

// Normal is a normal distribution, drawn again while outside of its bounds.
type Normal struct {
	Mean   float64 `yaml:"mean,required"`
	StdDev float64 `yaml:"std_dev"`
	Min    int     `yaml:"min"` // 0 means 1
	Max    int     `yaml:"max"` // 0 means no bound
}

// Draw returns a length.
func (n Normal) Draw(rng *rand.Rand) int {
	return within(n.Min, n.Max, func() float64 { return n.Mean + n.StdDev*rng.NormFloat64() })
}

// String returns e.g. "normal mean 550 sd 150, 1 to 1000".
func (n Normal) String() string {
	return fmt.Sprintf("normal mean %v sd %v%s", n.Mean, n.StdDev, bounds(n.Min, n.Max))
}

func (n Normal) check() error { return checkSpread(n.Mean, "mean", n.StdDev, "std_dev", n.Min, n.Max) }

// LogNormal is a log-normal distribution, drawn again while outside of its
// bounds: the shape that lengths of real prompts and answers mostly have.
type LogNormal struct {
	Median float64 `yaml:"median,required"`
	// Sigma is the standard deviation of the length's natural logarithm.
	Sigma float64 `yaml:"sigma"`
	Min   int     `yaml:"min"` // 0 means 1
	Max   int     `yaml:"max"` // 0 means no bound
}

// Draw returns a length.
func (n LogNormal) Draw(rng *rand.Rand) int {
	return within(n.Min, n.Max, func() float64 { return n.Median * math.Exp(n.Sigma*rng.NormFloat64()) })
}

// String returns e.g. "log-normal median 300 sigma 1".
func (n LogNormal) String() string {
	return fmt.Sprintf("log-normal median %v sigma %v%s", n.Median, n.Sigma, bounds(n.Min, n.Max))
}

func (n LogNormal) check() error {
	return checkSpread(n.Median, "median", n.Sigma, "sigma", n.Min, n.Max)
}

// Empirical draws one of the observed lengths, each as likely as the others.
type Empirical []int

// Draw returns a length.
func (e Empirical) Draw(rng *rand.Rand) int { return e[rng.IntN(len(e))] }

// String returns e.g. "empirical, 8819 lengths".
func (e Empirical) String() string { return fmt.Sprintf("empirical, %d lengths", len(e)) }

func (e Empirical) check() error {
	var l problem.List
	l.If(len(e) == 0, "", "give the observed lengths", "no lengths")
	for i, v := range e {
		if err := checkLength(fmt.Sprintf("[%d]", i), float64(v)); err != nil && l.Len() < problem.Enough {
			l.AddErr("", err)
		}
	}
	return l.Err()
}

// redraws bounds within: a distribution whose bounds cut nearly everything off is clamped instead.
const redraws = 64

func within(lo, hi int, draw func() float64) int {
	lo = max(lo, 1)
	hi = cmp.Or(hi, maxTraceTokens)
	v := 0.0
	for range redraws {
		if v = math.Round(draw()); v >= float64(lo) && v <= float64(hi) {
			return int(v)
		}
	}
	return int(min(max(v, float64(lo)), float64(hi)))
}

func bounds(lo, hi int) string {
	switch {
	case lo == 0 && hi == 0:
		return ""
	case hi == 0:
		return fmt.Sprintf(", at least %d", lo)
	}
	return fmt.Sprintf(", %d to %d", max(lo, 1), hi)
}

func checkLength(path string, v float64) error {
	if v >= 1 && v <= maxTraceTokens {
		return nil
	}
	return &problem.Problem{Path: path, Message: fmt.Sprintf("is %v", v),
		Remedy: fmt.Sprintf("use 1 to %d tokens", maxTraceTokens)}
}

func checkSpread(centre float64, centreName string, spread float64, spreadName string, lo, hi int) error {
	var l problem.List
	l.AddErr("", checkLength(centreName, centre))
	l.If(!(spread >= 0) || math.IsInf(spread, 0), spreadName, "use a finite value of 0 or more", "is %v", spread)
	l.If(lo < 0 || hi < 0 || hi != 0 && hi < max(lo, 1), "max", "use 0 <= min <= max", "bounds %d to %d", lo, hi)
	return l.Err()
}
