// SPDX-License-Identifier: Apache-2.0

package mpstest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/sharing"
)

// A test drives the real client against the fake.
func Example() {
	fake := mpstest.New(mpstest.Options{})
	c, err := mps.NewClient(mps.Options{Runner: fake})
	if err != nil {
		fmt.Println(err)
		return
	}
	app, err := fake.Connect(mpstest.Process{Env: []string{mps.EnvThreads + "=25"}})
	fmt.Println(app.Client, app.SMs, err)
	now, err := c.Snapshot(context.Background())
	fmt.Println(now.Servers[0].Server == app.Server, err)
	// Output:
	// true 32 <nil>
	// true <nil>
}

// A daemon that stops answering.
func ExampleDaemon_Inject() {
	fake := mpstest.New(mpstest.Options{})
	fake.Inject(mpstest.Fault{Kind: "garbage", Command: "get_server_list", Times: 1})
	c, err := mps.NewClient(mps.Options{Runner: fake})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Snapshot(context.Background())
	fmt.Println(err != nil)
	_, err = c.Snapshot(context.Background())
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// The trap: a wrong pipe directory is no error, and the process has the whole GPU.
func ExampleDaemon_Connect() {
	fake := mpstest.New(mpstest.Options{})
	app, err := fake.Connect(mpstest.Process{Env: []string{mps.EnvPipeDirectory + "=/tmp/wrong", mps.EnvThreads + "=25"}})
	fmt.Println(app.Client, app.SMs, err)
	// Output:
	// false 132 <nil>
}

// TestRecording replays the recorded session of an H200 with driver 580: the fake must answer each command that does
// not depend on the moment as the daemon did.
func TestRecording(t *testing.T) {
	b := must.Get(os.ReadFile(filepath.Join("..", "testdata", "h200-v2-transcript.txt")))(t)
	fake := mpstest.New(mpstest.Options{})
	stopped := mpstest.New(mpstest.Options{})
	stopped.Stop()
	n := 0
	for _, part := range strings.Split("\n"+string(b), "\n> ")[1:] {
		command, rest, _ := strings.Cut(part, "\n")
		answer, _, ok := strings.Cut("\n"+rest, "\n[exit ")
		if !ok || strings.Contains(command, "673") || strings.Contains(command, "quit") {
			continue // names the recorded server, which the fake numbers otherwise
		}
		answer = strings.TrimPrefix(answer, "\n")
		d := fake
		if strings.HasPrefix(answer, "Cannot find") {
			d = stopped
		}
		if command == "ps" || answer == "673" || answer == "771" || command == "device_query" ||
			strings.HasSuffix(command, "priority") || strings.Contains(command, "priority ") {
			continue // asked while a server ran
		}
		out, err := d.Run(t.Context(), mps.Invocation{Stdin: command + "\n"})
		if err != nil || strings.TrimRight(out.Stdout, "\n") != answer {
			t.Errorf("%s: %q, %v; recorded %q", command, out.Stdout, err, answer)
		}
		n++
	}
	if n != 15 {
		t.Errorf("%d recorded answers compared", n)
	}
}

// TestServerAnswers compares the answers about a server with the recording's form, with the fake's own numbers in it.
func TestServerAnswers(t *testing.T) {
	fake := mpstest.New(mpstest.Options{})
	v := must.Get(fake.Connect(mpstest.Process{}))(t)
	ask := func(command string) string {
		out := must.Get(fake.Run(t.Context(), mps.Invocation{Stdin: command + "\n"}))(t)
		return out.Stdout
	}
	for command, want := range map[string]string{
		"get_server_list": fmt.Sprintln(v.Server),
		fmt.Sprintf("get_server_status %d", v.Server):      "ACTIVE\n",
		fmt.Sprintf("get_client_list %d", v.Server):        fmt.Sprintln(v.PID),
		fmt.Sprintf("get_device_client_list %d", v.Server): fmt.Sprintf("[0] 00:00.0, NVIDIA H200\n%d.1\n", v.PID),
		"device_query": fmt.Sprintf("Default\nDevice Ordinal  PCI IDs        UUID                                      Name                              Attributes\n"+
			"0               0000:00.06.00  GPU-403fa439-6cf5-29e7-1299-e82c5fcfc6fa  NVIDIA H200                       N/A\n\n"+
			"Server %d\nDevice Ordinal  PCI IDs        UUID                                      Name                              Attributes\n"+
			"0               0000:00.06.00  GPU-403fa439-6cf5-29e7-1299-e82c5fcfc6fa  NVIDIA H200                       N/A\n", v.Server),
	} {
		if got := ask(command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

func TestMeasuredViews(t *testing.T) {
	fake := mpstest.New(mpstest.Options{})
	for _, c := range []struct {
		env  string
		want sharing.Bytes
	}{
		{"", 142592 * sharing.MiB},
		{"0=2G", 1280 * sharing.MiB},
		{"0=8G", 7424 * sharing.MiB},
		{"0=2G,1=4G", 142592 * sharing.MiB}, // measured 142336 with a server's own use
	} {
		v, err := fake.Connect(mpstest.Process{Env: []string{mps.EnvPinnedMemLimit + "=" + c.env}})
		if err != nil || v.Allocatable != c.want {
			t.Errorf("%q: %+v, %v", c.env, v, err)
		}
	}
}

func TestClientWall(t *testing.T) {
	fake := mpstest.New(mpstest.Options{})
	ok := 0
	for range 64 {
		if _, err := fake.Connect(mpstest.Process{}); err == nil {
			ok++
		} else if !strings.Contains(err.Error(), "cudaErrorDevicesUnavailable") {
			t.Error(err)
		}
	}
	if ok != 48 {
		t.Errorf("%d clients, driver 580 takes 48", ok)
	}
}

func TestCommands(t *testing.T) {
	fake := mpstest.New(mpstest.Options{})
	must.Get(fake.Run(t.Context(), mps.Invocation{Stdin: "get_server_list\nnonsense\n"}))(t)
	if got := fake.Commands(); !slices.Equal(got, []string{"get_server_list", "nonsense"}) {
		t.Errorf("%q", got)
	}
}
