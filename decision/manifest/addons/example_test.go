package addons_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/manifest/addons"
)

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
