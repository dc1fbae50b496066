// SPDX-License-Identifier: Apache-2.0

package parted_test

import (
	"fmt"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/parted"
)

func ExampleEntryOf() {
	gpu, _ := mig.Lookup("A100 80GB")
	packing, err := gpu.Pack([]mig.Count{{Profile: "1c.3g.40gb", N: 3}, {Profile: "2g.20gb", N: 2}, {Profile: "7g.80gb", N: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	config := parted.Config{Configs: map[string][]parted.Entry{}}
	for i, l := range packing.Layouts() {
		config.Configs["serving"] = append(config.Configs["serving"], parted.EntryOf(l, i))
	}
	text, err := config.Marshal()
	fmt.Print(string(text), err)
	// Output:
	// version: v1
	// mig-configs:
	//   serving:
	//     - devices: [0]
	//       mig-enabled: true
	//       mig-devices:
	//         "2g.20gb": 2
	//         "1c.3g.40gb": 3
	//     - devices: [1]
	//       mig-enabled: true
	//       mig-devices:
	//         "7g.80gb": 1
	// <nil>
}

func ExampleGenerate() {
	gpu, _ := mig.Lookup("A30")
	config, err := parted.Generate(gpu)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(config.Labels())
	// Output:
	// [all-1g.6gb all-1g.6gb.me all-2g.12gb all-2g.12gb.me all-4g.24gb all-balanced all-disabled all-enabled]
}

func ExampleParse() {
	c, err := parted.Parse([]byte(`
version: v1
mig-configs:
  all-balanced:
    - devices: all
      mig-enabled: true
      mig-devices: {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	a100, _ := mig.Lookup("A100 80GB")
	for _, f := range parted.Check(c, a100) {
		fmt.Println(f.Label, f.GPU, f.Feasible, f.Layout)
	}
	// Output:
	// all-balanced a100-80gb yes 2g.20gb@0,1g.10gb@2,1g.10gb@3,3g.40gb@4
}
