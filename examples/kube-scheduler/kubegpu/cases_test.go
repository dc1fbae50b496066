// SPDX-License-Identifier: Apache-2.0

package kubegpu

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// placeOn plans a pod on the best of some nodes, or has the rulings of those that refuse it.
func placeOn(nodes []*v1.Node, bound []*v1.Pod, running []Running, p *Pod) (a *Allocation, refused map[string]Ruling) {
	score := 0.0
	refused = map[string]Ruling{}
	for _, kn := range nodes {
		n, on := ReadNode(kn), running
		for _, b := range bound {
			if r, _ := ReadRunning(b, n, nil); b.Spec.NodeName == kn.Name {
				on = append(on, r)
			}
		}
		one, s, v := NewState(n, on).Plan(p, bestFit)
		if refused[kn.Name] = v; one != nil && (a == nil || s > score) {
			a, score = one, s
		}
	}
	return a, refused
}

// TestObserved holds what reality says of nodes: pods that ended hold nothing, GPUs that are over-full, gone or ill
// keep who they have and take no more, and the other nodes are used.
func TestObserved(t *testing.T) {
	bound := func(name, node, ask string, phase v1.PodPhase, annotations ...string) *v1.Pod {
		p := kubePod(name, ask, "")
		p.UID, p.Spec.NodeName, p.Status.Phase = types.UID(name), node, phase
		for i := 0; i < len(annotations); i += 2 {
			p.Annotations[annotations[i]] = annotations[i+1]
		}
		return p
	}
	h100 := func(name string, gpus, healthy int) *v1.Node {
		n := kubeNode(name, fmt.Sprint("nvidia.com/gpu=", gpus), fmt.Sprint("gpu.product=NVIDIA-H100-80GB-HBM3 gpu.memory=81559 gpu.count=", gpus))
		n.Status.Allocatable[ResourceGPU] = *resource.NewQuantity(int64(healthy), resource.DecimalSI)
		return n
	}
	place := func(gpu string) []string {
		return []string{AnnotationNode, "n", AnnotationGPU, gpu, AnnotationMechanism, "exclusive", AnnotationShare, "1000m"}
	}
	mixed := kubeNode("n", "nvidia.com/mig-1g.10gb=2 nvidia.com/mig-2g.20gb=1 nvidia.com/mig-3g.40gb=1 nvidia.com/gpu=1",
		"gpu.product=NVIDIA-H100-80GB-HBM3 gpu.memory=81559 gpu.count=2 mig.strategy=mixed")
	hami := func(health string) *v1.Node {
		n := kubeNode("n", "nvidia.com/gpu=10", "")
		n.Annotations = map[string]string{AnnotationHAMiRegister: `[{"id":"GPU-1","count":10,"devmem":81920,"devcore":100,"type":"NVIDIA-NVIDIA H100 80GB HBM3","mode":"hami-core","health":` + health + `}]`}
		return n
	}
	third := "nvidia.com/gpu=1 nvidia.com/gpumem=27306"
	const whole, slice = "nvidia.com/gpu=1", "nvidia.com/mig-1g.10gb=1"
	for _, tc := range []struct {
		name  string
		nodes []*v1.Node
		bound []*v1.Pod
		ask   string
		want  string
	}{
		{"a pod that succeeded", []*v1.Node{h100("n", 1, 1)}, []*v1.Pod{bound("done", "n", whole, v1.PodSucceeded)}, whole, "GPU 0 as 1000m of exclusive on n"},
		{"a pod that failed", []*v1.Node{h100("n", 1, 1)}, []*v1.Pod{bound("done", "n", whole, v1.PodFailed, place("0")...)}, whole, "GPU 0 as 1000m of exclusive on n"},
		{"a pod that runs", []*v1.Node{h100("n", 1, 1)}, []*v1.Pod{bound("old", "n", whole, v1.PodRunning)}, whole, "refused"},
		{"one of two is ill", []*v1.Node{h100("n", 2, 1)}, nil, whole, "GPU 0 as 1000m of exclusive on n"},
		{"one of two is ill, one is held", []*v1.Node{h100("n", 2, 1)}, []*v1.Pod{bound("old", "n", whole, v1.PodRunning)}, whole, "refused"},
		{"two on one GPU", []*v1.Node{h100("n", 1, 1)}, []*v1.Pod{bound("a", "n", whole, v1.PodRunning), bound("b", "n", whole, v1.PodRunning)}, whole, "refused"},
		{"two on one GPU by their annotations", []*v1.Node{h100("n", 2, 2)}, []*v1.Pod{bound("a", "n", whole, v1.PodRunning, place("0")...),
			bound("b", "n", whole, v1.PodRunning, place("0")...)}, whole, "GPU 1 as 1000m of exclusive on n"},
		{"two on one GPU, another node", []*v1.Node{h100("n", 1, 1), h100("m", 1, 1)}, []*v1.Pod{bound("a", "n", whole, v1.PodRunning),
			bound("b", "n", whole, v1.PodRunning)}, whole, "GPU 0 as 1000m of exclusive on m"},
		{"a GPU that is gone", []*v1.Node{h100("n", 1, 1)}, []*v1.Pod{bound("a", "n", whole, v1.PodRunning, place("1")...)}, whole, "refused"},
		{"a GPU that is gone, of three", []*v1.Node{h100("n", 2, 2)}, []*v1.Pod{bound("a", "n", whole, v1.PodRunning, place("2")...)}, whole, "GPU 1 as 1000m of exclusive on n"},
		{"the second of two instances", []*v1.Node{mixed}, []*v1.Pod{bound("a", "n", slice, v1.PodRunning)}, slice, "GPU 1 as MIG 1g.10gb at 3 on n"},
		{"a third instance of two", []*v1.Node{mixed}, []*v1.Pod{bound("a", "n", slice, v1.PodRunning), bound("b", "n", slice, v1.PodRunning)}, slice, "refused"},
		{"a third of two, one ended", []*v1.Node{mixed}, []*v1.Pod{bound("a", "n", slice, v1.PodRunning), bound("b", "n", slice, v1.PodSucceeded)}, slice, "GPU 1 as MIG 1g.10gb at 3 on n"},
		{"a whole GPU beside MIG", []*v1.Node{mixed}, nil, whole, "GPU 0 as 1000m of exclusive on n"},
		{"the third third of a card", []*v1.Node{hami("true")}, []*v1.Pod{bound("a", "n", third, v1.PodRunning), bound("b", "n", third, v1.PodRunning)}, third, "GPU 0 as 27306Mi of hami on n"},
		{"a fourth third", []*v1.Node{hami("true")}, []*v1.Pod{bound("a", "n", third, v1.PodRunning), bound("b", "n", third, v1.PodRunning),
			bound("c", "n", third, v1.PodRunning)}, third, "refused"},
		{"a card that is ill", []*v1.Node{hami("false")}, nil, third, "refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asked, err := ReadPod(kubePod("new", tc.ask, ""))
			if err != nil {
				t.Fatal(err)
			}
			got := "refused"
			a, verdicts := placeOn(tc.nodes, tc.bound, nil, asked)
			if a != nil {
				got = a.String()
			}
			if got != tc.want {
				t.Errorf("%s, want %s: %s", got, tc.want, Reasons(verdicts))
			}
		})
	}
}

// TestReplicasByMemory: as many pods as the replicas, each of its part of the memory, are taken, and one more is not.
func TestReplicasByMemory(t *testing.T) {
	for _, strategy := range []string{"time-slicing", "mps"} {
		node := kubeNode("n", "nvidia.com/gpu=23", "gpu.product=NVIDIA-L40S-SHARED gpu.memory=46068 gpu.count=1 gpu.replicas=23 gpu.sharing-strategy="+strategy)
		var running []Running
		for i := range 24 {
			asked, err := ReadPod(kubePod(fmt.Sprint("p", i), "nvidia.com/gpu=1", "gpu-memory=2000Mi"))
			if err != nil {
				t.Fatal(err)
			}
			a, verdicts := placeOn([]*v1.Node{node}, nil, running, asked)
			if (a != nil) != (i < 23) {
				t.Errorf("%s: pod %d of 23: %s", strategy, i+1, Reasons(verdicts))
			}
			running = append(running, Running{Pod: asked, Allocation: a})
		}
	}
}
