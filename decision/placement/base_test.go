// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Mechanisms that requests of tests accept.
var (
	onMPS   = []sharing.Mechanism{sharing.MechanismMPS}
	onTurns = []sharing.Mechanism{sharing.MechanismTimeSlicing}
	onAny   = []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS,
		sharing.MechanismHAMi, sharing.MechanismVGPU}
)

// GPUs of tests: with and without MIG and memory.
var (
	kindA   = &layout.GPU{Name: "A"}
	kindB   = &layout.GPU{Name: "B"}
	withMem = &layout.GPU{Name: "A100", Memory: 80 * sharing.GiB}
	withMIG = func() *layout.GPU {
		m, err := mig.Lookup("a100-80gb")
		if err != nil {
			panic(err)
		}
		return &layout.GPU{Name: "A100", Memory: 80 * sharing.GiB, MIG: m}
	}()
)

func device(g *layout.GPU, m sharing.Mechanism) layout.Device {
	return layout.Device{GPU: g, Mode: m, Dynamic: g.MIG != nil}
}

func on(name string, ds ...layout.Device) layout.Node {
	return layout.Node{Name: name, CPUMilli: 8_000, Memory: 16 * sharing.GiB, Devices: ds}
}

// with puts a request on GPUs of a node, whatever these say.
func with(n layout.Node, r Request, gpus ...int) layout.Node {
	for i, g := range gpus {
		a := layout.Assignment{Key: fmt.Sprint(r.Name, n.Name, len(n.Assignments)-i), Workload: r.Workload, Device: int16(g),
			Compute: int16(r.Milli), Busy: int16(r.Busy), Memory: r.GPUMemory}
		if n.Devices[g].Mode == sharing.MechanismNone && len(r.Mechanisms) > 0 {
			a.Mode = r.Mechanisms[0]
		}
		if r.Profile != "" {
			a.Profile, _ = n.Devices[g].GPU.MIG.Profile(r.Profile)
		}
		n.Assignments = append(n.Assignments, a)
	}
	return n
}

func cluster(tb testing.TB, nodes ...layout.Node) *layout.Cluster {
	tb.Helper()
	c, problems := layout.Observe(nodes)
	if err := layout.Err(problems); err != nil {
		tb.Fatal(err)
	}
	return c
}

func tenant(name string, trusts ...string) *layout.Workload {
	return &layout.Workload{Tenant: name, Trusts: trusts}
}

// pairs predicts by neighbour: name -> slowdown of anyone beside it.
type pairs map[string]float64

func (p pairs) Predict(out []*predict.Prediction, _ string, _ sharing.Mechanism, group []string, method predict.Method) []*predict.Prediction {
	for i := range group {
		x := 1.0
		for j, n := range group {
			if j != i {
				x *= p[n]
			}
		}
		if x == 0 || method == predict.MethodSimulated {
			out = append(out, nil)
			continue
		}
		out = append(out, &predict.Prediction{Slowdown: profile.Interval{Value: x, Low: 0.9 * x, High: 1.1 * x}})
	}
	return out
}

// zoo is a cluster with every mechanism, and requests of every kind.
func zoo() ([]layout.Node, []Request) {
	var nodes []layout.Node
	modes := []sharing.Mechanism{sharing.MechanismNone, sharing.MechanismMPS, sharing.MechanismTimeSlicing,
		sharing.MechanismHAMi, sharing.MechanismExclusive, sharing.MechanismVGPU, sharing.MechanismMIG}
	kinds := []*layout.GPU{{Name: "A", Memory: 80 * sharing.GiB, MIG: withMIG.MIG}, {Name: "B", Memory: 80 * sharing.GiB, MIG: withMIG.MIG}}
	for i := range 14 {
		n := layout.Node{Name: fmt.Sprintf("n%02d", i), CPUMilli: 40_000, Memory: 256 * sharing.GiB}
		m := modes[i%len(modes)]
		if m == sharing.MechanismHAMi {
			n.Delivery = sharing.DeliveryHAMi
		} else if m == sharing.MechanismVGPU {
			n.Delivery = sharing.DeliveryVGPUManager
		}
		for range 1 + i%4 {
			d := layout.Device{GPU: kinds[i%2], Mode: m, Dynamic: m == sharing.MechanismMIG}
			n.Devices = append(n.Devices, d)
		}
		nodes = append(nodes, n)
	}
	bert := &layout.Workload{Name: "bert", Tenant: "b"}
	requests := []Request{
		{CPUMilli: 2_000, GPUs: 1, Milli: 300, Mechanisms: onAny, Workload: tenant("a")},
		{CPUMilli: 2_000, GPUs: 1, Milli: 300, Mechanisms: onAny, Workload: bert},
		{CPUMilli: 1_000, GPUs: 1, Milli: 250, Mechanisms: []sharing.Mechanism{sharing.MechanismMPS, sharing.MechanismHAMi}},
		{CPUMilli: 1_000, GPUs: 1, Milli: 250, Mechanisms: onTurns},
		{CPUMilli: 4_000, GPUs: 1, GPUMemory: 30 * sharing.GiB, Mechanisms: onAny},
		{CPUMilli: 8_000, Memory: 32 * sharing.GiB, GPUs: 1, Milli: 1000, Mechanisms: onAny},
		{CPUMilli: 8_000, Memory: 32 * sharing.GiB, GPUs: 2, Milli: 1000, Models: []string{"B"}, Mechanisms: onAny},
		{CPUMilli: 4_000, GPUs: 2, Milli: 200, Mechanisms: onAny},
		{CPUMilli: 4_000, Memory: sharing.GiB},
		{CPUMilli: 1_000, GPUs: 1, Profile: "1g.10gb"},
		{CPUMilli: 2_000, GPUs: 1, Profile: "3g.40gb"},
		{CPUMilli: 2_000, GPUs: 1, Profile: "1g.20gb"},
		{CPUMilli: 2_000, GPUs: 1, Milli: 1000},
	}
	for i := range requests {
		requests[i].Name = fmt.Sprintf("r%02d", i)
	}
	return nodes, requests
}

func zooMix(requests []Request) (typical []Typical) {
	for i, r := range requests {
		typical = append(typical, Typical{r, float64(1 + i%3)})
	}
	return typical
}

func cotenant(tb testing.TB, typical []Typical) *lookAhead {
	tb.Helper()
	return must.Get(NewCotenant(typical))(tb).(*lookAhead)
}

func policies(tb testing.TB) []Policy {
	_, requests := zoo()
	return []Policy{BestFit, cotenant(tb, zooMix(requests))}
}

var named int

// fresh is a request under a name that nobody has.
func fresh(r Request) *Request {
	named++
	r.Name = fmt.Sprint(r.Name, "#", named)
	return &r
}

// nodeOf is a node of count GPUs of a kind that the checks know, which run m; None are idle ones, which may be
// partitioned where the catalogue knows how.
func nodeOf(name, pool string, g *filter.Target, count int, m sharing.Mechanism) layout.Node {
	n := layout.Node{Name: name, Pool: pool, Devices: make([]layout.Device, count)}
	if m == sharing.MechanismVGPU {
		n.Delivery = sharing.DeliveryVGPUManager
	}
	kind := &layout.GPU{MIG: g.Model()}
	if known := g.GPU(); known != nil {
		kind.Name, kind.Known = known.Name, known
		kind.Memory, _ = known.Memory.Get()
	}
	if kind.MIG != nil && !kind.MIG.PlacementsKnown() {
		kind.MIG = nil
	}
	for i := range n.Devices {
		n.Devices[i] = layout.Device{GPU: kind, Mode: m, Open: m == sharing.MechanismNone, Dynamic: kind.MIG != nil}
	}
	return n
}

// noFit reports whether the error is that no node takes a request.
func noFit(err error) bool {
	var e *UnplacedError
	return errors.As(err, &e)
}
