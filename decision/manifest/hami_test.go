package manifest

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/strictyaml"
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
		if diff := gocmp.Diff(c.hami, c.s.HAMiResources()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if diff := gocmp.Diff(c.volcano, c.s.VolcanoResources()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	s := HAMiShare{Mode: HAMiModeMIG, GPUType: "A100"}
	if diff := gocmp.Diff(map[string]string{"nvidia.com/vgpu-mode": "mig", "nvidia.com/use-gputype": "A100"}, s.HAMiAnnotations()); diff != "" {
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

// pluginRequest is what the schedulers of HAMi (pkg/device/nvidia/device.go,
// GenerateResourceRequests) and of Volcano (its vgpu devices) read off a
// container: whole numbers only, a missing memory means all of it, and 101
// percent that none was given.
type pluginRequest struct{ cards, memory, percent, cores int }

func readRequest(limits map[string]string, prefix string) (pluginRequest, bool) {
	names := map[string][4]string{
		"nvidia.com/": {"nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"},
		"volcano.sh/": {"volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores"},
	}[prefix]
	r := pluginRequest{percent: 101}
	for i, into := range []*int{&r.cards, &r.memory, &r.percent, &r.cores} {
		if v, ok := limits[names[i]]; ok {
			n, err := strconv.Atoi(v)
			if err != nil {
				return r, false
			}
			*into = n
		}
	}
	if r.percent == 101 && r.memory == 0 {
		r.percent = 100
	}
	return r, r.cards > 0 && r.cores <= 100
}

// What is written is read back by the schedulers' own rules.
func TestSharesAsTheSchedulersReadThem(t *testing.T) {
	for _, s := range []HAMiShare{{}, {GPUs: 2, Memory: 3000*sharing.MiB + 1, Cores: 30}, {MemoryPercent: 50}, {Memory: sharing.GiB, Cores: 100, LowPriority: true}} {
		want := pluginRequest{max(s.GPUs, 1), int(wholeMiB(s.Memory)), cmp.Or(s.MemoryPercent, 101), s.Cores}
		if s.Memory == 0 && s.MemoryPercent == 0 {
			want.percent = 100
		}
		for prefix, limits := range map[string]map[string]string{"nvidia.com/": s.HAMiResources(), "volcano.sh/": s.VolcanoResources()} {
			if got, ok := readRequest(limits, prefix); !ok || got != want {
				t.Errorf("%s reads %+v off %v, want %+v", prefix, got, limits, want)
			}
		}
	}
	for _, bad := range []map[string]string{{"nvidia.com/gpu": "0.5"}, {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "101"}, {"nvidia.com/gpumem": "3000"}, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3Gi"}} {
		if _, ok := readRequest(bad, "nvidia.com/"); ok {
			t.Errorf("%v is read", bad)
		}
	}
}

// Every document for HAMi and Volcano is one that their schedulers take, in a
// mode that they have.
func TestHAMiAndVolcanoDocuments(t *testing.T) {
	s := mixed(t)
	s.opts.Deliveries = []sharing.Delivery{sharing.DeliveryHAMi, sharing.DeliveryVolcano}
	folder, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]int{}
	for _, f := range folder.Files {
		if !strings.Contains(f.Path, "pods/") {
			continue
		}
		docs, err := strictyaml.Parse(f.Data, strictyaml.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			pod := field(d, "spec", "template")
			limits, a := values(field(field(pod, "spec", "containers").Content[0], "resources", "limits")), values(field(pod, "metadata", "annotations"))
			prefix, modes := "nvidia.com/", []string{"hami-core", "mig", "mps"}
			if text(field(pod, "spec", "schedulerName")) == "volcano" {
				prefix, modes = "volcano.sh/", []string{"hami-core", "mig"}
			}
			if _, ok := readRequest(limits, prefix); !ok || !slices.Contains(modes, a[prefix+"vgpu-mode"]) {
				t.Errorf("%s: %v in mode %q", f.Path, limits, a[prefix+"vgpu-mode"])
			}
			read[prefix]++
		}
	}
	if len(read) != 2 {
		t.Errorf("%v", read)
	}
}
