// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

const namespace = "default"

func resources(text string) v1.ResourceList {
	out := v1.ResourceList{}
	for _, f := range strings.Fields(text) {
		k, v, _ := strings.Cut(f, "=")
		out[v1.ResourceName(k)] = resource.MustParse(v)
	}
	return out
}

// makeNode is a node that says it is ready, with labels below nvidia.com/ unless they name their own.
func makeNode(name, offers, labels string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
	all := resources("cpu=96 memory=1024Gi pods=110 " + offers)
	n.Status = v1.NodeStatus{Capacity: all, Allocatable: all,
		Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "MadeUp"}}}
	for _, f := range strings.Fields(labels) {
		k, v, _ := strings.Cut(f, "=")
		if !strings.Contains(k, "/") {
			k = "nvidia.com/" + k
		}
		n.Labels[k] = v
	}
	return n
}

// makeNodes are nodes of every kind that the scheduler reads, written as the
// device plugin, GPU Feature Discovery and HAMi write them.
func makeNodes() []*v1.Node {
	hami := func(name string, gpus int) *v1.Node {
		var devices []string
		for i := range gpus {
			devices = append(devices, fmt.Sprintf(`{"id":"GPU-%s-%d","index":%d,"count":10,"devmem":46068,"devcore":100,"type":"NVIDIA L40S","mode":"hami-core","health":true}`, name, i, i))
		}
		n := makeNode(name, fmt.Sprintf("nvidia.com/gpu=%d", 10*gpus), "")
		n.Annotations = map[string]string{kubegpu.AnnotationHAMiRegister: "[" + strings.Join(devices, ",") + "]"}
		return n
	}
	small := makeNode("t4-small", "nvidia.com/gpu=16", "gpu.product=Tesla-T4-SHARED gpu.memory=15360 gpu.count=4 gpu.replicas=4 gpu.sharing-strategy=time-slicing")
	small.Status.Allocatable = small.Status.Allocatable.DeepCopy()
	small.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("6") // CPU runs out before GPUs do
	return []*v1.Node{
		makeNode("cpu-1", "", ""),
		makeNode("cpu-2", "", ""),
		makeNode("a100-1", "nvidia.com/gpu=8", "gpu.product=NVIDIA-A100-SXM4-80GB gpu.memory=81920 gpu.count=8 gpu.replicas=1 gpu.sharing-strategy=none"),
		makeNode("a100-2", "nvidia.com/gpu=4", "gpu.product=NVIDIA-A100-SXM4-80GB gpu.memory=81920 gpu.count=4 gpu.replicas=1"),
		makeNode("a100-3", "nvidia.com/gpu=8", "gpu.product=NVIDIA-A100-SXM4-80GB gpu.memory=81920 gpu.count=8 gpu.replicas=1"),
		makeNode("h100-1", "nvidia.com/gpu=8", "gpu.product=NVIDIA-H100-80GB-HBM3 gpu.memory=81559 gpu.count=8 gpu.replicas=1"),
		makeNode("h100-2", "nvidia.com/gpu=8", "gpu.product=NVIDIA-H100-80GB-HBM3 gpu.memory=81559 gpu.count=8 gpu.replicas=1"),
		makeNode("l4-1", "nvidia.com/gpu=2", "gpu.product=NVIDIA-L4 gpu.memory=23034 gpu.count=2 gpu.replicas=1"),
		makeNode("unlabelled", "nvidia.com/gpu=2", ""),
		makeNode("t4-1", "nvidia.com/gpu=16", "gpu.product=Tesla-T4-SHARED gpu.memory=15360 gpu.count=4 gpu.replicas=4 gpu.sharing-strategy=time-slicing"),
		small,
		makeNode("t4-2", "nvidia.com/gpu=16", "gpu.product=Tesla-T4-SHARED gpu.memory=15360 gpu.count=4 gpu.replicas=4 gpu.sharing-strategy=time-slicing"),
		makeNode("l4-shared", "nvidia.com/gpu.shared=8", "gpu.product=NVIDIA-L4 gpu.memory=23034 gpu.count=2 gpu.replicas=4"),
		makeNode("mps-1", "nvidia.com/gpu=16", "gpu.product=NVIDIA-A100-SXM4-80GB-SHARED gpu.memory=81920 gpu.count=4 gpu.replicas=4 gpu.sharing-strategy=mps mps.capable=true"),
		makeNode("mps-2", "nvidia.com/gpu=10", "gpu.product=NVIDIA-A100-SXM4-40GB-SHARED gpu.memory=40960 gpu.count=1 gpu.replicas=10 gpu.sharing-strategy=mps mps.capable=true"),
		makeNode("mig-mixed-1", "nvidia.com/mig-1g.10gb=4 nvidia.com/mig-2g.20gb=2 nvidia.com/mig-3g.40gb=2",
			"gpu.product=NVIDIA-A100-SXM4-80GB gpu.memory=81920 gpu.count=2 gpu.replicas=0 mig.strategy=mixed"),
		makeNode("mig-mixed-2", "nvidia.com/gpu=1 nvidia.com/mig-3g.40gb=2", "gpu.product=NVIDIA-A100-SXM4-80GB gpu.count=2 gpu.replicas=1 mig.strategy=mixed"),
		makeNode("mig-mixed-3", "nvidia.com/mig-1g.10gb=28", "gpu.product=NVIDIA-A100-SXM4-80GB gpu.memory=81920 gpu.count=4 gpu.replicas=0 mig.strategy=mixed"),
		makeNode("mig-mixed-4", "nvidia.com/mig-2g.20gb=6 nvidia.com/mig-1g.10gb=2", "gpu.product=NVIDIA-A100-SXM4-80GB gpu.memory=81920 gpu.count=2 gpu.replicas=0 mig.strategy=mixed"),
		makeNode("mig-single", "nvidia.com/gpu=14", "gpu.product=NVIDIA-A100-SXM4-80GB-MIG-1g.10gb gpu.memory=9728 gpu.count=14 gpu.replicas=1 mig.strategy=single"),
		hami("hami-1", 4),
		hami("hami-2", 2),
		makeNode("milli-1", "cotenant.dev/gpu-milli=4000", "gpu.product=NVIDIA-L4 cotenant.dev/mechanism=mps"),
		makeNode("milli-2", "cotenant.dev/gpu-milli=8000", "gpu.product=Tesla-T4"),
		makeNode("liar-1", "nvidia.com/gpu=9", "gpu.product=NVIDIA-L4-SHARED gpu.count=2 gpu.replicas=2"),
		makeNode("liar-2", "nvidia.com/gpu=4", "gpu.product=Tesla-T4 gpu.memory=81920 gpu.count=4"),
	}
}

// makePod has a container for each of the resources that it asks for, divided by
// "|", and annotations below cotenant.dev/.
func makePod(name, asks, says string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: map[string]string{}}}
	p.Spec.SchedulerName = "cotenant-scheduler"
	for i, text := range strings.Split(asks, "|") {
		all := resources(text)
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprint("c", i), Image: "made-up",
			Resources: v1.ResourceRequirements{Requests: all, Limits: all}})
	}
	no := false
	p.Spec.AutomountServiceAccountToken = &no
	for _, f := range strings.Fields(says) {
		k, v, _ := strings.Cut(f, "=")
		p.Annotations["cotenant.dev/"+k] = v
	}
	return p
}

// makePods are n pods of mixed requests, some of which no node can take.
func makePods(rng *rand.Rand, prefix string, n int) []*v1.Pod {
	asks := []string{
		"nvidia.com/gpu=1", "nvidia.com/gpu=1", "nvidia.com/gpu=1", "nvidia.com/gpu=2", "nvidia.com/gpu=4", "nvidia.com/gpu=8",
		"nvidia.com/gpu.shared=1", "nvidia.com/gpu=1|nvidia.com/gpu=1", "nvidia.com/gpu=1|nvidia.com/mig-3g.40gb=1",
		"nvidia.com/mig-1g.10gb=1", "nvidia.com/mig-1g.10gb=2", "nvidia.com/mig-2g.20gb=1", "nvidia.com/mig-3g.40gb=1", "nvidia.com/mig-7g.80gb=1",
		"nvidia.com/gpu=1 nvidia.com/gpumem=10240", "nvidia.com/gpu=1 nvidia.com/gpumem=20480 nvidia.com/gpucores=50", "nvidia.com/gpu=2 nvidia.com/gpumem-percentage=30",
		"cotenant.dev/gpu-milli=250", "cotenant.dev/gpu-milli=700", "cotenant.dev/gpu-milli=2000",
		"", // no GPU: the plugin leaves it alone
	}
	says := []string{"tenant=a", "tenant=b trusts=a", "mechanisms=mps,time-slicing", "kind=distributed-training",
		"models=L4", "models=A100,H100", "gpu-memory=12GiB", "max-slowdown=1.2", "kind=online-inference ttft-p99=300ms"}
	var out []*v1.Pod
	for i := range n {
		ask := asks[rng.IntN(len(asks))] + fmt.Sprintf(" cpu=%d memory=%dGi", 1+rng.IntN(4), 1+rng.IntN(16))
		say := ""
		if rng.IntN(3) == 0 {
			say = says[rng.IntN(len(says))]
		}
		out = append(out, makePod(fmt.Sprintf("%s-%03d", prefix, i), ask, say))
	}
	return out
}
