package cost

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

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
// currency of three capital letters, such as "3.25 USD" or "-12.5 EUR". "0" may stand without a currency. Symbols,
// exponents, thousands separators and a seventh decimal are refused: nothing is rounded or guessed. A minus sign is
// allowed, since a saving may be negative; use ParsePrice where it may not.
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

// ParsePrice reads what ParseMoney reads and refuses amounts below zero.
func ParsePrice(s string) (Money, error) {
	m, err := ParseMoney(s)
	if err == nil && m.micros < 0 {
		return Money{}, badInput("%q is below zero (a price is 0 or more)", problem.Clip(s))
	}
	return m, err
}

func (m Money) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what ParseMoney reads.
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
// most limit. It returns what is wrong, or "".
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
