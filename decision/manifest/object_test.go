// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/sharing"
)

// A workload's pods come from the kind of object that was read, or that suits it, and go back as that kind does.
func TestObjects(t *testing.T) {
	for _, c := range []struct {
		kind               decision.Kind
		read               string
		object, pods, back string
	}{
		{kind: decision.KindOnlineInference, object: "Deployment", pods: "spec.replicas", back: "kubectl rollout undo deployment/a -n ml"},
		{kind: decision.KindNotebook, object: "StatefulSet", pods: "spec.replicas", back: "kubectl rollout undo statefulset/a -n ml"},
		{kind: decision.KindTraining, object: "Job", pods: "spec.parallelism", back: "kubectl delete job/a -n ml"},
		{kind: decision.KindBatch, object: "Job", pods: "spec.completions", back: "kubectl delete job/a -n ml"},
		{kind: decision.KindBatch, read: "CronJob", object: "CronJob", pods: "spec.jobTemplate.spec.parallelism", back: "what was kept of cronjob/a -n ml"},
		{kind: decision.KindTraining, read: "JobSet", object: "JobSet", pods: "spec.replicatedJobs", back: "kubectl delete jobset/a -n ml"},
		{kind: decision.KindTraining, read: "RayCluster", object: "PodTemplate", pods: "template.spec.containers", back: "kubectl delete raycluster/a -n ml"},
	} {
		s := sharedPool(t, "  - {name: ml/a, kind: "+string(c.kind)+", replicas: 2, memory: 1GiB}", sharing.MechanismTimeSlicing, 2, []string{"ml/a", "ml/a"})
		if c.read != "" {
			s.fleet.Workloads[0].Today = &fleet.Today{Object: c.read}
		}
		var b builder
		m := newMember(&s.result.Decisions[0], &s.fleet.Workloads[0], nil, nil, "a")
		var doc yaml.Node
		if err := yaml.Unmarshal(b.render("object", b.newPod(m)), &doc); err != nil || b.err != nil {
			t.Fatal(err)
		}
		if got := text(field(doc.Content[0], "kind")); got != c.object {
			t.Errorf("%v, read as %q: a %s, want a %s", c.kind, c.read, got, c.object)
		}
		if field(doc.Content[0], strings.Split(c.pods, ".")...) == nil || text(field(doc.Content[0], "metadata", "namespace")) != "ml" {
			t.Errorf("%v, read as %q: no %s in ml", c.kind, c.read, c.pods)
		}
		if !strings.Contains(m.back(), c.back) {
			t.Errorf("%v, read as %q: %s", c.kind, c.read, m.back())
		}
	}
}

// Where the nodes of a pool are configured differently, a workload may be on those of its own replicas and no others,
// and replicas without a place are in no document.
func TestDifferentNodes(t *testing.T) {
	s := sharedPool(t, "  - {name: a, kind: batch, replicas: 9, memory: 1GiB}\n  - {name: b, kind: batch, replicas: 2, memory: 4GiB}\ntrust: all", sharing.MechanismMPS, 4, []string{"a", "a", "a", "a"})
	s.add("p", sharing.DeliveryDevicePlugin, gpus{n: 1, mode: sharing.MechanismMPS, slots: 3, tenants: []string{"a", "b", "b"}})
	s.result.Decisions[0].Placed, s.result.Decisions[0].Unplaced = 5, 4
	folder, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	for path, wants := range map[string][]string{
		"device-plugin/p-mps.yaml":   {"replicas: 4"},
		"device-plugin/p-mps-2.yaml": {"replicas: 3"},
		"pods/a.yaml":                {"operator: In", "- p-mps\n", "- p-mps-2\n", "parallelism: 5"},
		"pods/b.yaml":                {"nodeSelector:\n        cotenant.dev/sharing-group: p-mps-2", "parallelism: 2"},
		"plan.md":                    {"a: 4 of 9 replicas have no place"},
	} {
		for _, want := range wants {
			if doc := find(t, folder, path); !strings.Contains(doc, want) {
				t.Errorf("%s lacks %q:\n%s", path, want, doc)
			}
		}
	}
}

// A pool's own delivery writes its files; the device plugin writes none for nodes with GPUs that it cannot share as
// planned.
func TestOwnDelivery(t *testing.T) {
	s := sharedPool(t, "  - {name: a, kind: batch, replicas: 2, memory: 1GiB}", sharing.MechanismMPS, 2, []string{"a", "a"})
	s.add("p", sharing.DeliveryDRA, gpus{n: 1, mode: sharing.MechanismMPS, tenants: []string{"a", "a"}}, gpus{n: 1, mode: sharing.MechanismExclusive})
	s.nodes = s.nodes[1:]
	folder, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folder.Files {
		if strings.HasPrefix(f.Path, "device-plugin/") {
			t.Errorf("%s is written", f.Path)
		}
	}
	if doc := find(t, folder, "pods/a.yaml"); !strings.Contains(doc, "resourceClaimName: p-exclusive-mps-0") {
		t.Error(doc)
	}
}

// HAMi has one mode a node: a layout of two is refused, and another than its default is a step of the plan.
func TestHAMiModes(t *testing.T) {
	s := sharedPool(t, "  - {name: a, kind: batch, memory: 1GiB}", sharing.MechanismHAMiWithMPS, 10)
	s.add("p", sharing.DeliveryHAMi, gpus{n: 2, mode: sharing.MechanismHAMiWithMPS, slots: 10, tenants: []string{"a"}})
	folder, err := s.build()
	if err != nil || !strings.Contains(find(t, folder, "plan.md"), `"operatingmode": "mps"`) {
		t.Errorf("%v, %v", err, folder)
	}
	s.nodes[0].Devices[1].Mode = sharing.MechanismHAMi
	s.nodes[0].Assignments = s.nodes[0].Assignments[:1]
	if _, err = s.build(); err == nil || !strings.Contains(err.Error(), "one mode") {
		t.Errorf("two modes: %v", err)
	}
}

// Answers that have to be measured come first.
func TestProvisionalFirst(t *testing.T) {
	s := sharedPool(t, "  - {name: a, kind: batch, memory: 1GiB}", sharing.MechanismTimeSlicing, 2, []string{"a"})
	s.result.Decisions[0].Status = decision.StatusProvisional
	s.result.Decisions[0].Measurement = &decision.Measurement{Text: "Measure SM activity."}
	folder, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	page := find(t, folder, "plan.md")
	if !strings.HasPrefix(page, "# GPU sharing rollout\n\nMeasure these first:\n\n- a by time-slicing is right if what it assumes is. Measure SM activity.\n") {
		t.Error(page)
	}
	if i := strings.Index(page, "## General phases"); i < 0 || strings.Count(page[i:], "\n") > 12 {
		t.Error(page)
	}
}
