// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

func money(t testing.TB, s string) Money {
	t.Helper()
	m, err := ParseMoney(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMoneyText(t *testing.T) {
	for _, c := range []struct {
		in      string
		micros  int64
		decimal string
		str     string
	}{
		{"3.25 USD", 3_250_000, "3.25", "3.25 USD"},
		{"9490 USD", 9_490_000_000, "9490.00", "9490.00 USD"},
		{"0.945 EUR", 945_000, "0.945", "0.945 EUR"},
		{" 0.000001   USD ", 1, "0.000001", "0.000001 USD"},
		{"-12.5 GBP", -12_500_000, "-12.50", "-12.50 GBP"},
		{"-0.5 USD", -500_000, "-0.50", "-0.50 USD"},
		{"0", 0, "0.00", "0.00"}, {"0.00", 0, "0.00", "0.00"}, {"-0 USD", 0, "0.00", "0.00 USD"},
		{"007.10 USD", 7_100_000, "7.10", "7.10 USD"},
		{"4000000000000 USD", maxMicros, "4000000000000.00", "4000000000000.00 USD"},
	} {
		m := money(t, c.in)
		if m.Micros() != c.micros || m.Decimal() != c.decimal || m.String() != c.str {
			t.Errorf("%q = %d, %s, %s; want %d, %s, %s", c.in, m.Micros(), m.Decimal(), m, c.micros, c.decimal, c.str)
		}
	}
	for _, bad := range []string{"", " ", "3.25", "USD 3.25", "$3.25", "3.25USD", "3.25 usd", "3.25 US", "3.25 USDX", "3.25 USD x", "1e3 USD",
		"+1 USD", "--1 USD", "1,000 USD", ".5 USD", "5. USD", "1.2.3 USD", "1.0000001 USD", "4000000000000.000001 USD",
		"99999999999999999999999 USD", "NaN USD", "Inf USD", "0x1 USD", "１ USD", "1 ＵＳＤ", "1\tUSD", "- USD", "1 \x00SD"} {
		m, err := ParseMoney(bad)
		if !errors.Is(err, errInput) || m != (Money{}) {
			t.Errorf("ParseMoney(%q) = %v, %v; want errInput", bad, m, err)
		}
	}
	for in, remedy := range map[string]string{"$3.25": "number first", "USD 3.25": "number first", "3.25": "add a currency", "3.25 usd": "capital letters"} {
		if _, err := ParseMoney(in); err == nil || !strings.Contains(err.Error(), remedy) {
			t.Errorf("ParseMoney(%q): %v; want %q in it", in, err, remedy)
		}
	}
	if _, err := ParsePrice("-0.01 USD"); !errors.Is(err, errInput) {
		t.Errorf("a negative price: %v", err)
	}
	if m, err := ParsePrice("0 USD"); err != nil || m.Currency() != "USD" {
		t.Errorf("a price of 0: %v, %v", m, err)
	}
}

func TestMoneyJSON(t *testing.T) {
	b, err := json.Marshal(map[string]Money{"price": money(t, "9490 USD")})
	if err != nil || string(b) != `{"price":{"amount":"9490.00","currency":"USD"}}` {
		t.Errorf("%s, %v", b, err)
	}
	for in, want := range map[string]string{
		`"3.25 USD"`: "3.25 USD", `{"amount":"0.945","currency":"EUR"}`: "0.945 EUR", `{"amount":"0.00","currency":""}`: "0.00",
	} {
		var m Money
		if err := json.Unmarshal([]byte(in), &m); err != nil || m.String() != want {
			t.Errorf("%s = %v, %v; want %s", in, m, err, want)
		}
	}
	for _, bad := range []string{`3.25`, `null`, `{}`, `[]`, `{"amount":3.25,"currency":"USD"}`, `{"amount":"3.25"}`, `"3.25"`} {
		m := money(t, "1 USD")
		if err := json.Unmarshal([]byte(bad), &m); err == nil {
			t.Errorf("%s = %v, want an error", bad, m)
		} else if m != money(t, "1 USD") {
			t.Errorf("%s changed the value with its error", bad)
		}
	}
}

func TestFromMicros(t *testing.T) {
	if m, err := FromMicros(945_000, "USD"); err != nil || m != money(t, "0.945 USD") {
		t.Errorf("%v, %v", m, err)
	}
	if m, err := FromMicros(0, ""); err != nil || m != (Money{}) {
		t.Errorf("%v, %v", m, err)
	}
	for _, c := range []struct {
		micros int64
		cur    string
		want   error
	}{{1, "", errInput}, {1, "usd", errInput}, {maxMicros + 1, "USD", errOverflow}, {math.MinInt64, "USD", errOverflow}} {
		if m, err := FromMicros(c.micros, c.cur); !errors.Is(err, c.want) {
			t.Errorf("FromMicros(%d, %q) = %v, %v; want %v", c.micros, c.cur, m, err, c.want)
		}
	}
}

func TestArithmetic(t *testing.T) {
	usd, eur := money(t, "1.50 USD"), money(t, "1 EUR")
	if m, err := usd.Add(Money{}); err != nil || m != usd {
		t.Errorf("adding the zero Money: %v, %v", m, err)
	}
	if m, err := (Money{}).Sub(usd); err != nil || m != money(t, "-1.5 USD") {
		t.Errorf("subtracting from the zero Money: %v, %v", m, err)
	}
	if _, err := usd.Add(eur); !errors.Is(err, errCurrency) {
		t.Errorf("USD + EUR: %v", err)
	}
	top := money(t, "4000000000000 USD")
	if m, err := top.Add(top); !errors.Is(err, errOverflow) || m != (Money{}) {
		t.Errorf("%v, %v", m, err)
	}
	if m, err := top.Mul(2); !errors.Is(err, errOverflow) || m != (Money{}) {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := usd.MulFrac(1, 0); !errors.Is(err, errInput) {
		t.Errorf("division by zero: %v", err)
	}
	if m, err := money(t, "0.000001 USD").MulFrac(math.MinInt64, math.MinInt64); err != nil || m.Micros() != 1 {
		t.Errorf("%v, %v", m, err)
	}
	for _, c := range []struct {
		micros, num, den, want int64
	}{{5, 1, 2, 3}, {-5, 1, 2, -3}, {5, -1, 2, -3}, {5, 1, -2, -3}, {-5, -1, 2, 3}, {1, 1, 3, 0}, {2, 1, 3, 1}, {-2, 1, 3, -1}} {
		m, err := Money{c.micros, [3]byte{'U', 'S', 'D'}}.MulFrac(c.num, c.den)
		if err != nil || m.Micros() != c.want {
			t.Errorf("%d * %d / %d = %d, %v; want %d", c.micros, c.num, c.den, m.Micros(), err, c.want)
		}
	}
}

// TestMulFracAgainstBig checks the 128-bit arithmetic against math/big.
func TestMulFracAgainstBig(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		m := Money{micros: rng.Int64N(2*maxMicros+1) - maxMicros, currency: [3]byte{'U', 'S', 'D'}}
		m.micros >>= rng.IntN(63)
		num, den := int64(rng.Uint64())>>rng.IntN(64), int64(rng.Uint64())>>rng.IntN(64)
		if den == 0 {
			den = 1
		}
		r := new(big.Rat).SetFrac(big.NewInt(num), big.NewInt(den))
		r.Mul(r, new(big.Rat).SetInt64(m.micros))
		text, _, _ := strings.Cut(r.FloatString(0), ".") // which rounds half away from zero
		want, _ := new(big.Int).SetString(text, 10)
		fits := want.CmpAbs(big.NewInt(maxMicros)) <= 0
		got, err := m.MulFrac(num, den)
		if fits != (err == nil) || fits && got.micros != want.Int64() {
			t.Fatalf("%d * %d / %d = %d, %v; want %v", m.micros, num, den, got.micros, err, want)
		}
	}
}

func TestRound(t *testing.T) {
	for _, c := range []struct {
		in       string
		decimals int
		want     string
	}{
		{"2372.50 USD", 0, "2373.00 USD"}, {"-2372.50 USD", 0, "-2373.00 USD"}, {"0.945 USD", 2, "0.95 USD"}, {"0.944999 USD", 2, "0.94 USD"},
		{"1.234567 USD", 6, "1.234567 USD"}, {"1.234567 USD", 9, "1.234567 USD"}, {"1.5 USD", -3, "2.00 USD"}, {"0.000005 USD", 5, "0.00001 USD"},
		{"3999999999999.999999 USD", 0, "4000000000000.00 USD"}, {"0.49 USD", 0, "0.00 USD"},
	} {
		if got := money(t, c.in).Round(c.decimals).String(); got != c.want {
			t.Errorf("%s rounded to %d = %s, want %s", c.in, c.decimals, got, c.want)
		}
	}
}

func FuzzParseMoney(f *testing.F) {
	for _, s := range []string{"3.25 USD", "-0.000001 EUR", "0", "4000000000000 USD", "1e9 USD", "$1", "", "9 ", " 9 USD", "1.0000000 USD"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseMoney(s)
		if err != nil {
			if m != (Money{}) {
				t.Errorf("value %v with error %v", m, err)
			}
			return
		}
		if back, err := ParseMoney(m.String()); err != nil || back != m {
			t.Errorf("%q -> %v -> %v, %v", s, m, back, err)
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var back Money
		if err := json.Unmarshal(b, &back); err != nil || back != m {
			t.Errorf("%q -> %s -> %v, %v", s, b, back, err)
		}
	})
}
