// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

var testGPUs = []*GPU{GPUOf("H100 80GB HBM3"), GPUOf("A100-SXM4-80GB"), GPUOf("T4"), GPUOf("L4"), GPUOf("A30"),
	GPUOf("Some GPU of tomorrow"), {Name: "T4", Memory: 16 * sharing.GiB, Reserved: sharing.GiB, Context: sharing.GiB / 2}}

// anything draws a node that may contradict itself in every way.
func anything(rng *rand.Rand, name string) Node {
	n := Node{Name: name, Pool: fmt.Sprint("p", rng.IntN(3)), CPUMilli: rng.Int64N(100_000) - 1000,
		Memory: sharing.Bytes(rng.Int64N(1 << 39)), Delivery: sharing.Deliveries()[rng.IntN(len(sharing.Deliveries()))],
		MIGStrategy: []string{"", "none", "single", "mixed"}[rng.IntN(4)], Consumable: rng.IntN(8) == 0}
	if rng.IntN(10) == 0 {
		n.Closed = "cordoned"
	}
	for i := range rng.IntN(9) {
		d := Device{UUID: fmt.Sprint(name, "-", i/(1+rng.IntN(6)/5)), GPU: testGPUs[rng.IntN(len(testGPUs))],
			Mode: sharing.Mechanism(rng.IntN(sharing.MechanismCount)), Slots: int16(rng.IntN(12) - 1), Dynamic: rng.IntN(2) == 0,
			Health: []string{"", "healthy"}[rng.IntN(20)/16], Link: int8(rng.IntN(3)), NUMA: int8(rng.IntN(3))}
		if rng.IntN(20) == 0 {
			d.GPU = nil
		}
		if rng.IntN(5) == 0 {
			d.Limit = sharing.Bytes(rng.Int64N(int64(20 * sharing.GiB)))
		}
		if d.GPU != nil && d.GPU.MIG != nil {
			for range rng.IntN(6) {
				d.Instances = append(d.Instances, anyInstance(rng, d.GPU.MIG))
			}
		}
		n.Devices = append(n.Devices, d)
	}
	for i := range rng.IntN(20) {
		n.Assignments = append(n.Assignments, anyAssignment(rng, &n, fmt.Sprint(name, "/", i-rng.IntN(20)/19)))
	}
	return n
}

func anyInstance(rng *rand.Rand, m *mig.Model) Instance {
	p := m.Profiles[rng.IntN(len(m.Profiles))]
	return Instance{Profile: p, Start: int8(rng.IntN(9) - 1)}
}

var someWorkloads = []*Workload{nil, {Name: "a"}, {Name: "b", Tenant: "t", Trusts: []string{"u"}},
	{Name: "c", Tenant: "u", Trusts: []string{"t"}, Objective: Objective{Slowdown: 1.5, TTFTP99: 1e9}}}

func anyAssignment(rng *rand.Rand, n *Node, key string) Assignment {
	a := Assignment{Key: key, Workload: someWorkloads[rng.IntN(len(someWorkloads))], Device: int16(rng.IntN(len(n.Devices)+4) - 3),
		Compute: int16(rng.IntN(600)), Memory: sharing.Bytes(rng.Int64N(int64(30 * sharing.GiB))), CPUMilli: rng.Int32N(9000),
		HostMemory: sharing.Bytes(rng.Int64N(1 << 35)), Busy: int16(rng.IntN(900)), Cap: int16(rng.IntN(500))}
	if rng.IntN(4) == 0 {
		a.Mode = sharing.Mechanism(rng.IntN(sharing.MechanismCount))
	}
	if a.Device >= 0 && int(a.Device) < len(n.Devices) {
		d := &n.Devices[a.Device]
		if d.GPU != nil && d.GPU.MIG != nil && rng.IntN(2) == 0 {
			in := anyInstance(rng, d.GPU.MIG)
			if len(d.Instances) > 0 {
				in = d.Instances[rng.IntN(len(d.Instances))]
			}
			a.Profile, a.Start = in.Profile, in.Start
		}
	}
	return a
}

// possible draws a node that is as it should be.
func possible(rng *rand.Rand, name string) Node {
	n := Node{Name: name, Pool: fmt.Sprint("p", rng.IntN(3)), CPUMilli: 64_000, Memory: 512 * sharing.GiB}
	modes := []sharing.Mechanism{sharing.MechanismNone, sharing.MechanismExclusive, sharing.MechanismMPS,
		sharing.MechanismTimeSlicing, sharing.MechanismMIG}
	for range 1 + rng.IntN(8) {
		d := Device{GPU: testGPUs[rng.IntN(2)], Dynamic: rng.IntN(2) == 0}
		m := modes[rng.IntN(len(modes))]
		RulesOf(n.Delivery).Configure(&d, m, int32(2+rng.IntN(6)))
		if d.Mode == sharing.MechanismNone {
			d.Open = true
		}
		if m == sharing.MechanismMIG && !d.Dynamic {
			d.Slots = 1
			if l, err := d.GPU.MIG.Place([]mig.Count{{Profile: "1g.10gb", N: 2}, {Profile: "2g.20gb", N: 1}}, mig.Layout{}); err == nil {
				for _, in := range l.Instances {
					d.Instances = append(d.Instances, Instance{Profile: in.Profile, Start: int8(in.Start)})
				}
			}
		}
		n.Devices = append(n.Devices, d)
	}
	return n
}

// fill assigns what is drawn, where it is taken, and returns the keys.
func fill(tb testing.TB, rng *rand.Rand, c *Cluster, tries int, prefix string) (*Cluster, []string) {
	tb.Helper()
	var keys []string
	for i := range tries {
		n := c.At(rng.IntN(c.Len()))
		if n == nil || len(n.Devices) == 0 {
			continue
		}
		a := anyAssignment(rng, n, fmt.Sprint(prefix, i))
		if next, err := c.Assign(n.Name, a); err == nil {
			c, keys = next, append(keys, a.Key)
			checkGiven(tb, next.Node(n.Name))
		}
	}
	return c, keys
}

// checkGiven holds, from the assignments alone, that a device that takes more tenants is not over-given.
func checkGiven(tb testing.TB, n *Node) {
	tb.Helper()
	for i := range n.Devices {
		d := &n.Devices[i]
		var compute, tenants int32
		var memory sharing.Bytes
		instances := map[Instance]int32{}
		for a := range n.On(i) {
			tenants++
			compute += int32(a.Compute)
			memory += a.Memory + d.GPU.context()
			if a.Mode != sharing.MechanismNone && a.Mode != d.Mode && d.fault == faultNone {
				tb.Fatalf("%s: %v beside %v", n.Name, a.Mode, d.Mode)
			}
			instances[Instance{Profile: a.Profile, Start: a.Start}]++
		}
		f := d.Free()
		if f.Tenants != tenants {
			tb.Fatalf("%s: %d tenants, not %d", n.Name, f.Tenants, tenants)
		}
		if d.fault != faultNone {
			if f.Slots != 0 || d.faultText() == "" || d.GPU != nil && d.GPU.MIG != nil && d.Room(d.GPU.MIG.Profiles[0]) != 0 {
				tb.Fatalf("%s: device %d takes more: %s", n.Name, i, d.faultText())
			}
			continue
		}
		if Sliced(d.Mode) {
			for in, k := range instances {
				if k > d.SlotsOf(d.Mode) {
					tb.Fatalf("%s: %d tenants on %+v", n.Name, k, in)
				}
			}
			continue
		}
		if tenants > d.SlotsOf(d.Mode) || compute > 1000 || d.GPU.Memory > 0 && memory > d.GPU.Usable() {
			tb.Fatalf("%s: device %d of %v has %d tenants, %d thousandths and %v", n.Name, i, d.GPU.Usable(), tenants, compute,
				memory)
		}
	}
}
