package manifest_test

import (
	"fmt"
	"time"

	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/sharing"
)

// A pool of one node whose four L40S are shared by MPS, and two workloads.
func ExampleBuild() {
	fleet := manifest.Fleet{
		Groups: []manifest.Group{{Pool: "serve", Mechanism: sharing.MechanismMPS, GPU: "L40S", GPUs: 4, GPUsPerNode: 4, Replicas: 2}},
		Workloads: []manifest.Workload{
			{Name: "chat", Pool: "serve", Mechanism: sharing.MechanismMPS, Replicas: 6, Memory: 20 * sharing.GiB,
				Framework: manifest.Framework{Name: "vllm"}, Image: "vllm/vllm-openai:latest"},
			{Name: "embed", Pool: "serve", Mechanism: sharing.MechanismMPS, Replicas: 2, Memory: 12 * sharing.GiB, ComputePercent: 30},
		},
	}
	files, warnings, err := manifest.Build(fleet, manifest.Options{Deliveries: []sharing.Delivery{sharing.DeliveryGPUOperator}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range files {
		fmt.Println(f.Path)
		if f.Path == "pods/chat.yaml" {
			fmt.Print(string(f.Data))
		}
	}
	fmt.Println(len(warnings), "warnings")
	// manifest.WriteDir("out", files) would put them into a folder.

	// Output:
	// device-plugin/configmap.yaml
	// device-plugin/exclusive.yaml
	// device-plugin/serve-mps.yaml
	// gpu-operator/values.yaml
	// nodes/serve-mps.yaml
	// plan.md
	// pods/chat.yaml
	// # chat: mps on the nodes of serve-mps.
	// # The list of arguments replaces the container's own: keep yours in it.
	// apiVersion: apps/v1
	// kind: Deployment
	// metadata:
	//   name: chat
	// spec:
	//   replicas: 6
	//   selector:
	//     matchLabels:
	//       app: chat
	//   template:
	//     metadata:
	//       labels:
	//         app: chat
	//     spec:
	//       nodeSelector:
	//         gpu-sharing-group: serve-mps
	//       containers:
	//         - name: chat
	//           image: vllm/vllm-openai:latest
	//           args:
	//             - --gpu-memory-utilization
	//             - "0.41"
	//           env:
	//             - name: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT
	//               value: 0=20G
	//           resources:
	//             limits:
	//               nvidia.com/gpu: "1"
	// pods/embed.yaml
	// 0 warnings
}

// What the device plugin would ignore or refuse is said, all of it at once.
func ExampleParseDevicePluginConfig() {
	_, _, err := manifest.ParseDevicePluginConfig([]byte(`
version: v1
flags: {migStrategy: mixed}
sharing:
  mps:
    resources:
    - {name: nvidia.com/gpu, replicas: 1}
`))
	fmt.Println(err)
	// Output:
	// manifest: invalid: sharing.mps.resources[0].replicas: must be 2 or more, not 1 (leave the block out to share nothing)
	// flags.migStrategy: the plugin refuses MPS together with the mixed MIG strategy (set it to "none"; share MIG devices by MPS through the DRA driver)
}

// A claim template for one MIG device for each pod.
func ExampleClaim_Marshal() {
	doc, err := manifest.Claim{Name: "small", Template: true, Profile: "1g.20gb"}.Marshal()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(doc))
	// Output:
	// apiVersion: resource.k8s.io/v1
	// kind: ResourceClaimTemplate
	// metadata:
	//   name: small
	// spec:
	//   spec:
	//     devices:
	//       requests:
	//         - name: mig
	//           exactly:
	//             deviceClassName: mig.nvidia.com
	//             selectors:
	//               - cel:
	//                   expression: device.attributes['gpu.nvidia.com'].profile == '1g.20gb'
	//             allocationMode: ExactCount
	//             count: 1
}

// A pod's request to HAMi: 8 GiB and 30 % of one card.
func ExampleShare_HAMiResources() {
	s := manifest.Share{Memory: 8 * sharing.GiB, Cores: 30}
	fmt.Println(s.HAMiResources(), s.HAMiAnnotations())
	fmt.Println(s.VolcanoResources())
	// Output:
	// map[nvidia.com/gpu:1 nvidia.com/gpucores:30 nvidia.com/gpumem:8192] map[nvidia.com/vgpu-mode:hami-core]
	// map[volcano.sh/vgpu-cores:30 volcano.sh/vgpu-memory:8192 volcano.sh/vgpu-number:1]
}

// The vGPU manager's registry word for slices of 3 ms in equal shares.
func ExampleVGPUScheduler_RmPVMRL() {
	word, err := manifest.VGPUScheduler{Policy: manifest.EqualShare, TimeSlice: 3 * time.Millisecond}.RmPVMRL()
	fmt.Printf("0x%08x %v\n", word, err)
	// Output: 0x00030003 <nil>
}

// What MPS needs besides the right to create pods.
func ExamplePrivileges() {
	for _, p := range manifest.Privileges(sharing.MechanismMPS) {
		fmt.Println(p.Who + ": " + p.What)
	}
	// Output:
	// cluster administrator: write ConfigMaps in the Operator's namespace, label and drain nodes
	// the plugin's MPS DaemonSet: a privileged pod with the host's PID namespace
	// the workloads: one user ID for all clients of a daemon, or a multi-user daemon
}
