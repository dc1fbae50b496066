package cost

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// PPM is a fraction in parts per million. It may be negative (a loss) or above Whole (a slowdown of 101%).
type PPM int64

// Units of fractions, to multiply as time.Second is: 8 * cost.Percent is 8%.
const (
	Percent PPM = 10_000    // one hundredth
	Whole   PPM = 1_000_000 // 100%
)

// ratio returns num/den as a PPM, rounded half away from zero. den must be above 0.
func ratio(num, den int64) (PPM, error) {
	q, ok := mulDiv(magnitude(num), uint64(Whole), uint64(den))
	if !ok || q > math.MaxInt64 {
		return 0, ErrOverflow
	}
	if num < 0 {
		return -PPM(q), nil
	}
	return PPM(q), nil
}

// PPMFromFloat returns the PPM nearest to a fraction (0.25 is 25%), rounding
// half away from zero. NaN, infinities and what does not fit are errors.
func PPMFromFloat(fraction float64) (PPM, error) {
	if math.IsNaN(fraction) || math.IsInf(fraction, 0) {
		return 0, badInput("a fraction must be a finite number, not %v", fraction)
	}
	r := new(big.Rat).SetFloat64(fraction)
	q := roundRat(r.Mul(r, new(big.Rat).SetInt64(int64(Whole))))
	if !q.IsInt64() {
		return 0, ErrOverflow
	}
	return PPM(q.Int64()), nil
}

// roundRat rounds half away from zero.
func roundRat(r *big.Rat) *big.Int {
	num := new(big.Int).Abs(r.Num())
	num.Lsh(num, 1).Add(num, r.Denom())
	q := num.Quo(num, new(big.Int).Lsh(r.Denom(), 1))
	if r.Sign() < 0 {
		q.Neg(q)
	}
	return q
}

// Float returns the fraction as a number: 0.08 for 8%.
func (p PPM) Float() float64 { return float64(p) / float64(Whole) }

// RoundPercent returns p rounded half away from zero to the given number of decimals of a percent, for display.
// Decimals above 4 leave p as it is; below 0 count as 0.
func (p PPM) RoundPercent(decimals int) PPM {
	step := Percent
	for range min(max(decimals, 0), 4) {
		step /= 10
	}
	rest := p % step
	switch t := p - rest; {
	case rest >= step-rest && t <= math.MaxInt64-step:
		return t + step
	case -rest >= step+rest && t >= math.MinInt64+step:
		return t - step
	default:
		return t
	}
}

// String returns the fraction in percent, exactly: "8%", "46.4286%", "-0.5%".
func (p PPM) String() string {
	sign := ""
	if p < 0 {
		sign = "-"
	}
	u := magnitude(int64(p))
	frac := strings.TrimRight(fmt.Sprintf("%04d", u%uint64(Percent)), "0")
	if frac != "" {
		frac = "." + frac
	}
	return fmt.Sprintf("%s%d%s%%", sign, u/uint64(Percent), frac)
}

// ParsePPM reads a percentage as String writes it, at most four decimals and a percent sign: "8%", "46.4286%". A
// bare number is refused: 8 could be meant as a fraction or as percent.
func ParsePPM(s string) (PPM, error) {
	num, ok := strings.CutSuffix(strings.TrimSpace(s), "%")
	why := `add a percent sign, for example "8%"`
	var v int64
	if ok {
		v, why = parseFixed(num, 4, math.MaxInt64)
	}
	if why != "" {
		return 0, badInput("%q is not a percentage: %s", problem.Clip(s), why)
	}
	return PPM(v), nil
}

func (p PPM) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what ParsePPM reads.
func (p *PPM) UnmarshalText(b []byte) error {
	v, err := ParsePPM(string(b))
	if err == nil {
		*p = v
	}
	return err
}
