// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/sharing"
)

// TestKAIShare checks the pod of a workload that shares a GPU against the rules of KAI's admission, and that unknown
// memory is an error.
func TestKAIShare(t *testing.T) {
	for memory, want := range map[sharing.Bytes]string{2000 * sharing.MiB: "2000", 0: ""} {
		var p pod
		m := member{Decision: &decision.Decision{Mechanism: sharing.MechanismTimeSlicing}, name: "side", memory: memory, at: "result.decisions[0]"}
		err := (&builder{}).kaiPod(&p, &m)
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "result.decisions[0]: a part of a GPU") {
				t.Error(err)
			}
			continue
		}
		if err != nil || p.Annotations["gpu-memory"] != want {
			t.Errorf("%v, %v", p.Annotations, err)
		}
		if why := kaiRefuses(p.Annotations, []string{"side"}, p.Limits); why != "" {
			t.Errorf("KAI's admission refuses it: %s", why)
		}
	}
}

// kaiRefuses returns the reason for KAI's admission to refuse a pod, or "": the rules of its
// docs/gpu-sharing/README.md (Admission controls) about the fields that this package writes.
func kaiRefuses(annotations map[string]string, containers []string, limits map[string]string) string {
	fractional := false
	for key, v := range annotations {
		switch key {
		case "gpu-memory":
			if n, err := strconv.Atoi(v); err != nil || n <= 0 {
				return "gpu-memory " + v
			}
			fractional = true
		case "gpu-fraction-container-name":
			if v != containers[0] {
				return "no container " + v
			}
		}
	}
	if fractional && limits["nvidia.com/gpu"] != "" {
		return "a fraction and a whole GPU"
	}
	return ""
}
