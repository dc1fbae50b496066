// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/sharing"
)

// TestMemoryUnknown: a workload of which nobody says how much memory it needs
// gets whole GPUs and a provisional answer that asks for it, and no neighbour.
func TestMemoryUnknown(t *testing.T) {
	f, err := ParseFleet([]byte(`
version: v1
pools: [{name: a, gpu: A100-SXM4-80GB, count: 8, price_per_gpu_hour: 3 USD}]
workloads:
  - {name: team-a/web, kind: online-inference, replicas: 2, gpu_busy: 0.05}
  - {name: team-a/fit, kind: distributed-training, replicas: 2}
  - {name: team-a/nb, kind: notebook, replicas: 3, memory: 4GiB, tenant: x}
`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Decide(t.Context(), f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"team-a/web", "team-a/fit"} {
		d := r.Decision(name)
		if d.Status != StatusProvisional || d.Mechanism != sharing.MechanismExclusive || d.Memory != "not known" || d.Measurement == nil || !strings.Contains(d.Measurement.Text, "memory") {
			t.Errorf("%s: %+v", name, d)
		}
		for _, c := range d.Candidates {
			if c.Mechanism != sharing.MechanismExclusive && c.Verdict.String() == "pass" {
				t.Errorf("%s passes %v", name, c.Mechanism)
			}
		}
	}
	if d := r.Decision("team-a/nb"); d.Mechanism == sharing.MechanismExclusive || d.Memory != "4GiB" {
		t.Errorf("%+v", d)
	}
}

// TestSchemaNames: the schema takes the names of workloads that the reader takes.
func TestSchemaNames(t *testing.T) {
	var s struct {
		Defs map[string]struct {
			Properties map[string]struct{ Pattern string }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(fleet.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(s.Defs["workload"].Properties["name"].Pattern)
	for name, ok := range map[string]bool{"a": true, "a/b": true, "a/" + strings.Repeat("b", 253): true, "a/" + strings.Repeat("b", 254): false, "a/b/c": false, "/b": false, "a/": false,
		"a//b": false, strings.Repeat("a", 63): true, strings.Repeat("a", 64): false, strings.Repeat("a", 64) + "/b": false, "-a": false, "a/-b": false, "a/b-": false, "a b": false} {
		f := Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: "T4", Count: 1}}, Workloads: []Workload{{Name: name, Kind: KindBatch}}}
		if err := f.Validate(); (err == nil) != ok || ok != pattern.MatchString(name) {
			t.Errorf("%.80q: the reader says %v, the schema %v", name, err, pattern.MatchString(name))
		}
	}
	f := Fleet{Version: "v1", Pools: []Pool{{Name: "a/p", GPU: "T4", Count: 1}}, Workloads: []Workload{{Name: "w", Kind: KindBatch}}}
	if f.Validate() == nil {
		t.Error("a pool's name has a slash")
	}
}
