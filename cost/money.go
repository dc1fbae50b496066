// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

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
		return Money{}, errOverflow
	}
	copy(m.currency[:], currency)
	return m, nil
}

func isCurrency(s string) bool {
	return len(s) == 3 && !strings.ContainsFunc(s, func(r rune) bool { return r < 'A' || r > 'Z' })
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
	return [3]byte{}, fmt.Errorf("%w: %s and %s", errCurrency, m, o)
}

// Add returns m + o. Both must have the same currency.
func (m Money) Add(o Money) (Money, error) {
	cur, err := m.match(o)
	if err != nil {
		return Money{}, err
	}
	if sum := m.micros + o.micros; sum <= maxMicros && sum >= -maxMicros {
		return Money{sum, cur}, nil
	}
	return Money{}, errOverflow
}

// Sub returns m - o. Both must have the same currency.
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
		return Money{}, errOverflow
	}
	micros := int64(q)
	if (m.micros < 0) != ((num < 0) != (den < 0)) {
		micros = -micros
	}
	return Money{micros: micros, currency: m.currency}, nil
}

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

// Decimal returns the exact amount without its currency, with two decimals and
// more only where needed: "9490.00", "0.945".
func (m Money) Decimal() string {
	sign := ""
	if m.micros < 0 {
		sign = "-"
	}
	u := magnitude(m.micros)
	frac := strings.TrimRight(fmt.Sprintf("%06d", u%scale), "0")
	for len(frac) < 2 {
		frac += "0"
	}
	return fmt.Sprintf("%s%d.%s", sign, u/scale, frac)
}

// String returns the exact amount and its currency: "9490.00 USD"; "0.00" for the zero Money.
func (m Money) String() string {
	if cur := m.Currency(); cur != "" {
		return m.Decimal() + " " + cur
	}
	return m.Decimal()
}

// ParseMoney reads an amount as String writes it: a plain decimal number with at most six decimals, a space and a
// currency of three capital letters, such as "3.25 USD" or "-12.5 EUR". "0" needs no currency. Symbols, exponents,
// thousands separators and a seventh decimal are refused: nothing is rounded or guessed. A minus sign is allowed, since
// a saving may be negative; use ParsePrice where an amount must not be negative.
func ParseMoney(s string) (Money, error) {
	bad := func(why string) (Money, error) {
		return Money{}, badInput("%q is not an amount of money: %s", problem.Clip(s), why)
	}
	num, cur, spaced := strings.Cut(strings.TrimSpace(s), " ")
	cur = strings.TrimLeft(cur, " ")
	micros, why := parseFixed(num, 6, maxMicros)
	switch {
	case why != "" && (spaced && isCurrency(num) || strings.ContainsAny(num, "$€£¥")):
		return bad(`write the number first and the currency's letters after it, for example "3.25 USD"`)
	case why != "":
		return bad(why)
	case !spaced && micros != 0:
		return bad(`add a currency, for example "3.25 USD"`)
	case spaced && !isCurrency(cur):
		return bad("a currency is three capital letters, for example USD")
	}
	m := Money{micros: micros}
	copy(m.currency[:], cur)
	return m, nil
}

// ParsePrice is ParseMoney for prices: it refuses amounts below zero.
func ParsePrice(s string) (Money, error) {
	m, err := ParseMoney(s)
	if err == nil && m.micros < 0 {
		return Money{}, badInput("%q is below zero (a price is 0 or more)", problem.Clip(s))
	}
	return m, err
}

func (m Money) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is ParseMoney.
func (m *Money) UnmarshalText(b []byte) error {
	v, err := ParseMoney(string(b))
	if err == nil {
		*m = v
	}
	return err
}

type moneyJSON struct {
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
}

// MarshalJSON writes an object: {"amount":"9490.00","currency":"USD"}. The amount is the text that Decimal returns.
func (m Money) MarshalJSON() ([]byte, error) {
	return json.Marshal(moneyJSON{m.Decimal(), m.Currency()})
}

// UnmarshalJSON reads the object that MarshalJSON writes, or a string that ParseMoney reads.
func (m *Money) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		return m.UnmarshalText([]byte(text))
	}
	var o *moneyJSON
	if err := json.Unmarshal(b, &o); err != nil || o == nil {
		return badInput(`%s is not an amount of money: write {"amount": "3.25", "currency": "USD"} or "3.25 USD"`,
			problem.Clip(string(b)))
	}
	return m.UnmarshalText([]byte(strings.TrimSpace(o.Amount + " " + o.Currency)))
}

// parseFixed reads a plain decimal number of at most the given decimals as a whole number of its smallest parts, at
// most limit. It returns the problem, or "".
func parseFixed(s string, decimals int, limit int64) (int64, string) {
	digits := strings.TrimPrefix(s, "-")
	whole, frac, point := strings.Cut(digits, ".")
	switch {
	case whole == "" || point && frac == "" || strings.Trim(whole+frac, "0123456789") != "":
		return 0, "write a plain decimal number"
	case len(frac) > decimals:
		return 0, fmt.Sprintf("it has more than %d decimals", decimals)
	}
	n, err := strconv.ParseInt(whole+frac+strings.Repeat("0", decimals-len(frac)), 10, 64)
	if err != nil || n > limit {
		return 0, "it is too large"
	}
	if len(digits) < len(s) {
		n = -n
	}
	return n, ""
}

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
		return 0, errOverflow
	}
	if num < 0 {
		return -PPM(q), nil
	}
	return PPM(q), nil
}

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

func (p PPM) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a percentage as String writes it, at most four decimals and a percent sign: "8%", "46.4286%". A
// bare number is refused: 8 could be meant as a fraction or as percent.
func (p *PPM) UnmarshalText(b []byte) error {
	num, ok := strings.CutSuffix(strings.TrimSpace(string(b)), "%")
	why := `add a percent sign, for example "8%"`
	var v int64
	if ok {
		v, why = parseFixed(num, 4, math.MaxInt64)
	}
	if why != "" {
		return badInput("%q is not a percentage: %s", problem.Clip(string(b)), why)
	}
	*p = PPM(v)
	return nil
}

// notNegative notes an amount below zero.
func notNegative(l *problem.List, path string, m Money) {
	l.If(m.micros < 0, path, "give 0 or more", "%s is below zero", m)
}

// inRange notes a fraction that is not from 0 to most.
func inRange(l *problem.List, path string, p, most PPM) {
	l.If(p < 0 || p > most, path, fmt.Sprintf("give 0%% to %s", most), "%s is out of range", p)
}
