// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
)

const objects = `{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "Node",
   "metadata": {"name": "gpu-1", "labels": {"nvidia.com/gpu.product": "NVIDIA-L40S-SHARED", "nvidia.com/gpu.count": "2",
     "nvidia.com/gpu.replicas": "3", "nvidia.com/gpu.sharing-strategy": "time-slicing"}},
   "status": {"capacity": {"nvidia.com/gpu": "6"}}},
  {"apiVersion": "v1", "kind": "Pod",
   "metadata": {"name": "lab-0", "namespace": "ada", "ownerReferences": [{"kind": "StatefulSet", "name": "lab", "controller": true}]},
   "spec": {"nodeName": "gpu-1", "containers": [{"image": "jupyter/base-notebook", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
   "status": {"phase": "Running"}}]}`

// A cluster's objects become a fleet file in which each field says where it comes from.
func ExampleCollector() {
	c := discover.New(discover.Options{})
	if err := c.Read("objects.json", strings.NewReader(objects)); err != nil {
		log.Fatal(err)
	}
	d := c.Discover()
	for _, s := range d.Today {
		fmt.Printf("%s: %v on %d GPUs, %d tenant\n", s.Pool, s.Mechanism, s.GPUs, s.Tenants)
	}
	if err := d.WriteFleet(os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// l40s: time-slicing on 2 GPUs, 1 tenant
	// # Written by discover, with the source of each field.
	// version: v1
	// pools:
	//   - name: l40s # derived: the GPU's model
	//     gpu: L40S # declared: label nvidia.com/gpu.product
	//     count: 2 # declared: label nvidia.com/gpu.count, 1 node
	//     gpus_per_node: 2 # declared: label nvidia.com/gpu.count
	//     # unknown: price_per_gpu_hour: no price was given: the cost is not known
	//     # unknown: driver: no label gives it: which mechanisms the driver has is not known
	//     delivery: device-plugin # declared: resource nvidia.com/*
	// workloads:
	//   - name: ada/lab # declared: StatefulSet ada/lab
	//     kind: notebook # guess: rule notebook-image
	//     replicas: 1 # declared: 1 pod of StatefulSet
	//     gpus: 1 # declared: nvidia.com/gpu
	//     tenant: ada # guess: the namespace
	//     pool: l40s # derived: it runs there today, and whether its memory fits elsewhere is not known
	//     today: {mechanism: time-slicing, object: StatefulSet} # declared: label nvidia.com/gpu.sharing-strategy
	//     # unknown: memory: the GPU memory that ada/lab uses is not known
	//     # unknown: gpu_busy: how busy ada/lab keeps its GPU is not known
	//     request: {mechanism: time-slicing, replicas_per_gpu: 3} # declared: label nvidia.com/gpu.sharing-strategy
	// today:
	//   nodes:
	//     - {name: gpu-1, pool: l40s, delivery: device-plugin, devices: [{gpu: L40S, mode: time-slicing, slots: 3, count: 2}], assignments: [{key: ada/lab-0, workload: ada/lab}]}
}

// Prices and hints are the user's own.
func ExampleOptions() {
	prices, err := discover.ParsePrices([]byte(`L40S: 1.86 USD`))
	if err != nil {
		log.Fatal(err)
	}
	hints, err := discover.ParseHints([]byte(`workloads: {"ada/*": {memory: 6GiB, gpu_busy: 0.1}}`))
	if err != nil {
		log.Fatal(err)
	}
	c := discover.New(discover.Options{Prices: prices, Hints: hints})
	if err := c.Read("objects.json", strings.NewReader(objects)); err != nil {
		log.Fatal(err)
	}
	d := c.Discover()
	result, err := decision.Decide(context.Background(), &d.Fleet, decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Provenance["workloads[0].memory"])
	fmt.Println(result.Decisions[0].Workload, result.Decisions[0].Mechanism)
	// Output:
	// given: hints, workloads.ada/*
	// ada/lab exclusive
}

// Unknown fields are listed with the cheapest way to know them.
func ExampleDiscovery_unknown() {
	c := discover.New(discover.Options{})
	if err := c.Read("objects.json", strings.NewReader(objects)); err != nil {
		log.Fatal(err)
	}
	for _, u := range c.Discover().Unknown {
		fmt.Println(u.Path)
	}
	// Output:
	// pools[0].price_per_gpu_hour
	// pools[0].driver
	// workloads[0].memory
	// workloads[0].gpu_busy
}
