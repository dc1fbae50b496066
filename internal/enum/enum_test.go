// SPDX-License-Identifier: Apache-2.0

package enum

import (
	"errors"
	"testing"
)

var errUnknown = errors.New("unknown")

func TestParse(t *testing.T) {
	names := []string{"alpha", "beta"}
	for _, tc := range []struct{ in, want string }{
		{"betta", `unknown: letter "betta"; did you mean "beta"?`}, {"x", `unknown: letter "x"; known: alpha, beta`},
	} {
		if _, err := Parse(errUnknown, "letter", names, []byte(tc.in)); !errors.Is(err, errUnknown) || err.Error() != tc.want {
			t.Errorf("%v", err)
		}
	}
	if _, err := Parse(errUnknown, "letter", []string{"", "alpha"}, nil); err == nil || err.Error() != `unknown: letter ""; known: alpha` {
		t.Error(err)
	}
}

func TestGap(t *testing.T) {
	gap := Of[int](errUnknown, "letter", "", "alpha")
	if _, err := gap.Text(0); !errors.Is(err, errUnknown) || gap.String(0) != "invalid(0)" || gap.Has(0) || gap.Has(-1) || len(gap.Values()) != 1 {
		t.Error("a value without a name has a text")
	}
}

func TestNames(t *testing.T) {
	type letter uint8
	set := Of[letter](errUnknown, "letter", "alpha", "beta")
	for _, v := range set.Values() {
		b, err := set.Text(v)
		back := letter(9)
		if err != nil || string(b) != set.String(v) || !set.Has(v) || set.Parse(&back, b) != nil || back != v {
			t.Errorf("%d: %s, %v, back %d", v, b, err, back)
		}
	}
	v := letter(1)
	if err := set.Parse(&v, []byte("gamma")); !errors.Is(err, errUnknown) || v != 1 {
		t.Errorf("%v, %d", err, v)
	}
	if _, err := set.Text(2); !errors.Is(err, errUnknown) || set.Has(2) || set.String(2) != "invalid(2)" {
		t.Error(err)
	}
}
