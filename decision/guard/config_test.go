// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"strings"
	"testing"
	"time"
)

// A configuration or an error comes of any text.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{"", "gpus: [{index: 0, mechanism: mps}]\ntenants: [{name: a, kind: batch, gpu: 0, command: x}]", "gpus: null", "tenants: [{holds: .nan, tpot_ms: .inf, expect_tpot_ms: [.nan, 1]}]",
		"gpus: [{index: -1}, {index: 99999999999}]", "a: &a [*a]", "\x00", "tenants: [{profile: {server: {model: m, slots: -1}, load: {rate: .inf}}}]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseConfig([]byte(text))
		if err != nil {
			return
		}
		if len(s.GPUs) == 0 || len(s.Tenants) == 0 {
			t.Fatalf("%+v", s)
		}
		g, err := New(DefaultRules(time.Second), *s)
		if err != nil {
			t.Fatal(err)
		}
		g.Step(Observation{GPUs: make([]GPUSeen, len(s.GPUs)), Tenants: make([]TenantSeen, len(s.Tenants))})
	})
}

func TestConfigProblems(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"keys":  {"gpu: 1\n", []string{"gpu: unknown key", "gpus: is missing"}},
		"types": {"gpus: [{index: x, mechanism: sharing}]\ntenants: [{name: a, kind: chat, gpu: 0}]\n", []string{"gpus[0].index", "gpus[0].mechanism", "tenants[0].kind"}},
		"two":   {"gpus: []\n---\ngpus: []\n", []string{"2 documents"}},
		"empty": {"gpus: []\ntenants: []", []string{"gpus: none", "tenants: none"}},
		"everything": {`gpus: [{index: 0, mechanism: mps}, {index: 0, mechanism: mps}]
policy: soon
tenants:
- {name: "a b", kind: batch, gpu: 7, holds: 2, tpot_ms: -1, expect_tpot_ms: [3]}
- {name: s, kind: online-inference, gpu: 0}
- {name: s, kind: online-inference, gpu: 0, profile: {server: {model: m}, load: {rate: 1, prompt: 2, output: 3}}}
`, []string{"gpus[1].index", "policy", "tenants[0].name",
			"tenants[0].gpu", "tenants[0].holds", "tenants[0].tpot_ms", "tenants[0].expect_tpot_ms",
			"tenants[1]: its latency cannot be observed", "tenants[0]: its processes cannot be identified", "tenants[2].name", "tenants[2].profile"}},
		"parts of a GPU": {`gpus: [{index: 0, mechanism: mps}, {index: 3, mechanism: mps}]
tenants:
- {name: a, kind: batch, gpu: 3, holds: 0.7, command: a}
- {name: b, kind: batch, gpu: 0, holds: 0.7, command: b}
- {name: c, kind: batch, gpu: 3, holds: 0.5, command: c}
- {name: d, kind: batch, gpu: 0, holds: 0.2, command: d}
- {name: e, kind: batch, gpu: 0, holds: 0.1, command: e}
- {name: f, kind: batch, gpu: 0, command: f}
- {name: g, kind: batch, gpu: 0, command: f}
`, []string{"tenants[2].holds: with those before it GPU 3 is held 1.2 times (state parts that add up to at most 1)\ntenants[6]"}},
		"processes": {`gpus: [{index: 0, mechanism: mps}]
tenants:
- {name: a, kind: online-inference, gpu: 0, pids: [7, 7], metrics: "http://x"}
- {name: b, kind: batch, gpu: 0, pids: [7], command: x}
- {name: c, kind: batch, gpu: 0, command: x, tpot_ms: 30}
`, []string{"tenants[2].tpot_ms: kind batch gives no tokens (leave it out)", "tenants[0]: process 7 is tenants[0]'s already",
			"tenants[1]: process 7 is tenants[0]'s already", `tenants[2]: command "x" is tenants[1]'s already`}},
		"pods and workloads": {`gpus: [{index: 0, mechanism: mps}, {index: 1, mechanism: mps}]
tenants:
- {name: a, kind: batch, gpus: [0, 0], workload: a}
- {name: b, kind: batch, workload: ml/b}
- {name: c, kind: batch, gpus: [0, 1], workload: ml/c/d/e}
- {name: d, kind: batch, gpus: [0, 1], workload: ml/d}
- {name: e, kind: batch, gpu: 1, workload: ml/d}
`, []string{"tenants[0].gpus: 0 is there twice", "tenants[0].workload", "tenants[1].gpu: is missing", "tenants[2].workload", "tenants[4]: workload ml/d is tenants[3]'s already"}},
	} {
		_, err := parseConfig([]byte(c.text))
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in %v", name, want, err)
			}
		}
	}
}
