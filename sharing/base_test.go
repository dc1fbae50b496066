// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
)

func TestBytesText(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Bytes
		text string
		str  string
	}{
		{"18GiB", 18 * GiB, "18GiB", "18GiB"}, {"1.5 GiB", 1536 * MiB, "1536MiB", "1.5GiB"}, {"512Mi", 512 * MiB, "512MiB", "512MiB"},
		{"80GB", 80e9, "78125000KiB", "74.51GiB"}, {"1024B", KiB, "1KiB", "1KiB"}, {"0", 0, "0B", "0B"}, {"7B", 7, "7B", "7B"},
		{"1001B", 1001, "1001B", "1001B"}, {"81559MiB", 81559 * MiB, "81559MiB", "79.65GiB"},
	} {
		var got Bytes
		err := got.UnmarshalText([]byte(c.in))
		if err != nil || got != c.want {
			t.Errorf("%q reads as %d, %v; want %d", c.in, got, err, c.want)
		}
		if b, _ := got.MarshalText(); string(b) != c.text {
			t.Errorf("%q marshals to %s, want %s", c.in, b, c.text)
		}
		if got.String() != c.str {
			t.Errorf("%q prints as %s, want %s", c.in, got, c.str)
		}
	}
	for _, bad := range []string{"", "18", "-1GiB", "GiB", "1e3GiB", "1.2.3GiB", "18gib", "9999999999TiB", "0x1GiB", "１GiB"} {
		v := Bytes(7)
		if err := v.UnmarshalText([]byte(bad)); err == nil || v != 7 {
			t.Errorf("%q reads as %d, want an error", bad, v)
		}
	}
}

func TestBytesNumbers(t *testing.T) {
	if got := 3*GiB - 1; got.MiB() != 3071 || (3*GiB).GiB() != 3 {
		t.Errorf("%d MiB, %v GiB", got.MiB(), (3 * GiB).GiB())
	}
	for b, want := range map[Bytes]string{-3 * GiB: "-3GiB", -1: "-1B", math.MinInt64: "-8388608TiB"} {
		if b.String() != want {
			t.Errorf("%d prints as %s, want %s", int64(b), b, want)
		}
	}
}

// TestBytesRemedy suggests the units that are there for one that is short of them.
func TestBytesRemedy(t *testing.T) {
	for in, want := range map[string]string{"8G": `write "8Gi" (binary) or "8GB" (decimal)`, "512 m": "add a unit", "1.5k": `write "1.5Ki" (binary) or "1.5KB" (decimal)`, "8iG": "use B, KiB, MiB"} {
		var b Bytes
		if err := b.UnmarshalText([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
	}
}

func FuzzBytes(f *testing.F) {
	for _, s := range []string{"18GiB", "1.5GB", "0", "-", "1..", "KiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var v Bytes
		if err := v.UnmarshalText([]byte(s)); err != nil {
			if v != 0 {
				t.Errorf("value %d with error %v", v, err)
			}
			return
		}
		text := must.Get(v.MarshalText())(t)
		var back Bytes
		if err := back.UnmarshalText(text); err != nil || back != v {
			t.Errorf("%q -> %d -> %s -> %d, %v", s, v, text, back, err)
		}
	})
}

func TestEnumText(t *testing.T) {
	for _, m := range append(Mechanisms(), MechanismNone) {
		if got, err := ParseMechanism(m.String()); err != nil || got != m {
			t.Errorf("%v does not round-trip: %v, %v", m, got, err)
		}
	}
	if len(Mechanisms()) != 12 {
		t.Errorf("%d mechanisms", len(Mechanisms()))
	}
	if _, err := ParseMechanism("time-slice"); !errors.Is(err, ErrUnknownName) {
		t.Errorf("err = %v", err)
	}
	if _, err := Mechanism(200).MarshalText(); !errors.Is(err, ErrUnknownName) {
		t.Errorf("Mechanism(200) marshals: %v", err)
	}
	if s := Mechanism(200).String(); s != "invalid(200)" {
		t.Errorf("got %s", s)
	}
}

func TestAtLeast(t *testing.T) {
	for _, c := range []struct {
		l, want Level
		answer  Answer
	}{
		{LevelUnknown, LevelNone, AnswerYes}, {LevelUnknown, LevelPartial, AnswerUnknown}, {LevelHardware, LevelHardware, AnswerYes},
		{LevelSoftware, LevelHardware, AnswerNo}, {LevelPartial, LevelUnknown, AnswerUnknown},
	} {
		if got := c.l.AtLeast(c.want); got != c.answer {
			t.Errorf("%v at least %v: %v, want %v", c.l, c.want, got, c.answer)
		}
	}
}

func TestWarningString(t *testing.T) {
	w := Warning{Path: "a.b", Message: "m", Remedy: "r", Source: "k8s-device-plugin"}
	if got := w.String() + "; " + (Warning{Message: "m"}).String(); got != "a.b: m (r) [k8s-device-plugin]; m" {
		t.Error(got)
	}
}
