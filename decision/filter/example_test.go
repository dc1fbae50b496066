// SPDX-License-Identifier: Apache-2.0

package filter_test

import (
	"fmt"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/sharing"
)

func target(name string) *filter.Target {
	gpu, err := sharing.LookupGPU(name)
	if err != nil {
		panic(err)
	}
	t, err := filter.NewTarget(filter.GPUKind{Name: "pool", GPU: gpu, Together: 4})
	if err != nil {
		panic(err)
	}
	return t
}

// server is a model server that demands isolation from faults.
func server() *filter.Demand {
	d := &filter.Demand{Kind: "online-inference", Replicas: 2, GPUs: 1, Processes: 1, Memory: filter.MemoryNeed{Total: 12 * sharing.GiB},
		Busy: 0.2, BusyBasis: filter.BusyStated, SaturatedFrom: 0.8}
	d.Isolation[sharing.AxisFault] = sharing.LevelHardware
	return d
}

// Every check of an empty pool is asked, so that a refusal has all its reasons.
func ExampleTarget_Check() {
	var r filter.Report
	for _, m := range []sharing.Mechanism{sharing.MechanismMPS, sharing.MechanismMIG} {
		target("A100-SXM4-80GB").Check(server(), m, filter.Neighbours{Untrusted: 1}, &r)
		fmt.Println(m, r.Verdict)
		for i := range r.Len() {
			fmt.Printf("  %v: %v\n", r.Reason(i).Code, r.Reason(i))
		}
	}
	// Output:
	// mps reject
	//   isolation: fault isolation must be hardware and is none: a fatal GPU fault ends every client of the GPUs that the culprit uses; the server takes new clients only when all of those have exited
	//   untrusted: all 1 possible neighbours belong to tenants that it does not trust, or that do not trust it; untrusted tenants never share by mps alone
	// mig pass
	//   slice-too-small: does not fit the memory of 1g.10gb: needs 12GiB and it has 9.5GiB
	//   slice-fits: fits 1g.20gb (19.5GiB), an empty GPU has 4 of them
	//   slice-load: will keep the slice 77.1% busy, if it runs 3.86 times slower there as programs on A100 slices do (prior); measure it
}

// A GPU that runs a mechanism already is asked what holds whoever is there.
func ExampleTarget_Admit() {
	for _, name := range []string{"T4", "V100-SXM2-16GB"} {
		fmt.Println(name+":", target(name).Admit(server(), filter.Slot{Mechanism: sharing.MechanismExclusive, Fixed: true}))
	}
	d := server()
	d.Isolation = [sharing.AxisCount]sharing.Level{}
	d.Busy, d.GPUs = 0.95, 2
	fmt.Println("two:", target("T4").Admit(d, filter.Slot{Mechanism: sharing.MechanismTimeSlicing, Fixed: true}))
	// Output:
	// T4: it fits
	// V100-SXM2-16GB: it fits
	// two: a replica spans 2 GPUs, and the device plugin may put several shares of one replica on one of them
}

// What is left of a GPU decides about the next tenant.
func ExampleLeft() {
	gpu := filter.Left{Memory: 4 * sharing.GiB, Milli: 500}
	var why filter.Reason
	fmt.Println(gpu.Suffices(3*sharing.GiB, 400, &why))
	fmt.Println(gpu.Suffices(6*sharing.GiB, 400, &why), why)
	fmt.Println(gpu.Takes(400, &why), why)
	// Output:
	// true
	// false needs 6GiB of GPU memory, the most free is 4GiB
	// false the GPU has as many tenants as it takes
}
