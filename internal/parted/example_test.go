// SPDX-License-Identifier: Apache-2.0

package parted_test

import (
	"fmt"

	"github.com/cotenant/cotenant/internal/parted"
	"github.com/cotenant/cotenant/mig"
)

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
