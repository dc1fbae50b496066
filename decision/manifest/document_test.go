// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
)

func TestClaim(t *testing.T) {
	var b builder
	c := &claim{Name: "half", Space: "ml", gpu: "A100-SXM4-80GB", profile: "3g.40gb", Count: 1,
		Config: draConfig(sharing.MechanismMIGWithMPS, []tenants{{&member{percent: 50, workload: &decision.Workload{}}, 1}})}
	for file, template := range map[string]bool{"testdata/claim.yaml": false, "testdata/claim-template.yaml": true} {
		c.Template = template
		golden.Check(t, file, b.render("claims", []*claim{c}))
	}
	c.gpu, c.Config = "x') || true (24GiB)", nil
	if got := b.render("claims", []*claim{c}); b.err != nil || !strings.Contains(string(got), `endsWith('x\') || true')`) {
		t.Errorf("%s, %v", got, b.err)
	}
}

// sharedPool is one pool of GPUs that all run one mechanism.
func sharedPool(t *testing.T, workloads string, m sharing.Mechanism, slots int32, tenants ...[]string) *scenario {
	t.Helper()
	f, err := decision.ParseFleet([]byte("version: v1\npools: [{name: p, gpu: L40S, count: 2}]\nworkloads:\n" + workloads))
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario{fleet: f, result: &decision.Result{}}
	for _, w := range f.Workloads {
		s.result.Decisions = append(s.result.Decisions, decision.Decision{Workload: w.Name, Pool: "p", Mechanism: m, Replicas: w.Replicas.Max, GPUs: 1})
	}
	for _, on := range tenants {
		s.add("p", sharing.DeliveryDevicePlugin, gpus{n: 1, mode: m, slots: slots, tenants: on})
	}
	return s
}

func TestDRASlots(t *testing.T) {
	s := sharedPool(t, `
  - {name: a, kind: batch, replicas: 2, memory: 9728MiB}
  - {name: b, kind: batch, replicas: 3, memory: 11776MiB}
`, sharing.MechanismMPS, 3, []string{"a", "a", "b"}, []string{"b", "b"})
	s.deliver(sharing.DeliveryDRA)
	folder, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/dra-slots.txt", dump(&Folder{Files: folder.Files}))
	claims := find(t, folder, "dra/claims/p-mps.yaml")
	// The daemon's defaults are the most that any tenant of the device may have.
	for _, want := range []string{"name: p-mps-0", "name: p-mps-1", "defaultPinnedDeviceMemoryLimit: 12288Mi"} {
		if !strings.Contains(claims, want) {
			t.Errorf("claims lack %q:\n%s", want, claims)
		}
	}
}

// Time-sliced workloads of known memory get claims of their own for a part of a GPU, which an HPA can scale, with
// the gates that they need; where a memory is not known the pods of a device name one claim.
func TestConsumableClaims(t *testing.T) {
	build := func(memory string) *Folder {
		s := sharedPool(t, "  - {name: a, kind: batch, replicas: 3, memory: 20GiB}\n  - {name: b, kind: batch"+memory+"}", sharing.MechanismTimeSlicing, 4, []string{"a", "a", "a", "b"})
		s.deliver(sharing.DeliveryDRA)
		folder, err := s.build()
		if err != nil {
			t.Fatal(err)
		}
		return folder
	}
	folder := build(", memory: 10GiB")
	doc := find(t, folder, "pods/a.yaml")
	for _, want := range []string{"kind: ResourceClaimTemplate", "memory: 20480Mi", "resourceClaimTemplateName: a", "parallelism: 3", "featureGates.ConsumableShares=true", "DRAConsumableCapacity"} {
		if !strings.Contains(doc, want) {
			t.Errorf("no %q in\n%s", want, doc)
		}
	}
	if find(t, folder, "pods/b.yaml"); bytes.Contains(dump(folder), []byte("kind: ResourceClaim\n")) {
		t.Errorf("%s", dump(folder))
	}
}

// A lone tenant of a shared group gets the plugin's least number of replicas.
func TestLoneTenant(t *testing.T) {
	folder, err := sharedPool(t, "  - {name: a, kind: batch, memory: 1GiB}", sharing.MechanismTimeSlicing, 2, []string{"a"}).build()
	if err != nil {
		t.Fatal(err)
	}
	if doc := find(t, folder, "device-plugin/p-time-slicing.yaml"); !strings.Contains(doc, "replicas: 2") {
		t.Errorf("got\n%s", doc)
	}
}

// What a trap says cannot break the page.
func TestPlanText(t *testing.T) {
	s := sharedPool(t, "  - {name: a, kind: batch, memory: 1GiB}", sharing.MechanismTimeSlicing, 2, []string{"a"})
	s.result.Traps = []decision.TrapHit{{ID: "time-slicing-takes-turns", Severity: sharing.SeverityHigh, Message: "a|b\nc"}}
	folder, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	plan := find(t, folder, "plan.md")
	for _, want := range []string{"\n## Check for these\n\n| severity | trap | what is true |\n|---|---|---|\n| high | time-slicing-takes-turns | a\\|b c |\n"} {
		if !strings.Contains(plan, want) {
			t.Errorf("plan.md lacks %q:\n%s", want, plan)
		}
	}
}
