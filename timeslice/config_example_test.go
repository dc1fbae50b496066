package timeslice_test

import (
	"fmt"

	"github.com/cotenant/cotenant/timeslice"
)

// Four replicas of each GPU: four turns, not four GPUs.
func ExamplePluginSettings_Marshal() {
	c := timeslice.PluginSettings{
		FailRequestsGreaterThanOne: timeslice.Some(true),
		Resources:                  []timeslice.PluginResource{{Name: "nvidia.com/gpu", Replicas: 4}},
	}
	doc, err := c.Marshal()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(doc))
	for _, w := range c.Warnings() {
		fmt.Println("#", w.Message)
	}
	// Output:
	// version: v1
	// sharing:
	//   timeSlicing:
	//     failRequestsGreaterThanOne: true
	//     resources:
	//       - name: nvidia.com/gpu
	//         replicas: 4
	// # replicas are turns on the same GPU, not capacity: no replica has memory or compute of its own
}

// A DRA claim that shares its GPU in long turns.
func ExampleDRASettings_Marshal() {
	doc, err := (&timeslice.DRASettings{Interval: timeslice.LevelLong}).Marshal()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(doc))
	// Output:
	// apiVersion: resource.nvidia.com/v1beta1
	// kind: GpuConfig
	// sharing:
	//   strategy: TimeSlicing
	//   timeSlicingConfig:
	//     interval: Long
}
