// SPDX-License-Identifier: Apache-2.0

package mps_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/sharing"
)

// Limit the clients to come, and prove that a process is one of them. With
// Options{} instead of the fake this talks to the machine's own daemon.
func Example() {
	ctx := context.Background()
	fake := mpstest.New(mpstest.Options{})
	c, err := mps.NewClient(mps.Options{Runner: fake, GPUs: fake.GPUs()})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.SetActiveThreadPercentage(ctx, 0, 50), c.SetPinnedMemLimit(ctx, 0, "0", 8*sharing.GiB))
	app, _ := fake.Connect(mpstest.Process{}) // a CUDA process makes its first call
	m, err := c.Verify(ctx, app.PID, mps.VerifyOptions{})
	fmt.Println(m.Client, m.ServerPercentage.Value, m.ServerLimits, err)
	// Output:
	// <nil> <nil>
	// yes 50 [{0 8GiB}] <nil>
}

// One entry for a GPU that the client does not see would drop every limit.
func ExampleClientEnvironment_Build() {
	limits := []mps.DeviceLimit{{Device: "0", Limit: 2 * sharing.GiB}, {Device: "1", Limit: 4 * sharing.GiB}}
	env := mps.ClientEnvironment{
		DaemonPipeDirectory: "/tmp/nvidia-mps",
		GPUs:                []mps.GPU{{Ordinal: 0, Memory: 143155 * sharing.MiB}},
		PinnedMemLimits:     limits,
	}
	_, err := env.Build()
	fmt.Println(errors.Is(err, mps.ErrInvalid))
	env.PinnedMemLimits = limits[:1]
	vars, err := env.Build()
	fmt.Println(vars, err)
	// Output:
	// true
	// [CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=2G] <nil>
}

// Memory limits and serving frameworks count differently.
func ExampleMemoryFraction() {
	a, err := mps.MemoryFraction("vllm", 56*sharing.GiB, 80*sharing.GiB)
	flag, _ := mps.MemoryFlag("vllm")
	fmt.Println(flag, a, err)
	// Output:
	// --gpu-memory-utilization 0.65 <nil>
}
