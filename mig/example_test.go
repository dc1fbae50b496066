// SPDX-License-Identifier: Apache-2.0

package mig_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/migtest"
)

// Will these instances fit one GPU, and where do they go?
// Pack a demand on the fewest GPUs, and plan the least change of a GPU that is in use.
func Example() {
	gpu, err := mig.Lookup("A100 80GB")
	if err != nil {
		log.Fatal(err)
	}
	packing, err := gpu.Pack([]mig.Count{{Profile: "1g.10gb", N: 40}, {Profile: "3g.40gb", N: 12}})
	fmt.Println(packing.GPUs, packing.LowerBound, packing.Optimal, err)
	for _, g := range packing.Groups {
		fmt.Println(g.GPUs, "x", g.Layout)
	}
	have, err := gpu.ParseLayout("3g.40gb@4!busy,1g.10gb@0")
	if err != nil {
		log.Fatal(err)
	}
	plan, err := mig.Diff(gpu, have, []mig.Count{{Profile: "3g.40gb", N: 1}, {Profile: "2g.20gb", N: 2}}, mig.DiffOptions{})
	fmt.Println(plan.Steps, err)
	// Output:
	// 11 11 true <nil>
	// 10 x 1g.10gb@0,1g.10gb@1,1g.10gb@2,1g.10gb@3,3g.40gb@4
	// 1 x 3g.40gb@0,3g.40gb@4
	// [destroy 1g.10gb@0 create 2g.20gb@0 create 2g.20gb@2] <nil>
}

func ExampleModel_Place_occupied() {
	gpu, _ := mig.Lookup("H200")
	have, _ := gpu.ParseLayout("3g.71gb@0!busy,1g.18gb@4")
	layout, err := gpu.Place([]mig.Count{{Profile: "1g.35gb", N: 1}}, have)
	fmt.Println(layout, err)
	_, err = gpu.Place([]mig.Count{{Profile: "4g.71gb", N: 1}}, have)
	fmt.Println(err)
	// Output:
	// 3g.71gb@0!busy,1g.18gb@4,1g.35gb@6 <nil>
	// mig: 4g.71gb can't be placed on h200-141gb-sxm next to 3g.71gb@0!busy: 4g.71gb (4 units) starts only at 0, and no disjoint starts are left
}

func ExampleDiff() {
	gpu, _ := mig.Lookup("A100 80GB")
	have, _ := gpu.ParseLayout("3g.40gb@4!busy,1g.10gb@0")
	_, err := mig.Diff(gpu, have, []mig.Count{{Profile: "7g.80gb", N: 1}}, mig.DiffOptions{})
	fmt.Println(err)
	// Output: mig: in use: the change can't be made on a100-80gb without destroying 3g.40gb@4!busy; wait until it is idle, or allow it
}

func ExampleApply() {
	gpu, _ := mig.Lookup("H200")
	device, _ := migtest.New(gpu, migtest.Options{})
	plan, _ := mig.Diff(gpu, mig.Layout{}, []mig.Count{{Profile: "3g.71gb", N: 1}, {Profile: "1g.35gb", N: 2}}, mig.DiffOptions{})
	report, err := mig.Apply(context.Background(), device, plan, mig.ApplyOptions{})
	fmt.Println(report.After, err)

	// The fourth call from now fails: everything is undone.
	device.Fail(migtest.Fault{Call: 4})
	plan, _ = mig.Diff(gpu, report.After, []mig.Count{{Profile: "7g.141gb", N: 1}}, mig.DiffOptions{})
	_, err = mig.Apply(context.Background(), device, plan, mig.ApplyOptions{})
	fmt.Println(err)
	fmt.Println(device.Layout())
	// Output:
	// 1g.35gb@0,1g.35gb@2,3g.71gb@4 <nil>
	// mig: destroy 1g.35gb@0 failed on GPU-simulated-h200-141gb-sxm: mig: destroy GPU instance 3 on GPU-simulated-h200-141gb-sxm: migtest: injected failure; the earlier layout is restored
	// 1g.35gb@0,1g.35gb@2,3g.71gb@4
}
