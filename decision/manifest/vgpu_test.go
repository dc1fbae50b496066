package manifest

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestVGPUType(t *testing.T) {
	for in, want := range map[string]VGPUType{
		"A100D-10C":           {Board: "A100D", FrameBufferGB: 10, Series: 'C'},
		"NVIDIA A100D-1-10C":  {Board: "A100D", Slices: 1, FrameBufferGB: 10, Series: 'C'},
		"GRID A100D-1-10CME":  {Board: "A100D", Slices: 1, FrameBufferGB: 10, Series: 'C', Media: true},
		"L40S-48Q":            {Board: "L40S", FrameBufferGB: 48, Series: 'Q'},
		"NVIDIA H100XM-7-80C": {Board: "H100XM", Slices: 7, FrameBufferGB: 80, Series: 'C'},
	} {
		got, err := ParseVGPUType(in)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
		if back, err := ParseVGPUType(got.String()); err != nil || back != got {
			t.Errorf("%s: %s does not come back: %+v, %v", in, got, back, err)
		}
		if got.MIGBacked() != (want.Slices > 0) {
			t.Errorf("%s: MIGBacked", in)
		}
	}
	for _, bad := range []string{"", "A100D", "A100D-0C", "A100D-10X", "A100D-8-10C", "a100d-10c", "A100D-10CME", "A100D-10C\n", "NVIDIA  A100D-10C"} {
		if got, err := ParseVGPUType(bad); !errors.Is(err, ErrInvalid) || got != (VGPUType{}) {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
}

// The words of NVIDIA's guide as the facts give them.
func TestRmPVMRL(t *testing.T) {
	for _, c := range []struct {
		s    VGPUScheduler
		word uint32
	}{
		{VGPUScheduler{}, 0},
		{VGPUScheduler{Policy: EqualShare}, 0x01},
		{VGPUScheduler{Policy: FixedShare}, 0x11},
		{VGPUScheduler{Policy: EqualShare, TimeSlice: 3 * time.Millisecond}, 0x00030003},
		{VGPUScheduler{Policy: FixedShare, TimeSlice: 24 * time.Millisecond}, 0x00180011},
		{VGPUScheduler{Policy: EqualShare, AveragingFactor: 60, FrequencyHz: 960}, 0x3c3c0001},
		{VGPUScheduler{Policy: FixedShare, AveragingFactor: 33, FrequencyHz: 480}, 0x211e0011},
	} {
		word, err := c.s.RmPVMRL()
		if err != nil || word != c.word {
			t.Errorf("%+v: 0x%08x, %v; want 0x%08x", c.s, word, err, c.word)
		}
		back, err := ParseRmPVMRL(fmt.Sprintf("0x%08x", word))
		if err != nil || back != c.s {
			t.Errorf("0x%08x: %+v, %v; want %+v", word, back, err, c.s)
		}
	}
	// The other form that the guide lists for 3 ms.
	if got, err := ParseRmPVMRL("0x00030001"); err != nil || got != (VGPUScheduler{Policy: EqualShare, TimeSlice: 3 * time.Millisecond}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, s := range []VGPUScheduler{
		{Policy: 7}, {TimeSlice: time.Millisecond}, {Policy: EqualShare, TimeSlice: 31 * time.Millisecond}, {Policy: EqualShare, TimeSlice: 1500 * time.Microsecond},
		{Policy: FixedShare, AveragingFactor: 61, FrequencyHz: 480}, {Policy: FixedShare, AveragingFactor: 33}, {Policy: FixedShare, FrequencyHz: 5000, AveragingFactor: 1},
		{Policy: EqualShare, TimeSlice: time.Millisecond, AveragingFactor: 1, FrequencyHz: 1}, {Policy: EqualShare, TimeSlice: -time.Millisecond},
	} {
		if word, err := s.RmPVMRL(); !errors.Is(err, ErrInvalid) || word != 0 {
			t.Errorf("%+v: 0x%x, %v", s, word, err)
		}
	}
	for _, bad := range []string{"", "x", "0x100000000", "0x02", "0x03", "0x00400001", "0x3d3c0001", "-1", "0x0003_0003", "0x00010000"} {
		if got, err := ParseRmPVMRL(bad); !errors.Is(err, ErrInvalid) || got != (VGPUScheduler{}) {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
}

func TestVGPUPolicyText(t *testing.T) {
	for _, p := range []VGPUPolicy{BestEffort, EqualShare, FixedShare} {
		b, err := p.MarshalText()
		var back VGPUPolicy
		if err != nil || back.UnmarshalText(b) != nil || back != p || string(b) != p.String() {
			t.Errorf("%v: %s, %v", p, b, err)
		}
	}
	if _, err := VGPUPolicy(9).MarshalText(); err == nil {
		t.Error("9 marshals")
	}
	var p VGPUPolicy
	if p.UnmarshalText([]byte("equal")) == nil {
		t.Error("equal is read")
	}
}

func FuzzParseVGPUType(f *testing.F) {
	f.Add("A100D-1-10CME")
	f.Add("GRID L40S-48Q")
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseVGPUType(s)
		if err != nil {
			if v != (VGPUType{}) {
				t.Fatalf("%+v with %v", v, err)
			}
			return
		}
		if back, err := ParseVGPUType(v.String()); err != nil || back != v {
			t.Fatalf("%q -> %+v -> %+v, %v", s, v, back, err)
		}
	})
}

func FuzzParseRmPVMRL(f *testing.F) {
	for _, s := range []string{"0x01", "0x00030003", "0x3c3c0011", "17"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseRmPVMRL(s)
		if err != nil {
			if v != (VGPUScheduler{}) {
				t.Fatalf("%+v with %v", v, err)
			}
			return
		}
		word, err := v.RmPVMRL()
		if err != nil {
			t.Fatalf("%q -> %+v: %v", s, v, err)
		}
		if back, err := ParseRmPVMRL(fmt.Sprint(word)); err != nil || back != v {
			t.Fatalf("%q -> %+v -> 0x%x -> %+v, %v", s, v, word, back, err)
		}
	})
}
