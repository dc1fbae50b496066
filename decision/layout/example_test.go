// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"fmt"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// What is observed is never refused: a GPU that is over-full keeps its tenants, takes no more, and is reported.
func ExampleObserve() {
	t4 := layout.GPUOf("T4")
	turns := layout.Device{GPU: t4, Mode: sharing.MechanismTimeSlicing, Slots: 4}
	c, problems := layout.Observe([]layout.Node{{Name: "node-1", Devices: []layout.Device{turns, turns},
		Assignments: []layout.Assignment{{Key: "ml/a", Device: 0, Memory: 9 * sharing.GiB}, {Key: "ml/b", Device: 0,
			Memory: 9 * sharing.GiB}, {Key: "ml/c", Device: 1, Memory: 6 * sharing.GiB}}}})
	for _, p := range problems {
		fmt.Println(p)
	}
	for i := range c.Node("node-1").Devices {
		f := c.Node("node-1").Devices[i].Free()
		fmt.Printf("GPU %d: %d tenants, %d more\n", i, f.Tenants, f.Slots)
	}
	// Output:
	// nodes[0].devices[0] (node-1): 3GiB more of its memory are given away than there is (it keeps its tenants and takes no more)
	// GPU 0: 2 tenants, 0 more
	// GPU 1: 1 tenants, 3 more
}

// A replica is assigned by its key, and an offer for what went is an error.
func ExampleCluster_Assign() {
	whole := layout.Device{GPU: layout.GPUOf("L4"), Mode: sharing.MechanismExclusive}
	c, _ := layout.Observe([]layout.Node{{Name: "a", Devices: []layout.Device{whole}}, {Name: "b", Devices: []layout.Device{whole}}})
	next, err := c.Assign("b", layout.Assignment{Key: "ml/bert-0", Device: 0, Compute: 1000})
	fmt.Println(next.Find("ml/bert-0").Name, err)
	_, err = next.Assign("b", layout.Assignment{Key: "ml/bert-1", Device: 0, Compute: 1000})
	fmt.Println(err)
	_, err = next.WithoutNode("a").Assign("a", layout.Assignment{Key: "ml/bert-1", Device: 0})
	fmt.Println(err)
	// Output:
	// b <nil>
	// layout: conflict: node b: ml/bert-1: device 0 has no room: more tenants than slots are on it
	// layout: the node is gone: a
}

// A node that its delivery cannot carry is told why, with the source of the rule.
func ExampleNode_Check() {
	h100 := layout.GPUOf("H100 80GB HBM3")
	n := layout.Node{Name: "prod-1", Delivery: sharing.DeliveryGPUOperator, Devices: make([]layout.Device, 2)}
	rules := layout.RulesOf(n.Delivery)
	for i, m := range []sharing.Mechanism{sharing.MechanismMPS, sharing.MechanismTimeSlicing} {
		n.Devices[i].GPU = h100
		rules.Configure(&n.Devices[i], m, 4)
	}
	for _, p := range n.Check() {
		fmt.Printf("%s [%s]\n", p.Path, p.Source)
	}
	fmt.Println(n.Devices[0].Limit)
	// Output:
	// devices[1].mode [k8s-device-plugin-config]
	// 19.91GiB
}

// A migration is the difference of two layouts; what the second costs less is its saving.
func ExampleDiff() {
	whole := layout.Device{GPU: layout.GPUOf("T4"), Mode: sharing.MechanismExclusive}
	node := func(name string, keys ...string) layout.Node {
		n := layout.Node{Name: name, Pool: "t4", Devices: []layout.Device{whole, whole}}
		for i, key := range keys {
			n.Assignments = append(n.Assignments, layout.Assignment{Key: key, Device: int16(i)})
		}
		return n
	}
	today, _ := layout.Observe([]layout.Node{node("a", "x"), node("b", "y")})
	plan, _ := layout.Observe([]layout.Node{node("a", "x", "y"), node("b")})
	for _, c := range layout.Diff(today, plan) {
		fmt.Printf("move %s from %s to %s\n", c.Key, c.From, c.Node)
	}
	price, _ := cost.ParseMoney("0.5 USD")
	for _, c := range []*layout.Cluster{today, plan} {
		costs, _ := c.Cost(layout.Prices{"t4": {PerGPU: price}})
		fmt.Println(costs.PerHour)
	}
	// Output:
	// move y from b to a
	// 2.00 USD
	// 1.00 USD
}
