package manifest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
)

func TestShare(t *testing.T) {
	for _, c := range []struct {
		name          string
		s             HAMiShare
		hami, volcano map[string]string
	}{
		{"zero", HAMiShare{}, map[string]string{"nvidia.com/gpu": "1"}, map[string]string{"volcano.sh/vgpu-number": "1"}},
		{"limits", HAMiShare{GPUs: 2, Memory: 3000*sharing.MiB + 1, Cores: 30, LowPriority: true},
			map[string]string{"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3001", "nvidia.com/gpucores": "30", "nvidia.com/priority": "1"},
			map[string]string{"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-memory": "3001", "volcano.sh/vgpu-cores": "30"}},
		{"exclusive", HAMiShare{MemoryPercent: 100, Cores: 100},
			map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "100", "nvidia.com/gpucores": "100"},
			map[string]string{"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory-percentage": "100", "volcano.sh/vgpu-cores": "100"}},
	} {
		if err := c.s.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.hami, c.s.HAMiResources()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if diff := cmp.Diff(c.volcano, c.s.VolcanoResources()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	s := HAMiShare{Mode: HAMiModeMIG, GPUType: "A100"}
	if diff := cmp.Diff(map[string]string{"nvidia.com/vgpu-mode": "mig", "nvidia.com/use-gputype": "A100"}, s.HAMiAnnotations()); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []HAMiShare{{Mode: 9}, {GPUs: -1}, {Memory: -1}, {MemoryPercent: 101}, {Memory: 1, MemoryPercent: 1}, {Cores: 101}, {Cores: -1}} {
		if err := bad.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestHAMiModeText(t *testing.T) {
	for _, m := range []HAMiMode{HAMiModeCore, HAMiModeMIG, HAMiModeMPS} {
		b, err := m.MarshalText()
		var back HAMiMode
		if err != nil || back.UnmarshalText(b) != nil || back != m {
			t.Errorf("%v: %s, %v", m, b, err)
		}
	}
	var m HAMiMode
	if m.UnmarshalText([]byte("MIG")) == nil {
		t.Error("MIG is read")
	}
	if _, err := HAMiMode(9).MarshalText(); err == nil {
		t.Error("9 marshals")
	}
}
