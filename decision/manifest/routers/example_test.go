package routers_test

import (
	"fmt"

	"github.com/cotenant/cotenant/decision/manifest/routers"
	"github.com/cotenant/cotenant/decision/predict/serving"
)

// The router's side of an arrangement, and what a router lacks.
func ExampleBuild() {
	folder, err := routers.Build([]routers.Pool{{
		Name: "chat", Model: "llama-8b", Labels: map[string]string{"app": "chat"}, Policy: serving.RoutePolicyRoundRobin,
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
