// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/cost"
)

// Price holds the prices of a pool's nodes an hour.
type Price struct {
	// PerNode is that of a node on demand; where it is zero a node costs PerGPU for each of its devices.
	PerNode, PerGPU cost.Money
	SpotPerGPU      cost.Money // of a device of a node that is Spot
	// Reserved counts devices that are paid for whether they are used or not, for ReservedPerGPU each. They are the
	// first to be counted as used.
	Reserved       int
	ReservedPerGPU cost.Money
}

// Prices are those of pools, by name.
type Prices map[string]Price

// Cost is the cost of a layout an hour: nodes in use, each as a whole, and reserved devices.
type Cost struct {
	PerHour cost.Money `json:"per_hour"`
	Pools   []PoolCost `json:"pools"` // by name
	Nodes   []NodeCost `json:"nodes"` // those in use, in their order
	// Unpriced are pools of used nodes that have no price, by name.
	Unpriced []string `json:"unpriced,omitempty"`
}

// PoolCost is the part of a pool.
type PoolCost struct {
	Pool  string `json:"pool"`
	Nodes int    `json:"nodes"` // all of them
	Used  int    `json:"used"`  // those that hold somebody
	GPUs  int    `json:"gpus"`  // devices of these
	// Reserved, OnDemand and Spot divide GPUs by pricing; ReservedIdle are paid for in addition.
	Reserved     int        `json:"reserved"`
	OnDemand     int        `json:"on_demand"`
	Spot         int        `json:"spot"`
	ReservedIdle int        `json:"reserved_idle"`
	PerHour      cost.Money `json:"per_hour"`
}

// NodeCost is the part of a node.
type NodeCost struct {
	Node     string     `json:"node"`
	Pool     string     `json:"pool"`
	GPUs     int        `json:"gpus"`
	Reserved int        `json:"reserved"` // of them
	PerHour  cost.Money `json:"per_hour"`
}

// whole is the price of a node on demand, and whether there is one.
func (p *Price) whole(devices int) (cost.Money, bool, error) {
	if p.PerNode.Sign() > 0 {
		return p.PerNode, true, nil
	}
	m, err := p.PerGPU.Mul(int64(devices))
	return m, p.PerGPU.Sign() > 0 || p.PerGPU.Currency() != "", err
}

// Cost prices the layout. The error reports amounts in different currencies or out of range.
func (c *Cluster) Cost(prices Prices) (Cost, error) {
	var out Cost
	byPool := map[string][]*Node{}
	for n := range c.Nodes() {
		byPool[n.Pool] = append(byPool[n.Pool], n)
	}
	paid := map[string]NodeCost{}
	for pool := range prices {
		if _, ok := byPool[pool]; !ok {
			byPool[pool] = nil
		}
	}
	for _, pool := range slices.Sorted(maps.Keys(byPool)) {
		price, ok := prices[pool]
		pc, err := price.pool(pool, byPool[pool], paid)
		if err != nil {
			return Cost{}, fmt.Errorf("layout: pool %s: %w", pool, err)
		}
		if !ok && pc.Used > 0 {
			out.Unpriced = append(out.Unpriced, pool)
		}
		if out.PerHour, err = out.PerHour.Add(pc.PerHour); err != nil {
			return Cost{}, fmt.Errorf("layout: pool %s: %w", pool, err)
		}
		out.Pools = append(out.Pools, pc)
	}
	for n := range c.Nodes() {
		if n.Used() {
			out.Nodes = append(out.Nodes, paid[n.Name])
		}
	}
	return out, nil
}

// pool prices the nodes of a pool. Reserved devices are used by nodes that are not spot first.
func (p *Price) pool(name string, nodes []*Node, paid map[string]NodeCost) (PoolCost, error) {
	out := PoolCost{Pool: name, Nodes: len(nodes)}
	left := p.Reserved
	total := func(m cost.Money, err error) (cost.Money, error) {
		if err != nil {
			return cost.Money{}, err
		}
		out.PerHour, err = out.PerHour.Add(m)
		return m, err
	}
	for _, spot := range []bool{false, true} {
		for _, n := range nodes {
			if !n.Used() || n.Spot != spot {
				continue
			}
			gpus := len(n.Devices)
			of := NodeCost{Node: n.Name, Pool: name, GPUs: gpus, Reserved: min(left, gpus)}
			left -= of.Reserved
			rest := gpus - of.Reserved
			out.Used, out.GPUs, out.Reserved = out.Used+1, out.GPUs+gpus, out.Reserved+of.Reserved
			var m cost.Money
			var err error
			if spot {
				out.Spot += rest
				m, err = total(p.SpotPerGPU.Mul(int64(rest)))
			} else {
				out.OnDemand += rest
				var whole cost.Money
				if whole, _, err = p.whole(gpus); err == nil && rest < gpus {
					whole, err = whole.MulFrac(int64(rest), int64(gpus))
				}
				m, err = total(whole, err)
			}
			if err != nil {
				return out, err
			}
			kept, err := total(p.ReservedPerGPU.Mul(int64(of.Reserved)))
			if err != nil {
				return out, err
			}
			if of.PerHour, err = m.Add(kept); err != nil {
				return out, err
			}
			paid[n.Name] = of
		}
	}
	out.ReservedIdle = left
	_, err := total(p.ReservedPerGPU.Mul(int64(left)))
	return out, err
}
