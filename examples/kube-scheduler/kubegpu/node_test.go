// SPDX-License-Identifier: Apache-2.0

package kubegpu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resources reads "nvidia.com/gpu=8 cpu=32".
func resources(text string) v1.ResourceList {
	out := v1.ResourceList{}
	for _, f := range strings.Fields(text) {
		k, v, _ := strings.Cut(f, "=")
		out[v1.ResourceName(k)] = resource.MustParse(v)
	}
	return out
}

// labels reads "gpu.product=NVIDIA-L4 mig.strategy=mixed" under nvidia.com/.
func labels(text string) map[string]string {
	out := map[string]string{}
	for _, f := range strings.Fields(text) {
		k, v, _ := strings.Cut(f, "=")
		if !strings.Contains(k, "/") {
			k = "nvidia.com/" + k
		}
		out[k] = v
	}
	return out
}

func kubeNode(name, allocatable, label string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels(label)},
		Status: v1.NodeStatus{Allocatable: resources("cpu=64 memory=512Gi " + allocatable), Capacity: resources(allocatable)}}
}

// summary is what there is to say of a node in a line.
func summary(n *Node) string {
	if n == nil {
		return "no GPU"
	}
	if len(n.Problems) > 0 {
		return strings.Join(n.Problems, "; ")
	}
	var gpus []string
	for _, d := range n.Devices {
		text := fmt.Sprintf("%v", d.Mode)
		if d.Slots > 1 {
			text += fmt.Sprintf("/%d", d.Slots)
		}
		if d.Health != "" {
			text += " " + d.Health
		}
		var slots []string
		for _, in := range d.Instances {
			slots = append(slots, fmt.Sprintf("%s@%d", in.Profile.Name, in.Start))
		}
		if len(slots) > 0 {
			text += "[" + strings.Join(slots, " ") + "]"
		}
		gpus = append(gpus, text)
	}
	memory := "-"
	if n.GPU.Memory > 0 {
		memory = n.GPU.Memory.String()
	}
	out := fmt.Sprintf("%s %v as %s: %s", n.GPU.Name, memory, n.Resource, strings.Join(gpus, ", "))
	if n.Single != "" {
		out += ", each " + n.Single
	}
	if n.Closed != "" {
		out += ", closed: " + n.Closed
	}
	if len(n.Notes) > 0 {
		out += " (" + strings.Join(n.Notes, "; ") + ")"
	}
	return out
}

// TestReadNode holds what package discover reads of a node to what is placed: contradictions keep pods away, the rest is
// a note.
func TestReadNode(t *testing.T) {
	const hami = `[{"id":"GPU-a","count":10,"devmem":49140,"devcore":100,"type":"NVIDIA L40S","mode":"hami-core","health":true},` +
		`{"id":"GPU-b","index":1,"count":10,"devmem":49140,"devcore":100,"type":"NVIDIA L40S","mode":"mps","health":false}]`
	for _, tc := range []struct {
		name, allocatable, labels, register string
		want                                string
	}{
		{name: "cpu only", want: "no GPU"},
		{name: "no labels", allocatable: "nvidia.com/gpu=2", want: " - as nvidia.com/gpu: exclusive, exclusive"},
		{name: "exclusive", allocatable: "nvidia.com/gpu=2",
			labels: "gpu.product=NVIDIA-H100-80GB-HBM3 gpu.memory=81559 gpu.count=2 gpu.replicas=1 gpu.sharing-strategy=none mig.strategy=none",
			want:   "H100 80GB HBM3 79.65GiB as nvidia.com/gpu: exclusive, exclusive"},
		{name: "renamed", allocatable: "nvidia.com/gpu.shared=4", labels: "gpu.product=NVIDIA-L4 gpu.count=1 gpu.replicas=4",
			want: "L4 22.49GiB as nvidia.com/gpu.shared: time-slicing/4"},
		{name: "mig single", allocatable: "nvidia.com/gpu=10",
			labels: "gpu.product=NVIDIA-A100-SXM4-80GB-MIG-1g.10gb gpu.memory=9728 gpu.count=10 gpu.replicas=1 mig.strategy=single",
			want: "A100-SXM4-80GB 80GiB as nvidia.com/gpu: mig[1g.10gb@0 1g.10gb@1 1g.10gb@4 1g.10gb@5 1g.10gb@6], " +
				"mig[1g.10gb@0 1g.10gb@1 1g.10gb@4 1g.10gb@5 1g.10gb@6], each 1g.10gb"},
		{name: "mig mixed beside a whole GPU", allocatable: "nvidia.com/gpu=1 nvidia.com/mig-3g.40gb=2",
			labels: "gpu.product=NVIDIA-A100-SXM4-80GB gpu.count=2 gpu.replicas=1 mig.strategy=mixed",
			want:   "A100-SXM4-80GB 80GiB as nvidia.com/gpu: exclusive, mig[3g.40gb@0 3g.40gb@4]"},
		{name: "more mig than fits", allocatable: "nvidia.com/mig-3g.40gb=3", labels: "gpu.product=NVIDIA-A100-SXM4-80GB gpu.count=1 mig.strategy=mixed",
			want: "A100-SXM4-80GB 80GiB as : mig[3g.40gb@0 3g.40gb@4], closed: one of which it is not known where its MIG instances are"},
		{name: "hami", allocatable: "nvidia.com/gpu=20", register: hami,
			want: "L40S 47.99GiB as nvidia.com/gpu: hami/10, hami+mps/10 unhealthy (no new pods are given GPU-b (not healthy))"},
		{name: "thousandths", allocatable: "cotenant.dev/gpu-milli=2000", labels: "gpu.product=Tesla-T4 cotenant.dev/mechanism=mps",
			want: "Tesla T4 15GiB as cotenant.dev/gpu-milli: mps, mps"},
		{name: "unknown product", allocatable: "nvidia.com/gpu=1", labels: "gpu.product=NVIDIA-Z900 gpu.memory=4096 gpu.count=1",
			want: `NVIDIA-Z900 4GiB as nvidia.com/gpu: exclusive (the GPU table does not have "NVIDIA-Z900": it counts with its memory and capability, and what its architecture has)`},

		{name: "replicas that are not offered", allocatable: "nvidia.com/gpu=2", labels: "gpu.product=NVIDIA-L4-SHARED gpu.count=2 gpu.replicas=2",
			want: "offers 2 of nvidia.com/gpu: with 2 replica(s) a GPU that is 1 GPUs, and label nvidia.com/gpu.count says 2; what is offered is used"},
		{name: "memory that no board has", allocatable: "nvidia.com/gpu=1", labels: "gpu.product=Tesla-T4 gpu.memory=81920",
			want: "label nvidia.com/gpu.memory says 80GiB, and no Tesla T4 has that: it has 15GiB"},
		{name: "not a number", allocatable: "nvidia.com/gpu=1", labels: "gpu.product=NVIDIA-L4 gpu.memory=much gpu.count=-1",
			want: `label nvidia.com/gpu.count is "-1", not a number; it is not used; label nvidia.com/gpu.memory is "much", not a number; it is not used`},
		{name: "mig on a board without", allocatable: "nvidia.com/mig-1g.10gb=7", labels: "gpu.product=Tesla-T4 mig.strategy=mixed",
			want: `has MIG instances, and no MIG profiles are known of "Tesla-T4"`},
		{name: "shared mig instances", allocatable: "nvidia.com/mig-3g.40gb=4", labels: "gpu.product=NVIDIA-A100-SXM4-80GB gpu.count=1 mig-3g.40gb.replicas=2 mig.strategy=mixed",
			want: "each of its 2 instances 3g.40gb is shared by 2 pods by time-slicing: between the pods of one instance the hardware isolates neither memory nor compute nor faults"},
		{name: "hami nonsense", allocatable: "nvidia.com/gpu=5", register: "a,b:",
			want: `annotation hami.io/node-nvidia-register: "a,b" has 2 fields; at least five belong there`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := kubeNode("n", tc.allocatable, tc.labels)
			if tc.register != "" {
				n.Annotations = map[string]string{AnnotationHAMiRegister: tc.register}
			}
			if d := cmp.Diff(tc.want, summary(ReadNode(n))); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestUnhealthy takes what the kubelet took out of allocatable from the GPUs.
func TestUnhealthy(t *testing.T) {
	n := kubeNode("n", "nvidia.com/gpu=8", "gpu.product=NVIDIA-L4-SHARED gpu.count=2 gpu.replicas=4")
	n.Status.Allocatable[ResourceGPU] = resource.MustParse("4")
	want := "L4 22.49GiB as nvidia.com/gpu: time-slicing/4, time-slicing/4 unhealthy (4 of 8 of nvidia.com/gpu are not healthy)"
	if d := cmp.Diff(want, summary(ReadNode(n))); d != "" {
		t.Error(d)
	}
}
