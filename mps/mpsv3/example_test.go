package mpsv3_test

import (
	"context"
	"fmt"

	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/mps/mpsv3"
	"github.com/cotenant/cotenant/mps/mpsv3/mpsv3test"
	"github.com/cotenant/cotenant/sharing"
)

// A server with a namespace that has limits of its own.
func Example() {
	ctx := context.Background()
	base, err := mps.NewClient(mps.Options{Runner: mpsv3test.New(mpstest.Options{})})
	if err != nil {
		fmt.Println(err)
		return
	}
	c := mpsv3.NewClient(base)
	s, err := c.CreateServer(ctx, "serving", mpsv3.ServerOptions{UID: mps.Some(1000)})
	fmt.Println(s.Name, s.Status, err)
	n, err := c.CreateNamespace(ctx, "serving", "batch", mpsv3.Limits{ActiveThreadPercentage: 25})
	fmt.Println(n.PipeDirectory, n.ActiveThreadPercentage.Value, err)
	// Output:
	// serving Ready <nil>
	// /tmp/nvidia-mps/serving/batch 25 <nil>
}

// The environment of a client of that namespace.
func ExampleClientEnvironment() {
	env := mpsv3.ClientEnvironment{Server: "serving", Namespace: "batch"}
	fmt.Println(env.Build())
	env.ActiveThreadPercentage = 10
	_, err := env.Build()
	fmt.Println(err)
	// Output:
	// [CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps/serving/batch] <nil>
	// mps: invalid request: ActiveThreadPercentage: the namespace's percentage overrides the client's, so this one would do nothing (set it on the namespace (Client.SetNamespace))
}

// The start-up configuration of a v3 daemon.
func ExampleSetup_TOML() {
	b, err := mpsv3.Setup{Servers: []mpsv3.ServerSetup{{
		Name:       "serving",
		Limits:     mpsv3.Limits{PinnedMemLimit: 40 * sharing.GiB},
		Namespaces: []mpsv3.NamespaceSetup{{Name: "batch", Limits: mpsv3.Limits{PinnedMemLimit: 20 * sharing.GiB}}},
	}}}.TOML()
	fmt.Print(string(b), err)
	// Output:
	// schema_version = "1.0"
	//
	// [servers.serving]
	// pinned_memory_limit = "40G"
	//
	// [servers.serving.namespaces.batch]
	// pinned_memory_limit = "20G"
	// <nil>
}
