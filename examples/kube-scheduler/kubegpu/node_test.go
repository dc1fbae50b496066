package kubegpu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cotenant/cotenant/decision/layout"
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
		if d.Slots > 0 {
			text += fmt.Sprintf("/%d", d.Slots)
		}
		if d.Health != layout.HealthNotReported {
			text += " " + d.Health.String()
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
	if n.gpu.Memory > 0 {
		memory = n.gpu.Memory.String()
	}
	out := fmt.Sprintf("%s %v as %s: %s", n.Model, memory, n.Resource, strings.Join(gpus, ", "))
	if n.Single != "" {
		out += ", each " + n.Single
	}
	if len(n.Notes) > 0 {
		out += " (" + strings.Join(n.Notes, "; ") + ")"
	}
	return out
}

func TestReadNode(t *testing.T) {
	const hami = `[{"id":"GPU-a","count":10,"devmem":49140,"devcore":100,"type":"NVIDIA L40S","mode":"hami-core","health":true},` +
		`{"id":"GPU-b","index":1,"count":10,"devmem":49140,"devcore":100,"type":"NVIDIA L40S","mode":"hami-core","health":false}]`
	for _, tc := range []struct {
		name, allocatable, labels, register string
		want                                string
	}{
		{name: "cpu only", want: "no GPU"},
		{name: "no labels", allocatable: "nvidia.com/gpu=2", want: " - as nvidia.com/gpu: exclusive, exclusive"},
		{name: "exclusive", allocatable: "nvidia.com/gpu=2",
			labels: "gpu.product=NVIDIA-H100-80GB-HBM3 gpu.memory=81559 gpu.count=2 gpu.replicas=1 gpu.sharing-strategy=none mig.strategy=none",
			want:   "H100 80GB HBM3 79.65GiB as nvidia.com/gpu: exclusive, exclusive"},
		{name: "time-sliced", allocatable: "nvidia.com/gpu=8",
			labels: "gpu.product=Tesla-T4-SHARED gpu.memory=15360 gpu.count=2 gpu.replicas=4 gpu.sharing-strategy=time-slicing",
			want:   "Tesla T4 15GiB as nvidia.com/gpu: time-slicing/4, time-slicing/4"},
		{name: "renamed", allocatable: "nvidia.com/gpu.shared=4", labels: "gpu.product=NVIDIA-L4 gpu.count=1 gpu.replicas=4",
			want: "L4 22.49GiB as nvidia.com/gpu.shared: time-slicing/4"},
		{name: "mps", allocatable: "nvidia.com/gpu=10",
			labels: "gpu.product=NVIDIA-A100-SXM4-40GB-SHARED gpu.count=1 gpu.replicas=10 gpu.sharing-strategy=mps mps.capable=true",
			want:   "A100-SXM4-40GB 40GiB as nvidia.com/gpu: mps/10"},
		{name: "mig single", allocatable: "nvidia.com/gpu=10",
			labels: "gpu.product=NVIDIA-A100-SXM4-80GB-MIG-1g.10gb gpu.memory=9728 gpu.count=10 gpu.replicas=1 mig.strategy=single",
			want: "A100-SXM4-80GB 9.5GiB as nvidia.com/gpu: mig[1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6], " +
				"mig[1g.10gb@4 1g.10gb@5 1g.10gb@6], each 1g.10gb"},
		{name: "mig mixed, alike", allocatable: "nvidia.com/mig-1g.10gb=4 nvidia.com/mig-2g.20gb=2 nvidia.com/mig-3g.40gb=2",
			labels: "gpu.product=NVIDIA-A100-SXM4-80GB gpu.memory=81920 gpu.count=2 gpu.replicas=0 mig.strategy=mixed",
			want: "A100-SXM4-80GB 80GiB as nvidia.com/gpu: mig[2g.20gb@0 1g.10gb@2 1g.10gb@3 3g.40gb@4], " +
				"mig[2g.20gb@0 1g.10gb@2 1g.10gb@3 3g.40gb@4]"},
		{name: "mig mixed beside a whole GPU", allocatable: "nvidia.com/gpu=1 nvidia.com/mig-3g.40gb=2",
			labels: "gpu.product=NVIDIA-A100-SXM4-80GB gpu.count=2 gpu.replicas=1 mig.strategy=mixed",
			want:   "A100-SXM4-80GB 80GiB as nvidia.com/gpu: exclusive, mig[3g.40gb@0 3g.40gb@4]"},
		{name: "mig mixed, not alike", allocatable: "nvidia.com/mig-1g.10gb=7 nvidia.com/mig-3g.40gb=2",
			labels: "gpu.product=NVIDIA-A100-SXM4-80GB gpu.count=2 gpu.replicas=0 mig.strategy=mixed",
			want: "A100-SXM4-80GB 80GiB as nvidia.com/gpu: mig[1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 3g.40gb@4], " +
				"mig[1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4] (which of 2 GPUs has which MIG instances is not known: it is assumed)"},
		{name: "hami", allocatable: "nvidia.com/gpu=20", register: hami,
			want: "L40S 47.99GiB as nvidia.com/gpu: hami/10, hami/10 unhealthy (annotation hami.io/node-nvidia-register: device 1 (GPU-b) is not healthy)"},
		{name: "old hami", allocatable: "nvidia.com/gpu=10", register: "GPU-a,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:",
			want: "Tesla V100-PCIE-32GB 32GiB as nvidia.com/gpu: hami/10"},
		{name: "thousandths", allocatable: "cotenant.dev/gpu-milli=2000", labels: "gpu.product=Tesla-T4 cotenant.dev/mechanism=mps",
			want: "Tesla T4 15GiB as cotenant.dev/gpu-milli: mps, mps"},
		{name: "unknown product", allocatable: "nvidia.com/gpu=1", labels: "gpu.product=NVIDIA-Z900 gpu.memory=4096 gpu.count=1",
			want: `NVIDIA-Z900 4GiB as nvidia.com/gpu: exclusive (label nvidia.com/gpu.product: the GPU table has no "NVIDIA-Z900"; its memory is taken from the label)`},

		{name: "replicas that do not divide", allocatable: "nvidia.com/gpu=7", labels: "gpu.product=NVIDIA-L4-SHARED gpu.count=2 gpu.replicas=4",
			want: "offers 7 of nvidia.com/gpu, which is no multiple of the 4 replicas of label nvidia.com/gpu.replicas; " +
				"offers 7 of nvidia.com/gpu: with 4 replicas that is 1 GPUs, and label nvidia.com/gpu.count says 2"},
		{name: "replicas that are not offered", allocatable: "nvidia.com/gpu=2", labels: "gpu.product=NVIDIA-L4-SHARED gpu.count=2 gpu.replicas=2",
			want: "offers 2 of nvidia.com/gpu: with 2 replicas that is 1 GPUs, and label nvidia.com/gpu.count says 2"},
		{name: "memory that no board has", allocatable: "nvidia.com/gpu=1", labels: "gpu.product=Tesla-T4 gpu.memory=81920",
			want: "label nvidia.com/gpu.memory says 80GiB, and no Tesla T4 has that: it has 15GiB"},
		{name: "shared and not shared", allocatable: "nvidia.com/gpu=1", labels: "gpu.product=NVIDIA-L4-SHARED gpu.sharing-strategy=none",
			want: "label nvidia.com/gpu.sharing-strategy is none, and 1 replicas are offered"},
		{name: "not a number", allocatable: "nvidia.com/gpu=1", labels: "gpu.product=NVIDIA-L4 gpu.memory=much gpu.count=-1",
			want: `label nvidia.com/gpu.memory is "much", not a number; label nvidia.com/gpu.count is "-1", not a number`},
		{name: "strategy", allocatable: "nvidia.com/gpu=1", labels: "gpu.sharing-strategy=hope", want: `label nvidia.com/gpu.sharing-strategy: there is no strategy "hope"`},
		{name: "mig on a board without", allocatable: "nvidia.com/mig-1g.10gb=7", labels: "gpu.product=Tesla-T4 mig.strategy=mixed",
			want: `MIG instances on a "Tesla T4", which the MIG catalogue does not have`},
		{name: "mig profile of another board", allocatable: "nvidia.com/mig-1g.99gb=7", labels: "gpu.product=NVIDIA-A100-SXM4-80GB mig.strategy=mixed",
			want: "offers nvidia.com/mig-1g.99gb, and a a100-80gb has no such profile"},
		{name: "more mig than fits", allocatable: "nvidia.com/mig-3g.40gb=3", labels: "gpu.product=NVIDIA-A100-SXM4-80GB gpu.count=1 mig.strategy=mixed",
			want: "offers more MIG instances (3g.40gb=3) than fit on 1 of a100-80gb"},
		{name: "shared mig instances", allocatable: "nvidia.com/mig-3g.40gb=4", labels: "gpu.product=NVIDIA-A100-SXM4-80GB gpu.count=1 mig-3g.40gb.replicas=2 mig.strategy=mixed",
			want: "shares each MIG instance of 3g.40gb among 2 pods: placement does not handle that"},
		{name: "mig invalid", allocatable: "nvidia.com/gpu=1", labels: "gpu.product=NVIDIA-A100-SXM4-80GB-MIG-INVALID mig.strategy=single",
			want: `label nvidia.com/gpu.product: the layout does not suit the MIG strategy "single"`},
		{name: "mig strategies", allocatable: "nvidia.com/gpu=7", labels: "gpu.product=NVIDIA-A100-SXM4-80GB-MIG-1g.10gb mig.strategy=mixed",
			want: `labels nvidia.com/gpu.product and nvidia.com/mig.strategy contradict each other: "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb" and "mixed"`},
		{name: "hami and the node", allocatable: "nvidia.com/gpu=5", register: hami,
			want: "annotation hami.io/node-nvidia-register has 20 shares, and the node offers 5 of nvidia.com/gpu"},
		{name: "hami nonsense", allocatable: "nvidia.com/gpu=5", register: "a,b:",
			want: `annotation hami.io/node-nvidia-register: "a,b" has 2 fields; at least five belong there`},
		{name: "too many", allocatable: "nvidia.com/gpu=1000000000", want: "17 GPUs are more than the 16 that one node may have"},
		{name: "odd thousandths", allocatable: "cotenant.dev/gpu-milli=1500", labels: "cotenant.dev/mechanism=mig",
			want: `label cotenant.dev/mechanism: thousandths of a GPU are not shared by "mig"`},
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
	want := "L4 22.49GiB as nvidia.com/gpu: time-slicing/4 (1 of 2 GPUs are not healthy: which is not known)"
	if d := cmp.Diff(want, summary(ReadNode(n))); d != "" {
		t.Error(d)
	}
}
