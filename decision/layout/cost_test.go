// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
)

func money(tb testing.TB, text string) cost.Money {
	tb.Helper()
	m, err := cost.ParseMoney(text)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// TestCost prices whole nodes, of which reserved devices are the first to be counted.
func TestCost(t *testing.T) {
	d := Device{GPU: testGPUs[2], Mode: sharing.MechanismExclusive}
	node := func(name, pool string, used, spot bool) Node {
		n := Node{Name: name, Pool: pool, Spot: spot, Devices: []Device{d, d, d, d}}
		if used {
			n.Assignments = []Assignment{{Key: name}}
		} else { // who holds no device pays for none
			n.Assignments = []Assignment{{Key: name, Device: NoDevice}}
		}
		return n
	}
	c, _ := Observe([]Node{node("a", "x", true, false), node("b", "x", true, false), node("c", "x", false, false),
		node("d", "x", true, true), node("e", "y", true, false)})
	for name, test := range map[string]struct {
		price Price
		want  string
		pool  PoolCost
	}{
		"by GPU": {Price{PerGPU: money(t, "1 USD"), SpotPerGPU: money(t, "0.25 USD")}, "9 USD", PoolCost{OnDemand: 8, Spot: 4}},
		"by node": {Price{PerNode: money(t, "3 USD"), PerGPU: money(t, "1 USD"), SpotPerGPU: money(t, "0.25 USD")}, "7.00 USD",
			PoolCost{OnDemand: 8, Spot: 4}},
		"some reserved": {Price{PerNode: money(t, "4 USD"), SpotPerGPU: money(t, "0.25 USD"), Reserved: 6, ReservedPerGPU: money(t, "0.5 USD")}, "6 USD",
			PoolCost{OnDemand: 2, Spot: 4, Reserved: 6}},
		"more reserved than used": {Price{PerNode: money(t, "4 USD"), Reserved: 20, ReservedPerGPU: money(t, "0.5 USD")}, "10 USD",
			PoolCost{Reserved: 12, ReservedIdle: 8}},
	} {
		got, err := c.Cost(Prices{"x": test.price})
		if err != nil {
			t.Fatal(err)
		}
		test.pool.Pool, test.pool.Nodes, test.pool.Used, test.pool.GPUs, test.pool.PerHour = "x", 4, 3, 12, money(t, test.want)
		if d := cmp.Diff(fmt.Sprintf("%+v", test.pool), fmt.Sprintf("%+v", got.Pools[0])); d != "" || got.PerHour != money(t, test.want) {
			t.Errorf("%s: %v %s", name, got.PerHour, d)
		}
		if d := cmp.Diff([]string{"y"}, got.Unpriced); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if _, err := c.Cost(Prices{"x": {PerGPU: money(t, "1 USD")}, "y": {PerGPU: money(t, "1 EUR")}}); err == nil {
		t.Error("two currencies make a sum")
	}
}

// TestFindings finds what is paid for and held by nobody, each with its money.
func TestFindings(t *testing.T) {
	h100, t4 := testGPUs[0], testGPUs[2]
	p, err := h100.MIG.Profile("1g.10gb")
	if err != nil {
		t.Fatal(err)
	}
	cut := Device{GPU: h100, Mode: sharing.MechanismMIG, Instances: []Instance{{Profile: p}, {Profile: p, Start: 1}, {Profile: p, Start: 2}, {Profile: p, Start: 3}}}
	whole := Device{GPU: t4, Mode: sharing.MechanismExclusive}
	turns := Device{GPU: t4, Mode: sharing.MechanismTimeSlicing, Slots: 4}
	mps := Device{GPU: t4, Mode: sharing.MechanismMPS, Slots: 4}
	c, problems := Observe([]Node{
		{Name: "a", Pool: "h", Devices: []Device{cut, cut}, Assignments: []Assignment{{Key: "1", Device: 0, Profile: p}}},
		{Name: "b", Pool: "t", Devices: []Device{whole, whole, whole}, Assignments: []Assignment{{Key: "2", Device: 0, Busy: 200, Memory: sharing.GiB},
			{Key: "3", Device: 1, Busy: 900}, {Key: "4", Device: 2}}},
		{Name: "c", Pool: "t", Devices: []Device{turns, turns}, Assignments: []Assignment{{Key: "5", Device: 0}}},
		{Name: "d", Pool: "t", Devices: []Device{mps, mps}},
	})
	if err := Err(problems); err != nil {
		t.Fatal(err)
	}
	found, err := c.Findings(Prices{"h": {PerNode: money(t, "16 USD")}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, fmt.Sprintf("%s %v %v: %s, %.3g GPUs, %v", f.Node, f.Kind, f.Devices, f.Text, f.GPUs, f.PerHour))
	}
	want := []string{
		"a empty-instances [0 1]: 7 x 1g.10gb held by nobody, 0.875 GPUs, 7.00 USD",
		"b whole-for-slice [0]: whole GPUs held by work that a part of each would do for: 1, 0.8 GPUs, 0.00",
		"c free-shares [0 1]: shares held by nobody: 7, 1.75 GPUs, 0.00",
		"d unasked-mode [0 1]: 2 GPUs run mps, which no workload asks for, 2 GPUs, 0.00",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestJSON reads back what was written, and names every place that cannot be read.
func TestJSON(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 200 {
		var nodes []Node
		for i := range 5 {
			nodes = append(nodes, anything(rng, fmt.Sprint("n", i)))
		}
		c, _ := Observe(nodes)
		before := text(t, c)
		back := new(Cluster)
		if err := back.UnmarshalJSON([]byte(before)); err != nil {
			t.Fatalf("%v in\n%s", err, before)
		}
		if d := cmp.Diff(before, text(t, back)); d != "" {
			t.Fatal(d)
		}
	}
	err := new(Cluster).UnmarshalJSON([]byte(`{"nodes": [{"name": "a", "delivery": "post", "devices": [{"gpu": "T4", "mode": "mig", "instances": [{"profile": "1g"}]},
		{"gpu": "T4", "mig": "nothing"}], "assignments": [{"device": 0, "speed": 1}]}]}`))
	for _, part := range []string{"nodes[0].delivery", "nodes[0].assignments[0].speed"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("no %q in %v", part, err)
		}
	}
	err = new(Cluster).UnmarshalJSON([]byte(`{"nodes": [{"name": "a", "devices": [{"gpu": "T4", "mode": "mig", "instances": [{"profile": "1g"}]}, {"gpu": "T4", "mig": "nothing"}],
		"assignments": [{"key": "x", "device": 9, "profile": "1g", "objective": {"slowdown": 0.5, "ttft_p99": "-1s"}}, {"device": 0}]}]}`))
	for _, part := range []string{"devices[0].instances[0].profile", "devices[1].mig", "assignments[0].device", "assignments[1].key", "objective.slowdown", "-1s is no limit"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("no %q in %v", part, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	rng := rand.New(rand.NewPCG(13, 14))
	for range 5 {
		c, _ := Observe([]Node{anything(rng, "a"), anything(rng, "b")})
		data, _ := json.Marshal(c)
		f.Add(data)
	}
	f.Add([]byte(`{"nodes":[{"name":"a","devices":[{"gpu":"H100 80GB HBM3","mig":"h100-80gb-sxm","mode":"mig","dynamic":true}],"assignments":[{"key":"x","device":0,"profile":"1g.10gb","start":127}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, back := new(Cluster), new(Cluster)
		if c.UnmarshalJSON(data) != nil {
			return
		}
		before := text(t, c)
		if err := back.UnmarshalJSON([]byte(before)); err != nil || text(t, back) != before {
			t.Fatalf("%v\n%s\n%s", err, before, text(t, back))
		}
		for n := range c.Nodes() {
			checkGiven(t, n)
			c.Release(n.Name)
		}
	})
}
