// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"encoding"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseDriver(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Driver
		text string
	}{
		{"580.65.06", Driver{580, 65, 6}, "580.65.06"}, {"525.105.17", Driver{525, 105, 17}, "525.105.17"},
		{"580.88", Driver{580, 88, 0}, "580.88"}, {"610", Driver{610, 0, 0}, "610"}, {"R590", Driver{590, 0, 0}, "590"},
		{" r460.73.01 ", Driver{460, 73, 1}, "460.73.01"}, {"590.44.1", Driver{590, 44, 1}, "590.44.01"},
	} {
		got, err := ParseDriver(c.in)
		if err != nil || got != c.want || got.String() != c.text {
			t.Errorf("ParseDriver(%q) = %v, %v; want %v", c.in, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "R", "0", "0.65.06", "580.", ".65", "580.65.06.1", "-580", "580,65", "580.65.06-open", "99999", "１", "latest"} {
		if got, err := ParseDriver(bad); err == nil || !got.IsZero() {
			t.Errorf("ParseDriver(%q) = %v, %v; want an error", bad, got, err)
		}
	}
}

func FuzzParseDriver(f *testing.F) {
	for _, s := range []string{"580.65.06", "R610", "", "0", "1.2.3.4", "13.0", "9.0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDriver(s)
		if d.IsZero() == (err == nil) {
			t.Fatalf("ParseDriver(%q) = %v, %v", s, d, err)
		}
		if err == nil {
			if back, err := ParseDriver(d.String()); err != nil || back != d {
				t.Errorf("%q -> %v -> %v, %v", s, d, back, err)
			}
		}
		var cc ComputeCapability
		if cc.UnmarshalText([]byte(s)) == nil {
			var back ComputeCapability
			if err := back.UnmarshalText([]byte(cc.String())); err != nil || back != cc {
				t.Errorf("%q -> %v -> %v, %v", s, cc, back, err)
			}
		}
	})
}

// textual has the methods that every enumeration and version of the package implements.
type textual interface {
	encoding.TextMarshaler
	String() string
}

func TestTexts(t *testing.T) {
	for _, c := range []struct {
		value textual
		into  encoding.TextUnmarshaler
		text  string
	}{
		{ArchitectureHopper, new(Architecture), "hopper"},
		{SeverityCritical, new(Severity), "critical"}, {DeliveryDevicePlugin, new(Delivery), "device-plugin"},
		{Driver{580, 65, 6}, new(Driver), "580.65.06"},
		{ComputeCapability{9, 0}, new(ComputeCapability), "9.0"}, {AnswerYes, new(Answer), "yes"}, {BasisPrior, new(Basis), "prior"},
		{AxisJitter, new(Axis), "jitter"}, {LevelDriver, new(Level), "driver"},
	} {
		b, err := c.value.MarshalText()
		if err != nil || string(b) != c.text || c.value.String() != c.text {
			t.Errorf("%v marshals to %s, %v", c.value, b, err)
		}
		if err := c.into.UnmarshalText(b); err != nil {
			t.Errorf("%s: %v", c.text, err)
		} else if back, err := c.into.(textual).MarshalText(); err != nil || string(back) != c.text {
			t.Errorf("%s comes back as %s, %v", c.text, back, err)
		}
		if err := c.into.UnmarshalText([]byte("nonsense")); err == nil {
			t.Errorf("%T reads nonsense", c.into)
		}
	}
	for _, bad := range []textual{Architecture(99), Severity(99), Delivery(99)} {
		if b, err := bad.MarshalText(); err == nil {
			t.Errorf("%v marshals to %s", bad, b)
		}
	}
	var d Driver
	if d.UnmarshalText(nil) != nil || !d.IsZero() || d.String() != "unknown" {
		t.Errorf("empty text: %v", d)
	}
	if b, _ := d.MarshalText(); len(b) != 0 {
		t.Errorf("an unknown driver marshals to %s", b)
	}
}

func TestParseMechanisms(t *testing.T) {
	got, err := ParseMechanisms("mps, mig,mps")
	if diff := cmp.Diff([]Mechanism{MechanismMPS, MechanismMIG}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, bad := range []string{"", "mps,", "none", "mps,time-slcing"} {
		if got, err := ParseMechanisms(bad); err == nil || got != nil {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}
