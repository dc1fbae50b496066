package addons

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/manifest"
)

// The words of NVIDIA's guide.
func TestRmPVMRL(t *testing.T) {
	for _, c := range []struct {
		s    VGPUScheduler
		word uint32
	}{
		{VGPUScheduler{}, 0},
		{VGPUScheduler{Policy: VGPUPolicyEqualShare}, 0x01},
		{VGPUScheduler{Policy: VGPUPolicyFixedShare}, 0x11},
		{VGPUScheduler{Policy: VGPUPolicyEqualShare, TimeSlice: 3 * time.Millisecond}, 0x00030003},
		{VGPUScheduler{Policy: VGPUPolicyFixedShare, TimeSlice: 24 * time.Millisecond}, 0x00180011},
		{VGPUScheduler{Policy: VGPUPolicyEqualShare, AveragingFactor: 60, FrequencyHz: 960}, 0x3c3c0001},
		{VGPUScheduler{Policy: VGPUPolicyFixedShare, AveragingFactor: 33, FrequencyHz: 480}, 0x211e0011},
	} {
		word, err := c.s.RmPVMRL()
		if err != nil || word != c.word {
			t.Errorf("%+v: 0x%08x, %v; want 0x%08x", c.s, word, err, c.word)
		}
	}
	for _, s := range []VGPUScheduler{
		{Policy: 7}, {TimeSlice: time.Millisecond}, {Policy: VGPUPolicyEqualShare, TimeSlice: 31 * time.Millisecond}, {Policy: VGPUPolicyEqualShare, TimeSlice: 1500 * time.Microsecond},
		{Policy: VGPUPolicyFixedShare, AveragingFactor: 61, FrequencyHz: 480}, {Policy: VGPUPolicyFixedShare, AveragingFactor: 33}, {Policy: VGPUPolicyFixedShare, FrequencyHz: 5000, AveragingFactor: 1},
		{Policy: VGPUPolicyEqualShare, TimeSlice: time.Millisecond, AveragingFactor: 1, FrequencyHz: 1}, {Policy: VGPUPolicyEqualShare, TimeSlice: -time.Millisecond},
	} {
		if word, err := s.RmPVMRL(); !errors.Is(err, manifest.ErrInvalid) || word != 0 {
			t.Errorf("%+v: 0x%x, %v", s, word, err)
		}
	}
}

func TestVGPUPolicyText(t *testing.T) {
	for _, p := range []VGPUPolicy{VGPUPolicyBestEffort, VGPUPolicyEqualShare, VGPUPolicyFixedShare} {
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

func TestVGPUForm(t *testing.T) {
	for in, want := range map[string]string{
		"A100D-10C": "", "L40S-48Q": "", "NVIDIA A100D-1-10C": "1", "GRID A100D-1-10CME": "1", "NVIDIA H100XM-7-80C": "7",
		"A100D-10CME": "no", "A100D-8-10C": "no", "A100D-0C": "no", "A100D": "no", "a100d-10c": "no", "A100D-10C ": "no", "A100D-1-10D": "no", "": "no",
	} {
		got := fmt.Sprint(vgpuForm.FindStringSubmatch(in))
		if w := fmt.Sprint([]string{in, want}); want != "no" && got != w || want == "no" && got != "[]" {
			t.Errorf("%q: %s", in, got)
		}
	}
}
