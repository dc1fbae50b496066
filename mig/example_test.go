package mig_test

import (
	"fmt"

	"github.com/cotenant/cotenant/mig"
)

// Will these instances fit one GPU, and where do they go?
func Example() {
	gpu, err := mig.Lookup("NVIDIA A100-SXM4-80GB")
	if err != nil {
		fmt.Println(err)
		return
	}
	layout, err := gpu.Place([]mig.Count{{Profile: "3g.40gb", N: 1}, {Profile: "2g.20gb", N: 1}, {Profile: "1g.10gb", N: 2}}, mig.Layout{})
	fmt.Println(layout, err)
	_, err = gpu.Place([]mig.Count{{Profile: "3g.40gb", N: 2}, {Profile: "1g.10gb", N: 1}}, mig.Layout{})
	fmt.Println(err)
	// Output:
	// 2g.20gb@0,1g.10gb@2,1g.10gb@3,3g.40gb@4 <nil>
	// mig: 1g.10gb + 2 x 3g.40gb can't be placed on a100-80gb: together they take 9 placement units, and there are 8
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
	// mig: 4g.71gb can't be placed on h200-141gb-sxm beside 3g.71gb@0!busy: 4g.71gb (4 units) starts only at 0, and no disjoint starts are left
}

func ExampleParsePartedConfig() {
	c, err := mig.ParsePartedConfig([]byte(`
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
	for _, f := range mig.CheckParted(c, a100) {
		fmt.Println(f.Label, f.GPU, f.Feasible, f.Layout)
	}
	// Output:
	// all-balanced a100-80gb yes 2g.20gb@0,1g.10gb@2,1g.10gb@3,3g.40gb@4
}
