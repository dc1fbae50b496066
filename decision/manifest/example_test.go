// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
)

// A decision becomes a folder of documents: read plan.md first.
func ExampleBuild() {
	fleet, err := decision.ParseFleet([]byte(`version: v1
trust: all
pools: [{name: serve, gpu: L40S, count: 4, gpus_per_node: 4, mechanisms: [mps]}]
workloads:
  - {name: chat, kind: online-inference, replicas: 6, memory: 16GiB, gpu_busy: 0.3, framework: {name: vllm}}
  - {name: embed, kind: batch, replicas: 2, memory: 12GiB, gpu_busy: 0.2}
`))
	if err != nil {
		log.Fatal(err)
	}
	result, err := decision.Decide(context.Background(), fleet, decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	folder, err := manifest.Build(fleet, result)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range folder.Files { // folder.Write("out") puts them on disk
		fmt.Println(f.Path)
	}
	// Output:
	// device-plugin/configmap.yaml
	// device-plugin/exclusive.yaml
	// device-plugin/serve-mps.yaml
	// gpu-operator/values.yaml
	// inference-extension/chat.yaml
	// llm-d/chat.values.yaml
	// nodes/serve-mps.yaml
	// plan.md
	// pods/chat.yaml
	// pods/embed.yaml
}
