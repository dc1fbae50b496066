// SPDX-License-Identifier: Apache-2.0

package parted_test

import (
	"fmt"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/parted"
)

func ExampleEntryOf() {
	gpu, _ := mig.Lookup("A100 80GB")
	layout, err := gpu.Place([]mig.Count{{Profile: "3g.40gb", N: 1}, {Profile: "2g.20gb", N: 2}}, mig.Layout{})
	if err != nil {
		fmt.Println(err)
		return
	}
	config := parted.Config{Configs: map[string][]parted.Entry{"serving": {parted.EntryOf(layout)}}}
	text, err := config.Marshal()
	fmt.Print(string(text), err)
	// Output:
	// version: v1
	// mig-configs:
	//   serving:
	//     - devices: all
	//       mig-enabled: true
	//       mig-devices:
	//         "2g.20gb": 2
	//         "3g.40gb": 1
	// <nil>
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
