package routers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/manifest/routers"
)

// The router's side of an arrangement, and what a router lacks.
func ExampleBuild() {
	folder, err := routers.Build([]routers.Pool{{
		Name: "chat", Model: "llama-8b", Labels: map[string]string{"app": "chat"}, Policy: routers.PolicyRoundRobin,
		Priorities: map[string]int{"interactive": 10},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range folder.Files {
		fmt.Println(f.Path)
	}
	fmt.Println(folder.Warnings[0].Message)
	// Output:
	// inference-extension/chat.yaml
	// llm-d/chat.values.yaml
	// llm-d's router has no round-robin policy; its configuration takes random
}

// The folder of a decision with a router before the replicas of its chat.
func ExampleServices() {
	fleet, err := decision.ParseFleet([]byte(`
version: v1
pools: [{name: serve, gpu: L40S, count: 4}]
workloads:
  - {name: chat, kind: online-inference, replicas: 3, model: {parameters: 8e9, weights: fp16}, gpu_busy: 0.3}
  - {name: embed, kind: online-inference, replicas: 1, memory: 4GiB, gpu_busy: 0.2}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := decision.Decide(context.Background(), fleet, decision.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	folder, err := manifest.Build(fleet, result, manifest.Options{Extensions: []manifest.Extension{routers.Services{}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range folder.Files {
		if strings.HasPrefix(f.Path, "inference-extension/") || strings.HasPrefix(f.Path, "llm-d/") {
			fmt.Println(f.Path+":", f.Note)
		}
	}
	// Output:
	// inference-extension/chat.yaml: pool, objectives and endpoint picker configuration
	// llm-d/chat.values.yaml: values of llm-d's router
}

// vLLM's production stack starts the servers too, here each on a slice of a GPU.
func ExampleStackServers() {
	folder, err := routers.Build([]routers.Pool{{
		Name: "chat", Model: "llama-8b", Labels: map[string]string{"app": "chat"}, Policy: routers.PolicyPrefixApproximate,
		Servers: &routers.StackServers{Replicas: 4, Repository: "vllm/vllm-openai", Tag: "v0.11.0", ModelURL: "meta-llama/Llama-3.1-8B-Instruct",
			CPUs: 4, Memory: "16Gi", Storage: "50Gi", GPUResource: "nvidia.com/mig-3g.40gb"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range folder.Files {
		if strings.HasPrefix(f.Path, "production-stack/") {
			_, values, _ := strings.Cut(string(f.Data), "\nservingEngineSpec:")
			fmt.Println(f.Path + ":\nservingEngineSpec:" + values)
		}
	}
	// Output:
	// production-stack/chat.values.yaml:
	// servingEngineSpec:
	//   labels:
	//     app: chat
	//   containerPort: 8000
	//   modelSpec:
	//     - name: chat
	//       repository: vllm/vllm-openai
	//       tag: v0.11.0
	//       modelURL: meta-llama/Llama-3.1-8B-Instruct
	//       replicaCount: 4
	//       requestCPU: 4
	//       requestMemory: 16Gi
	//       requestGPU: 1
	//       requestGPUType: nvidia.com/mig-3g.40gb
	//       pvcStorage: 50Gi
	//       vllmConfig:
	//         enablePrefixCaching: true
	// routerSpec:
	//   enableRouter: true
	//   replicaCount: 1
	//   serviceDiscovery: k8s
	//   routingLogic: prefixaware
}

// Policies want different things beside the documents.
func ExampleBuild_warnings() {
	for _, p := range []routers.Policy{routers.PolicyLeastRequests, routers.PolicySession, routers.PolicyPrefixExact} {
		folder, err := routers.Build([]routers.Pool{{Name: "chat", Model: "llama-8b", Labels: map[string]string{"app": "chat"}, Policy: p}})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(p)
		for _, w := range folder.Warnings {
			fmt.Println(" ", w.Message)
		}
	}
	// Output:
	// least-requests
	// session
	//   llm-d's session affinity goes by the header x-session-token, which the router sets in its answer
	// prefix-exact
	//   the exact prefix index is fed by the servers' KV cache events, and tokenises prompts by asking a server of the model at localhost:8000
}

// One error names everything that Kubernetes, a chart or a router would refuse.
func ExampleBuild_invalid() {
	_, err := routers.Build([]routers.Pool{
		{Name: "Chat", Model: "llama-8b", Labels: map[string]string{"app": "my chat"}},
		{Name: "embed", Labels: map[string]string{"app": "embed"}, Policy: routers.PolicyPrefixExact, Priorities: map[string]int{"Interactive": 10}},
	})
	fmt.Println(errors.Is(err, manifest.ErrInvalid))
	fmt.Println(err)
	// Output:
	// true
	// manifest: invalid: pools[0].name: is "Chat" (use at most 53 lower-case letters, digits and dashes)
	// pools[0].labels[app]: "my chat" is refused (use a Kubernetes label and value)
	// pools[1].model: missing (write the name that the servers know it by)
	// pools[1].priorities[Interactive]: is refused as a name (use lower-case letters, digits and dashes)
}
