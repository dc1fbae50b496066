package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
)

func ExampleKAIShare() {
	s := KAIShare{Mode: KAIModeNvFractions, Memory: 20 * sharing.GiB, SMSharing: true, Container: "server"}
	if err := s.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	a := s.Annotations()
	for _, k := range sortedKeys(a) {
		fmt.Println(k+":", a[k])
	}
	// Output:
	// nvidia.com/container.server.gpu-compute.mode: sm-sharing
	// nvidia.com/container.server.gpu-memory.limit: 20480Mi
	// nvidia.com/container.server.gpu-memory.request: 20480Mi
}

func TestKAIShare(t *testing.T) {
	long := strings.Repeat("c", 35)
	for _, c := range []struct {
		name  string
		share KAIShare
		want  map[string]string // nil: refused
		path  string
	}{
		{"fraction", KAIShare{Fraction: 0.5}, map[string]string{"gpu-fraction": "0.5"}, ""},
		{"memory of a container", KAIShare{Memory: 2000 * sharing.MiB, Container: "side"}, map[string]string{"gpu-memory": "2000", "gpu-fraction-container-name": "side"}, ""},
		{"rounded up, on two GPUs", KAIShare{Mode: KAIModeHAMiCore, Memory: sharing.MiB + 1, GPUs: 2}, map[string]string{"gpu-memory": "2", "gpu-fraction-num-devices": "2"}, ""},
		{"may grow", KAIShare{Mode: KAIModeNvFractions, Memory: 4 * sharing.GiB, Limit: 8 * sharing.GiB, Container: "a"},
			map[string]string{"nvidia.com/container.a.gpu-memory.request": "4096Mi", "nvidia.com/container.a.gpu-memory.limit": "8192Mi"}, ""},
		{"fraction with a compute mode", KAIShare{Mode: KAIModeNvFractions, Fraction: 0.25, SMSharing: true, Container: "a"},
			map[string]string{"gpu-fraction": "0.25", "gpu-fraction-container-name": "a", "nvidia.com/container.a.gpu-compute.mode": "sm-sharing"}, ""},
		{"the longest name", KAIShare{Mode: KAIModeNvFractions, Memory: sharing.MiB, Container: long[1:]},
			map[string]string{"nvidia.com/container." + long[1:] + ".gpu-memory.request": "1Mi", "nvidia.com/container." + long[1:] + ".gpu-memory.limit": "1Mi"}, ""},

		{"nothing", KAIShare{}, nil, "fraction"},
		{"a whole GPU", KAIShare{Fraction: 1}, nil, "fraction"},
		{"a negative part", KAIShare{Fraction: -0.5}, nil, "fraction"},
		{"both", KAIShare{Memory: sharing.GiB, Fraction: 0.5}, nil, "fraction"},
		{"negative memory", KAIShare{Memory: -1}, nil, "memory"},
		{"a limit before 0.18", KAIShare{Memory: 1, Limit: 2}, nil, "limit"},
		{"a limit below", KAIShare{Mode: KAIModeNvFractions, Memory: 2, Limit: 1, Container: "a"}, nil, "limit"},
		{"a compute mode before 0.18", KAIShare{Mode: KAIModeHAMiCore, Memory: 1, SMSharing: true}, nil, "sm_sharing"},
		{"no container", KAIShare{Mode: KAIModeNvFractions, Memory: 1}, nil, "container"},
		{"a long container", KAIShare{Mode: KAIModeNvFractions, Memory: 1, Container: long}, nil, "container"},
		{"a mode of no version", KAIShare{Mode: 9, Memory: 1}, nil, "mode"},
	} {
		err := c.share.Validate()
		if c.want == nil {
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.path+": ") {
				t.Errorf("%s: %v, want a problem at %s", c.name, err, c.path)
			}
			continue
		}
		got := c.share.Annotations()
		if diff := gocmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", c.name, err, diff)
		}
		if why := kaiRefuses(got, []string{cmp.Or(c.share.Container, "first")}, nil); why != "" {
			t.Errorf("%s: KAI's admission refuses it: %s", c.name, why)
		}
	}
}

// kaiRefuses says why KAI's admission would refuse a pod: the rules of its
// docs/gpu-sharing/README.md (Admission controls), and Kubernetes' own on the
// length of an annotation's name.
func kaiRefuses(annotations map[string]string, containers []string, limits map[string]string) string {
	whole := func(text, suffix string) (int64, bool) {
		n, ok := strings.CutSuffix(text, suffix)
		v, err := strconv.ParseInt(n, 10, 64)
		return v, ok && err == nil && v > 0
	}
	has := func(name string) bool {
		for _, c := range containers {
			if c == name {
				return true
			}
		}
		return false
	}
	fractional, named := false, map[string]bool{}
	memory := map[string]int64{}
	for key, v := range annotations {
		if _, name, ok := strings.Cut(key, "/"); ok && len(name) > 63 {
			return key + " is longer than Kubernetes allows"
		}
		switch rest, isNv := strings.CutPrefix(key, "nvidia.com/container."); {
		case key == "gpu-fraction":
			if f, err := strconv.ParseFloat(v, 64); err != nil || !(f > 0 && f < 1) {
				return "gpu-fraction " + v
			}
			fractional = true
		case key == "gpu-memory":
			if _, ok := whole(v, ""); !ok {
				return "gpu-memory " + v
			}
			fractional = true
		case key == "gpu-fraction-num-devices":
			if _, ok := whole(v, ""); !ok {
				return "gpu-fraction-num-devices " + v
			}
		case key == "gpu-fraction-container-name":
			if !has(v) {
				return "no container " + v
			}
			named[v] = true
		case isNv && strings.HasSuffix(rest, ".gpu-compute.mode"):
			if v != "time-slicing" && v != "sm-sharing" {
				return "compute mode " + v
			}
			named[strings.TrimSuffix(rest, ".gpu-compute.mode")] = true
		case isNv && (strings.HasSuffix(rest, ".gpu-memory.request") || strings.HasSuffix(rest, ".gpu-memory.limit")):
			n, ok := whole(v, "Mi")
			if !ok {
				return key + " " + v
			}
			container, what, _ := strings.Cut(rest, ".gpu-memory.")
			named[container], memory[what], fractional = true, n, true
		case isNv:
			return key + " is not the user's to write"
		}
	}
	for name := range named {
		if !has(name) {
			return "no container " + name
		}
	}
	switch {
	case len(named) > 1:
		return "more than one container"
	case memory["limit"] > 0 && memory["request"] > memory["limit"]:
		return "the request exceeds the limit"
	case fractional && limits["nvidia.com/gpu"] != "":
		return "a fraction and a whole GPU"
	}
	return ""
}

// The rules refuse what KAI refuses, so that they can hold what is written.
func TestKAIRules(t *testing.T) {
	for _, bad := range []map[string]string{
		{"gpu-fraction": "1"}, {"gpu-fraction": "half"}, {"gpu-memory": "4Gi"}, {"gpu-memory": "0"}, {"nvidia.com/container.a.gpu-memory.request": "0Mi"},
		{"nvidia.com/container.b.gpu-memory.request": "1Mi"}, {"nvidia.com/container.a.gpus.devices": "0"}, {"nvidia.com/container.a.gpu-compute.mode": "mps"},
		{"nvidia.com/container.a.gpu-memory.request": "2Mi", "nvidia.com/container.a.gpu-memory.limit": "1Mi"},
		{"nvidia.com/container." + strings.Repeat("a", 40) + ".gpu-memory.request": "1Mi"}, {"gpu-fraction": "0.5", "gpu-fraction-container-name": "b"},
	} {
		if kaiRefuses(bad, []string{"a"}, nil) == "" {
			t.Errorf("%v is let in", bad)
		}
	}
	if kaiRefuses(map[string]string{"gpu-fraction": "0.5"}, []string{"a"}, map[string]string{"nvidia.com/gpu": "1"}) == "" {
		t.Error("a fraction beside a whole GPU is let in")
	}
}

// What KAI can deliver, and what its configuration must warn of, depends on the
// mode.
func TestKAIModes(t *testing.T) {
	for mode, want := range map[KAIMode]struct {
		warned, mps bool
		header      string
	}{
		KAIModeNotEnforced: {warned: true},
		KAIModeHAMiCore:    {header: "kai-resource-isolator"},
		KAIModeNvFractions: {mps: true, header: "driver r615"},
	} {
		s := mixed(t)
		s.opts.Deliveries, s.opts.KAIMode = []sharing.Delivery{sharing.DeliveryKAI}, mode
		folder, err := s.build()
		if err != nil {
			t.Fatalf("%v: %v", mode, err)
		}
		warned := false
		for _, w := range folder.Warnings {
			warned = warned || w.Code == WarnNotEnforced
		}
		sm, header := false, want.header == ""
		for _, f := range folder.Files {
			text := string(f.Data)
			sm = sm || strings.Contains(text, "gpu-compute.mode: sm-sharing")
			header = header || strings.Contains(text, want.header)
			if strings.Contains(text, "sm-sharing") && strings.Contains(text, "CUDA_MPS") {
				t.Errorf("%v: %s sets the clients' limits a second time", mode, f.Path)
			}
		}
		if warned != want.warned || sm != want.mps || !header {
			t.Errorf("%v: warned %v, sm-sharing %v, header %v", mode, warned, sm, header)
		}
	}
	var m KAIMode
	if err := m.UnmarshalText([]byte("NvFractions")); err != nil || m != KAIModeNvFractions || m.String() != "NvFractions" {
		t.Errorf("%v, %v", m, err)
	}
	if b, err := KAIMode(9).MarshalText(); err == nil {
		t.Errorf("%s", b)
	}
}
