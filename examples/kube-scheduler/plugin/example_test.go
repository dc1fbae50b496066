// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
	"github.com/cotenant/cotenant/examples/kube-scheduler/plugin"
)

// What the scheduler would decide, without a scheduler: the plugin's arguments make the scorer that it places by.
func Example() {
	args, err := plugin.ParseArgs([]byte("mix:\n- {gpuMilli: 500}\n- {gpus: 2}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	scorer, err := args.Scorer()
	if err != nil {
		fmt.Println(err)
		return
	}
	gpus := v1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}
	node := kubegpu.ReadNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: v1.NodeStatus{Allocatable: gpus}})
	var running []kubegpu.Running
	for _, name := range []string{"x", "y"} {
		pod, err := kubegpu.ReadPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{{
			Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}}}}})
		if err != nil {
			fmt.Println(err)
			return
		}
		a, _, _ := kubegpu.NewState(node, running).Plan(pod, scorer)
		running = append(running, kubegpu.Running{Pod: pod, Allocation: a})
		fmt.Println(pod.Name, a)
	}
	// Output:
	// ml/x GPU 0 as 1000m of exclusive on a
	// ml/y GPU 1 as 1000m of exclusive on a
}

// Arguments are read strictly, and every problem is named.
func ExampleParseArgs() {
	_, err := plugin.ParseArgs([]byte("mixx: []\nmix:\n- {gpuMili: 250}\n"))
	fmt.Println(err)
	// Output:
	// cotenant: invalid arguments:
	// unknown field "mix[0].gpuMili"
	// unknown field "mixx"
}

// Each problem of arguments is named with its path and remedy.
func ExampleArgs_Scorer() {
	args := plugin.Args{Mix: []plugin.MixEntry{{Weight: -1}}, Measured: []plugin.Measured{{Model: "A100"}}}
	_, err := args.Scorer()
	fmt.Println(err)
	// Output:
	// cotenant: invalid arguments:
	// mix[0].weight: -1 is no weight (leave it out or use a positive number)
	// measured[0].model: A100 may be any of A100 80GB PCIe, A100-PCIE-40GB, A100-SXM4-40GB, A100-SXM4-80GB (name one of them)
	// measured[0].profilesFile: is missing (name the file)
}
