// SPDX-License-Identifier: Apache-2.0

package container_test

import (
	"fmt"
	"testing/fstest"

	"github.com/cotenant/cotenant/telemetry/container"
)

const id = "397529d07efebd566f15dbc7e8af9f3ef586033f5e753adfa96b2bf730102c64"

// The processes that a GPU's driver lists, with their pods. On a node the files are os.DirFS("/").
func Example() {
	files := fstest.MapFS{
		"proc/4711/stat":   {Data: []byte("4711 (vllm) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 2318038 0")},
		"proc/4711/cgroup": {Data: []byte("0::/kubepods/burstable/podfecd2321-17b5-49b9-9f75-8c5be777fbfb/" + id + "\n")},
		"proc/99/stat":     {Data: []byte("99 (Xorg) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 512 0")},
		"proc/99/cgroup":   {Data: []byte("0::/user.slice/user-1000.slice/session-2.scope\n")},

		"var/log/containers/chat-0_search_server-" + id + ".log": {},
	}
	for _, id := range container.NewResolver(files).Resolve(4711, 99) {
		fmt.Printf("%d: %q %+v\n", id.PID, id.Reason, id.Pod)
	}
	// Output:
	// 4711: "" {Namespace:search Name:chat-0 Container:server}
	// 99: "host" {Namespace: Name: Container:}
}

func ExampleParseDevice() {
	d, err := container.ParseDevice("GPU-8f2b1c3d-0000-1111-2222-333344445555::3")
	fmt.Println(d.UUID, "replica", d.Replica, err)
	// Output: GPU-8f2b1c3d-0000-1111-2222-333344445555 replica 3 <nil>
}
