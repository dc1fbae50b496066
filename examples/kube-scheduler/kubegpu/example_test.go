// SPDX-License-Identifier: Apache-2.0

package kubegpu_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

// A node as GPU Feature Discovery labels it, a pod, and where it goes.
func Example() {
	node := kubegpu.ReadNode(&v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{
			"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED", "nvidia.com/gpu.count": "2",
			"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "mps"}},
		Status: v1.NodeStatus{Allocatable: list("nvidia.com/gpu", "8", "cpu", "32", "memory", "256Gi")},
	})
	pod, err := kubegpu.ReadPod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "search", Name: "ranker"},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main",
			Resources: v1.ResourceRequirements{Requests: list("nvidia.com/gpu", "1", "cpu", "4")}}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	state := kubegpu.NewState(node, nil)
	a, _, verdict := state.Plan(pod, placement.NewScorer(placement.BestFit, nil))
	fmt.Println(verdict.Ruling, a)
	fmt.Println(a.Annotations())
	// Output:
	// pass GPU 0 as 250m of mps on a
	// map[cotenant.dev/gpu:0 cotenant.dev/mechanism:mps cotenant.dev/node:a cotenant.dev/share:250m]
}

// Labels that cannot be are problems of the node, and no error: the other nodes are fine.
func ExampleReadNode() {
	node := kubegpu.ReadNode(&v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "liar", Labels: map[string]string{"nvidia.com/gpu.product": "NVIDIA-L4",
			"nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.replicas": "3"}},
		Status: v1.NodeStatus{Allocatable: list("nvidia.com/gpu", "4")},
	})
	for _, p := range node.Problems {
		fmt.Println(p)
	}
	// Output:
	// offers 4 of nvidia.com/gpu, which is no multiple of the 3 replicas of label nvidia.com/gpu.replicas
	// offers 4 of nvidia.com/gpu: with 3 replica(s) a GPU that is 2 GPUs, and label nvidia.com/gpu.count says 1; what is offered is used
	// label nvidia.com/gpu.memory says 80GiB, and no L4 has that: it has 22.49GiB
}

// A pod's problems are named all at once, with their paths.
func ExampleReadPod() {
	_, err := kubegpu.ReadPod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ads", Name: "bidder", Annotations: map[string]string{
			"cotenant.dev/mechanisms": "mps,in-server", "cotenant.dev/gpu-memory": "20", "cotenant.dev/max-slowdown": "0.5"}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
			Limits: list("nvidia.com/gpu", "1", "nvidia.com/gpumem", "4000", "nvidia.com/gpumem-percentage", "50")}}}},
	})
	fmt.Println(err)
	// Output:
	// kubegpu: invalid:
	// spec.containers[0].resources: asks for nvidia.com/gpumem and nvidia.com/gpumem-percentage (keep one of them)
	// metadata.annotations[cotenant.dev/mechanisms]: pods are not placed by in-server
	// metadata.annotations[cotenant.dev/gpu-memory]: sharing: "20" is not an amount of memory: add a unit, for example "18GiB"
	// metadata.annotations[cotenant.dev/max-slowdown]: "0.5" is no slowdown: 1 is as fast as isolated
}

// What was decided is read back from the annotations by whoever starts afresh.
func ExampleReadAllocation() {
	a, err := kubegpu.ReadAllocation(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"cotenant.dev/node": "a", "cotenant.dev/gpu": "0,1;3",
			"cotenant.dev/mechanism": "exclusive;mig", "cotenant.dev/share": "1000m;1g.10gb@4"}},
		Spec: v1.PodSpec{NodeName: "a"},
	})
	fmt.Println(a, err)
	// Output:
	// GPU 0,1 as 1000m of exclusive, GPU 3 as MIG 1g.10gb at 4 on a <nil>
}

func list(kv ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(kv); i += 2 {
		out[v1.ResourceName(kv[i])] = resource.MustParse(kv[i+1])
	}
	return out
}
