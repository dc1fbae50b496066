package addons_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/manifest/addons"
)

// The vGPU manager's registry word for slices of 3 ms in equal shares.
func ExampleVGPUScheduler_RmPVMRL() {
	word, err := addons.VGPUScheduler{Policy: addons.VGPUPolicyEqualShare, TimeSlice: 3 * time.Millisecond}.RmPVMRL()
	fmt.Printf("0x%08x %v\n", word, err)
	// Output: 0x00030003 <nil>
}

// The queue of a pool that is divided by MPS, as Kueue takes it.
func ExampleKueue() {
	fleet, err := decision.ParseFleet([]byte(`
version: v1
pools: [{name: serve, gpu: L40S, count: 2, gpus_per_node: 2, mechanisms: [mps]}]
workloads: [{name: chat, kind: online-inference, replicas: 4, memory: 16GiB, gpu_busy: 0.3}]
`))
	if err != nil {
		log.Fatal(err)
	}
	result, err := decision.Decide(context.Background(), fleet, decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	folder, err := manifest.Build(fleet, result, manifest.Options{Extensions: []manifest.Extension{addons.Kueue{Queue: "gpus"}}})
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

// A scheduler for a pool that the fleet does not have is an error.
func ExampleVGPU() {
	fleet := &decision.Fleet{Pools: []decision.Pool{{Name: "desks"}}}
	_, _, err := addons.VGPU{Schedulers: map[string]addons.VGPUScheduler{"desk": {}}}.Documents(fleet, nil)
	fmt.Println(err)
	// Output: vgpu.schedulers.desk: the fleet has no such pool (name one of the fleet)
}
