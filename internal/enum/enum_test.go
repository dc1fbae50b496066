package enum

import (
	"errors"
	"testing"
)

var errUnknown = errors.New("unknown")

func TestEnum(t *testing.T) {
	names := []string{"alpha", "beta"}
	for i, name := range names {
		b, err := Text(errUnknown, "letter", names, i)
		if err != nil || string(b) != name || String(names, i) != name {
			t.Errorf("%d: %s, %v", i, b, err)
		}
		if v, err := Parse(errUnknown, "letter", names, b); err != nil || v != i {
			t.Errorf("%s: %d, %v", b, v, err)
		}
	}
	for _, tc := range []struct{ in, want string }{
		{"betta", `unknown: letter "betta"; did you mean "beta"?`}, {"x", `unknown: letter "x"; known: alpha, beta`},
	} {
		if _, err := Parse(errUnknown, "letter", names, []byte(tc.in)); !errors.Is(err, errUnknown) || err.Error() != tc.want {
			t.Errorf("%v", err)
		}
	}
	gap := []string{"", "alpha"}
	if _, err := Text(errUnknown, "letter", gap, 0); err == nil || String(gap, 0) != "invalid(0)" {
		t.Error("a value without a name has a text")
	}
	if _, err := Parse(errUnknown, "letter", gap, nil); err == nil || err.Error() != `unknown: letter ""; known: alpha` {
		t.Error(err)
	}
	v := uint8(1)
	if err := Set(&v, errUnknown, "letter", names, []byte("x")); err == nil || v != 1 {
		t.Errorf("%d, %v", v, err)
	}
	if err := Set(&v, errUnknown, "letter", names, []byte("alpha")); err != nil || v != 0 {
		t.Errorf("%d, %v", v, err)
	}
	if _, err := Text(errUnknown, "letter", names, 2); !errors.Is(err, errUnknown) || String(names, -1) != "invalid(-1)" {
		t.Error(err)
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
