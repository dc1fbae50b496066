package gate

import (
	"errors"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/sharing"
)

// TestTexts holds that every code and verdict has a text that comes back, words,
// and a source that resolves where it has one.
func TestTexts(t *testing.T) {
	for _, c := range Codes() {
		var back Code
		b, err := c.MarshalText()
		if err != nil || back.UnmarshalText(b) != nil || back != c {
			t.Errorf("%v comes back as %v: %v", c, back, err)
		}
		if text := (Reason{Code: c, Mechanism: sharing.MechanismMPS}).String(); strings.Contains(text, "%!") || c != CodeHardware && text == "" {
			t.Errorf("%v says %q", c, text)
		}
		if id := c.Source(); id != "" {
			if _, ok := sharing.SourceByID(id); !ok {
				t.Errorf("%v: source %q does not resolve", c, id)
			}
		}
	}
	for v := VerdictUnknown; v <= VerdictPass; v++ {
		var back Verdict
		b, err := v.MarshalText()
		if err != nil || back.UnmarshalText(b) != nil || back != v {
			t.Errorf("%v comes back as %v: %v", v, back, err)
		}
	}
	if _, err := codeCount.MarshalText(); !errors.Is(err, ErrUnknownName) {
		t.Errorf("%v", err)
	}
	if err := new(Code).UnmarshalText([]byte("gpu-shares")); !errors.Is(err, ErrUnknownName) {
		t.Errorf("%v", err)
	}
	if err := new(Verdict).UnmarshalText([]byte("maybe")); !errors.Is(err, ErrUnknownName) {
		t.Errorf("%v", err)
	}
}

// TestTraits holds that every mechanism has its row.
func TestTraits(t *testing.T) {
	for _, m := range sharing.Mechanisms() {
		if TraitsOf(m).Capacity == 0 {
			t.Errorf("%v has no traits", m)
		}
	}
}
