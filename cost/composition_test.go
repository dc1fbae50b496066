// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// articleNodes is the latency article's comparison: only the shared side has the CPU nodes.
func articleNodes(t testing.TB) (dedicated, shared Composition) {
	gpu, cpu := money(t, "2.24 USD"), money(t, "0.08 USD")
	return Composition{{Name: "g6e", Count: 2, PricePerHour: gpu}},
		Composition{{Name: "g6e", Count: 1, PricePerHour: gpu}, {Name: "t3.large", Count: 2, PricePerHour: cpu, Auxiliary: true}}
}

// What the latency article printed, and the two like-for-like readings.
func TestNodeComposition(t *testing.T) {
	dedicated, shared := articleNodes(t)
	for _, c := range []struct {
		counting                               Counting
		before, after, monthly, annual, saving string
	}{
		{countingAsGiven, "3270.40", "1752.00", "1518.40", "18220.80", "46.4%"},
		{CountingAuxiliaryOnBoth, "3387.20", "1752.00", "1635.20", "19622.40", "48.3%"},
		{countingAuxiliaryOnNeither, "3270.40", "1635.20", "1635.20", "19622.40", "50%"},
	} {
		s, err := CompareCompositions(dedicated, shared, c.counting)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{s.Before.Decimal(), s.After.Decimal(), s.Monthly.Decimal(), s.Annual.Decimal(), s.Fraction.RoundPercent(1).String()}
		if diff := cmp.Diff([]string{c.before, c.after, c.monthly, c.annual, c.saving}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.counting, diff)
		}
	}
	if len(dedicated) != 1 || len(shared) != 2 {
		t.Error("the comparison changed its input")
	}
}

func TestAuxiliaryOnBothTakesTheLarger(t *testing.T) {
	usd := money(t, "1 USD")
	a := Composition{{"gpu", 1, usd, false}, {"cpu", 3, usd, true}, {"a-only", 1, usd, true}}
	b := Composition{{"gpu", 1, usd, false}, {"cpu", 1, usd, true}}
	s, err := CompareCompositions(a, b, CountingAuxiliaryOnBoth)
	if err != nil || s.Monthly.Sign() != 0 || s.Before.Decimal() != "3650.00" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestCompositionErrors(t *testing.T) {
	bad := Composition{{"", 1, money(t, "1 USD"), false}, {"a", -1, money(t, "-1 USD"), false}, {"a", 1, Money{}, false}}
	_, err := CompareCompositions(bad, bad, countingAsGiven)
	for _, want := range []string{"before[0].name", "before[1].count", "before[1].price_per_hour", "before[2].name", "after[0].name", "after[2].name"} {
		if !errors.Is(err, errInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %q", err, want)
		}
	}
	usd, eur := Composition{{"a", 1, money(t, "1 USD"), false}}, Composition{{"a", 1, money(t, "1 EUR"), false}}
	if _, err := CompareCompositions(usd, eur, countingAsGiven); !errors.Is(err, errCurrency) {
		t.Errorf("USD against EUR: %v", err)
	}
	if _, err := CompareCompositions(nil, usd, countingAsGiven); !errors.Is(err, errInput) {
		t.Errorf("saving part of nothing: %v", err)
	}
	if _, err := CompareCompositions(usd, usd, "usual"); !errors.Is(err, errInput) {
		t.Errorf("unknown counting: %v", err)
	}
	huge := Composition{{"a", 1 << 30, money(t, "4000000000000 USD"), false}}
	if _, err := CompareCompositions(huge, usd, countingAsGiven); !errors.Is(err, errOverflow) {
		t.Errorf("overflow: %v", err)
	}
	if _, err := newSaving(money(t, "4000000000000 USD"), Money{}); !errors.Is(err, errOverflow) {
		t.Errorf("overflow in a month: %v", err)
	}
}
