// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/cost"
)

// Price holds the hourly prices of a pool's nodes.
type Price struct {
	// PerNode is the price of a node on demand; if zero, a node costs PerGPU for each of its devices.
	PerNode, PerGPU cost.Money
	SpotPerGPU      cost.Money // of a device of a spot node
	// Reserved counts devices that are paid for, used or not, at ReservedPerGPU each. They count as used first.
	Reserved       int
	ReservedPerGPU cost.Money
}

// Prices holds the prices of pools, by name.
type Prices map[string]Price

// Cost is the cost of a layout per hour: nodes in use, each as a whole, and reserved devices.
type Cost struct {
	PerHour cost.Money `json:"per_hour"`
	Pools   []PoolCost `json:"pools"` // by name
	// Unpriced lists pools with used nodes but without a price, by name.
	Unpriced []string `json:"unpriced,omitempty"`
}

// PoolCost is the cost of a pool.
type PoolCost struct {
	Pool  string `json:"pool"`
	Nodes int    `json:"nodes"` // all of them
	Used  int    `json:"used"`  // those with replicas
	GPUs  int    `json:"gpus"`  // devices of used nodes
	// Reserved, OnDemand and Spot divide GPUs by pricing; ReservedIdle devices are paid for in addition.
	Reserved     int        `json:"reserved"`
	OnDemand     int        `json:"on_demand"`
	Spot         int        `json:"spot"`
	ReservedIdle int        `json:"reserved_idle"`
	PerHour      cost.Money `json:"per_hour"`
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
	for pool := range prices {
		byPool[pool] = nil
	}
	for n := range c.Nodes() {
		byPool[n.Pool] = append(byPool[n.Pool], n)
	}
	for _, pool := range slices.Sorted(maps.Keys(byPool)) {
		price, ok := prices[pool]
		pc, err := price.pool(pool, byPool[pool])
		if err == nil {
			out.PerHour, err = out.PerHour.Add(pc.PerHour)
		}
		if err != nil {
			return Cost{}, fmt.Errorf("layout: pool %s: %w", pool, err)
		}
		if !ok && pc.Used > 0 {
			out.Unpriced = append(out.Unpriced, pool)
		}
		out.Pools = append(out.Pools, pc)
	}
	return out, nil
}

// pool prices the nodes of a pool. Reserved devices are used by nodes that are not spot first.
func (p *Price) pool(name string, nodes []*Node) (PoolCost, error) {
	out := PoolCost{Pool: name, Nodes: len(nodes), ReservedIdle: p.Reserved}
	for _, spot := range []bool{false, true} {
		for _, n := range nodes {
			if !n.Used() || n.Spot != spot {
				continue
			}
			gpus := len(n.Devices)
			reserved := min(out.ReservedIdle, gpus)
			rest := gpus - reserved
			out.Used, out.GPUs = out.Used+1, out.GPUs+gpus
			out.Reserved, out.ReservedIdle = out.Reserved+reserved, out.ReservedIdle-reserved
			var m cost.Money
			var err error
			if spot {
				out.Spot += rest
				m, err = p.SpotPerGPU.Mul(int64(rest))
			} else {
				out.OnDemand += rest
				if m, _, err = p.whole(gpus); err == nil && rest < gpus {
					m, err = m.MulFrac(int64(rest), int64(gpus))
				}
			}
			if err == nil {
				out.PerHour, err = out.PerHour.Add(m)
			}
			if err != nil {
				return out, err
			}
		}
	}
	m, err := p.ReservedPerGPU.Mul(int64(p.Reserved))
	if err == nil {
		out.PerHour, err = out.PerHour.Add(m)
	}
	return out, err
}
