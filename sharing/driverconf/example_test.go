package driverconf_test

import (
	"fmt"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/sharing/driverconf"
)

// The device plugin shares each GPU among four clients, equally.
func ExamplePlugin_Marshal() {
	c := driverconf.Plugin{MPS: &driverconf.Block{Resources: []driverconf.Resource{{Name: driverconf.GPU, Replicas: 4}}}}
	doc, err := c.Marshal()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(doc))
	share := driverconf.Share{Replicas: 4, Total: 80 * sharing.GiB}
	fmt.Printf("# each client process: %d%% of the threads, %v\n", share.ActiveThreadPercentage(), share.PinnedMemoryLimit())
	// Output:
	// version: v1
	// sharing:
	//   mps:
	//     resources:
	//       - name: nvidia.com/gpu
	//         replicas: 4
	// # each client process: 25% of the threads, 20GiB
}

// What the plugin would ignore without a word becomes a warning.
func ExampleParse() {
	_, warnings, err := driverconf.Parse([]byte(`
version: v1
flags: {renameByDefault: true}
sharing:
  mps:
    resources:
    - {name: nvidia.com/gpu, devices: [0], replicas: 4}
`))
	fmt.Println(err)
	for _, w := range warnings {
		fmt.Println(w.Code, w.Path)
	}
	// Output:
	// <nil>
	// flag-ignored flags.renameByDefault
	// devices-ignored sharing.mps.resources[0].devices
}

// A DRA claim's parameters, whose limits hold for each client.
func ExampleDRA_Marshal() {
	c := driverconf.DRA{Strategy: driverconf.MPS, MPS: &driverconf.Limits{
		ActiveThreadPercentage: driverconf.Some(50), PinnedMemory: driverconf.Quantity(10 * sharing.GiB)}}
	doc, err := c.Marshal()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(doc))
	// Output:
	// apiVersion: resource.nvidia.com/v1beta1
	// kind: GpuConfig
	// sharing:
	//   strategy: MPS
	//   mpsConfig:
	//     defaultActiveThreadPercentage: 50
	//     defaultPinnedDeviceMemoryLimit: 10Gi
}
