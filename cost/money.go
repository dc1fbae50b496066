package cost

import (
	"cmp"
	"fmt"
	"math/bits"

	"github.com/cotenant/cotenant/internal/problem"
)

// scale is the number of micro-units in one unit of a currency.
const scale = 1_000_000

// maxMicros bounds the magnitude of Money: four trillion units, so that the
// sum of two amounts fits 64 bits and Round can go up without an error.
const maxMicros = 4_000_000_000_000 * scale

// Money is an exact amount: a whole number of micro-units (millionths) of a currency, at most four trillion units
// either way. Money is comparable with ==; the zero Money is 0 of no currency and may be added to any amount.
type Money struct {
	micros   int64
	currency [3]byte
}

// FromMicros returns an amount of micro-units of a currency, which is three
// capital letters as in ISO 4217; no currency ("") is right for 0 only.
func FromMicros(micros int64, currency string) (Money, error) {
	m := Money{micros: micros}
	switch {
	case currency == "" && micros != 0:
		return Money{}, badInput("an amount other than 0 needs a currency")
	case currency != "" && !isCurrency(currency):
		return Money{}, badInput("%q is no currency (use three capital letters, for example USD)", problem.Clip(currency))
	case micros > maxMicros || micros < -maxMicros:
		return Money{}, ErrOverflow
	}
	copy(m.currency[:], currency)
	return m, nil
}

func isCurrency(s string) bool {
	if len(s) != 3 {
		return false
	}
	for i := range len(s) {
		if s[i] < 'A' || s[i] > 'Z' {
			return false
		}
	}
	return true
}

// Micros returns the amount in millionths of the currency's unit.
func (m Money) Micros() int64 { return m.micros }

// Currency returns the three letters of the currency, or "" for the zero Money.
func (m Money) Currency() string {
	if m.currency == [3]byte{} {
		return ""
	}
	return string(m.currency[:])
}

// Sign returns -1, 0 or 1.
func (m Money) Sign() int { return cmp.Compare(m.micros, 0) }

// match returns the currency of the sum of m and o.
func (m Money) match(o Money) ([3]byte, error) {
	switch {
	case m.currency == o.currency, o == Money{}:
		return m.currency, nil
	case m == Money{}:
		return o.currency, nil
	}
	return [3]byte{}, fmt.Errorf("%w: %s and %s", ErrCurrency, m, o)
}

func (m Money) with(micros int64, currency [3]byte) (Money, error) {
	if micros > maxMicros || micros < -maxMicros {
		return Money{}, ErrOverflow
	}
	return Money{micros: micros, currency: currency}, nil
}

// Add returns m + o, which must be of one currency.
func (m Money) Add(o Money) (Money, error) {
	cur, err := m.match(o)
	if err != nil {
		return Money{}, err
	}
	return m.with(m.micros+o.micros, cur)
}

// Sub returns m - o, which must be of one currency.
func (m Money) Sub(o Money) (Money, error) {
	o.micros = -o.micros
	return m.Add(o)
}

// Mul returns m * n.
func (m Money) Mul(n int64) (Money, error) { return m.MulFrac(n, 1) }

// MulFrac returns m * num / den, computed exactly and rounded once to
// micro-units, half away from zero. It does not allocate.
func (m Money) MulFrac(num, den int64) (Money, error) {
	if den == 0 {
		return Money{}, badInput("division by zero")
	}
	q, ok := mulDiv(magnitude(m.micros), magnitude(num), magnitude(den))
	if !ok || q > maxMicros {
		return Money{}, ErrOverflow
	}
	micros := int64(q)
	if (m.micros < 0) != ((num < 0) != (den < 0)) {
		micros = -micros
	}
	return Money{micros: micros, currency: m.currency}, nil
}

// Times returns m * p, rounded once to micro-units, half away from zero.
func (m Money) Times(p PPM) (Money, error) { return m.MulFrac(int64(p), int64(Whole)) }

// magnitude returns |n|, for every n.
func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// mulDiv returns a*b/c rounded half up, and false when it needs more than 64 bits. c must not be 0.
func mulDiv(a, b, c uint64) (uint64, bool) {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return 0, false
	}
	q, r := bits.Div64(hi, lo, c)
	if r >= c-r {
		q++
		return q, q != 0
	}
	return q, true
}

// Round returns m rounded half away from zero to the given number of decimals,
// for display. Decimals above 6 leave m as it is; below 0 count as 0.
func (m Money) Round(decimals int) Money {
	step := uint64(scale)
	for range min(max(decimals, 0), 6) {
		step /= 10
	}
	q := (magnitude(m.micros) + step/2) / step * step
	r := m
	r.micros = int64(q) // at most maxMicros, itself a multiple of every step
	if m.micros < 0 {
		r.micros = -r.micros
	}
	return r
}
