package manifest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/sharing"
)

// What is written of a workload that shares a GPU is let in by KAI's admission, or refused with a reason.
func TestKAIShare(t *testing.T) {
	long := strings.Repeat("c", 35)
	for _, c := range []struct {
		name   string
		mode   KAIMode
		m      sharing.Mechanism
		memory sharing.Bytes
		want   map[string]string // nil: refused
	}{
		{"side", KAIModeNotEnforced, sharing.MechanismTimeSlicing, 2000 * sharing.MiB, map[string]string{"gpu-memory": "2000", "gpu-fraction-container-name": "side"}},
		{"a", KAIModeNvFractions, sharing.MechanismMPS, 4 * sharing.GiB, map[string]string{"nvidia.com/container.a.gpu-memory.request": "4096Mi",
			"nvidia.com/container.a.gpu-memory.limit": "4096Mi", "nvidia.com/container.a.gpu-compute.mode": "sm-sharing"}},
		{long[1:], KAIModeNvFractions, sharing.MechanismTimeSlicing, sharing.MiB, map[string]string{"nvidia.com/container." + long[1:] + ".gpu-memory.request": "1Mi",
			"nvidia.com/container." + long[1:] + ".gpu-memory.limit": "1Mi"}},
		{long, KAIModeNvFractions, sharing.MechanismTimeSlicing, sharing.MiB, nil},
		{"unknown", KAIModeHAMiCore, sharing.MechanismTimeSlicing, 0, nil},
	} {
		var p pod
		m := member{Decision: &decision.Decision{Mechanism: c.m}, name: c.name, memory: c.memory, at: "result.decisions[0]"}
		err := (&builder{opts: Options{KAIMode: c.mode}}).kaiPod(&p, &m)
		if c.want == nil {
			if err == nil || !strings.Contains(err.Error(), "result.decisions[0]") {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if diff := cmp.Diff(c.want, p.annotations); err != nil || diff != "" {
			t.Errorf("%s: %v %s", c.name, err, diff)
		}
		if why := kaiRefuses(p.annotations, []string{c.name}, p.limits); why != "" {
			t.Errorf("%s: KAI's admission refuses it: %s", c.name, why)
		}
	}
}

// kaiRefuses says why KAI's admission would refuse a pod: the rules of its docs/gpu-sharing/README.md (Admission
// controls), and Kubernetes' own on the length of an annotation's name.
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

// What KAI can deliver, and what its configuration must warn of, depends on the mode.
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
}
