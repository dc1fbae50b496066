package addons_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/manifest/addons"
	"github.com/cotenant/cotenant/sharing"
)

// folder configures a pool of two L40S for four replicas, with Kueue's queues.
func folder(queue string, by sharing.Delivery) (*manifest.Folder, error) {
	fleet, err := decision.ParseFleet([]byte(`
version: v1
pools: [{name: serve, gpu: L40S, count: 2, gpus_per_node: 2, mechanisms: [time-slicing]}]
workloads: [{name: chat, kind: online-inference, replicas: 4, memory: 16GiB, gpu_busy: 0.3}]
`))
	if err != nil {
		log.Fatal(err)
	}
	result, err := decision.Decide(context.Background(), fleet, decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return manifest.Build(fleet, result, manifest.Options{Deliveries: []sharing.Delivery{by}, Extensions: []manifest.Extension{addons.Kueue{Queue: queue}}})
}

// The queue of a pool whose GPUs take turns, as Kueue takes it.
func ExampleKueue() {
	folder, err := folder("gpus", sharing.DeliveryDevicePlugin)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range folder.Files {
		if f.Path == "kueue/queues.yaml" {
			_, queue, _ := strings.Cut(string(f.Data), "LocalQueue\n")
			fmt.Print(queue)
		}
	}
	// Output:
	// metadata:
	//   name: gpus
	// spec:
	//   clusterQueue: gpus
}

// Kueue counts named resources: what another delivery hands out is not queued, and the folder says so.
func ExampleKueue_Documents() {
	for _, delivery := range []sharing.Delivery{sharing.DeliveryDevicePlugin, sharing.DeliveryKAI} {
		folder, err := folder("gpus", delivery)
		if err != nil {
			log.Fatal(err)
		}
		queued := slices.ContainsFunc(folder.Files, func(f manifest.File) bool { return f.Path == "kueue/queues.yaml" })
		fmt.Println(delivery, "is queued:", queued)
		for _, w := range folder.Warnings {
			if w.Code == addons.WarnNotQueued {
				fmt.Println(" ", w.Message+":", w.Remedy)
			}
		}
	}
	_, err := folder("GPUs of all", sharing.DeliveryDevicePlugin)
	fmt.Println(err)
	// Output:
	// device-plugin is queued: true
	// kai is queued: false
	//   Kueue counts nothing of what kai hands out here: queue there by the scheduler's own queues, or deliver by the device plugin
	// manifest: invalid: kueue.queue: "GPUs of all" is not a Kubernetes name (use up to 63 lower-case letters, digits and dashes, with a letter or digit at both ends)
}

// The workloads of a group that offers resources wait until the queue has quota for them.
func ExampleKueue_Labels() {
	queue := addons.Kueue{Queue: "gpus"}
	fmt.Println(queue.Labels(&manifest.Group{Offers: map[string]int{"nvidia.com/gpu.shared": 8}}))
	fmt.Println(queue.Labels(&manifest.Group{})) // of claims, which Kueue does not count
	// Output:
	// map[kueue.x-k8s.io/queue-name:gpus]
	// map[]
}

// The vGPU manager's registry word for slices of 3 ms in equal shares.
func ExampleVGPUScheduler_RmPVMRL() {
	word, err := addons.VGPUScheduler{Policy: addons.VGPUPolicyEqualShare, TimeSlice: 3 * time.Millisecond}.RmPVMRL()
	fmt.Printf("0x%08x %v\n", word, err)
	// Output: 0x00030003 <nil>
}
