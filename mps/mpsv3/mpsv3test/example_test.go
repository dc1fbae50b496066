package mpsv3test_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/mps/mpsv3"
	"github.com/cotenant/cotenant/mps/mpsv3/mpsv3test"
)

func newClient(fake *mpsv3test.Daemon) *mpsv3.Client {
	c, err := mps.NewClient(mps.Options{Runner: fake})
	if err != nil {
		panic(err) // the options are good
	}
	return mpsv3.NewClient(c)
}

// A test drives the real client against the fake.
func Example() {
	ctx := context.Background()
	c := newClient(mpsv3test.New(mpstest.Options{}))
	fmt.Println(c.CreateServer(ctx, "serving", mpsv3.ServerOptions{UID: mps.Some(1000)}))
	_, err := c.CreateServer(ctx, "serving", mpsv3.ServerOptions{})
	fmt.Println(errors.Is(err, mps.ErrServerExists))
	// Output:
	// {serving 1000 5000000 Ready /tmp/nvidia-mps/serving [] } <nil>
	// true
}

// A CUDA process joins a namespace.
func ExampleDaemon_Connect() {
	ctx := context.Background()
	fake := mpsv3test.New(mpstest.Options{})
	c := newClient(fake)
	if _, err := c.CreateServer(ctx, "serving", mpsv3.ServerOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	pid, err := fake.Connect("serving", "default", mpstest.Process{Command: "python serve.py"})
	fmt.Println(err)
	clients, err := c.Clients(ctx, "serving")
	fmt.Println(clients[0].PID == pid, clients[0].Command, err)
	// Output:
	// <nil>
	// true python serve.py <nil>
}

// The faults of mpstest hit v3 commands, too.
func ExampleNew() {
	fake := mpsv3test.New(mpstest.Options{})
	fake.Inject(mpstest.Fault{Kind: mpstest.FaultGarbage, Command: "server list", Times: 1})
	_, err := newClient(fake).Servers(context.Background())
	fmt.Println(errors.Is(err, mps.ErrGarbled))
	// Output: true
}
