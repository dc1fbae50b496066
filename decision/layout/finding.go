// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
)

// Finding is unused capacity of one node that is paid for.
type Finding struct {
	// Kind is empty-instances (MIG instances without a holder), free-shares (slots of shared devices without a holder),
	// unasked-mode (devices without tenants in a mode that no workload requests), or whole-for-slice (a whole device held
	// by work that uses no more than half of it).
	Kind    string  `json:"kind"`
	Node    string  `json:"node"`
	Pool    string  `json:"pool"`
	Devices []int   `json:"devices"` // their indexes
	Text    string  `json:"text"`
	GPUs    float64 `json:"gpus"` // unused capacity, in whole GPUs
	// PerHour is their part of the node's price; absent if the pool has none.
	PerHour cost.Money `json:"per_hour,omitzero"`
}

// Findings lists unused capacity that costs money, node by node in their order. Findings that need measurements
// ([Assignment.Busy]) are left out without them. A mode counts as in use if a device of the layout has tenants under
// it. The error concerns prices, as for Cost.
func (c *Cluster) Findings(prices Prices) ([]Finding, error) {
	asked := map[sharing.Mechanism]bool{}
	for n := range c.Nodes() {
		for i := range n.Devices {
			if n.Devices[i].tenants > 0 {
				asked[n.Devices[i].Mode] = true
			}
		}
	}
	var out []Finding
	for n := range c.Nodes() {
		price := prices[n.Pool]
		whole, priced, err := price.whole(len(n.Devices))
		if err != nil {
			return nil, fmt.Errorf("layout: pool %s: %w", n.Pool, err)
		}
		for _, f := range n.findings(asked) {
			f.Node, f.Pool = n.Name, n.Pool
			if priced {
				const exact = 10_000
				if f.PerHour, err = whole.MulFrac(int64(f.GPUs*exact+0.5), int64(len(n.Devices))*exact); err != nil {
					return nil, fmt.Errorf("layout: node %s: %w", n.Name, err)
				}
			}
			out = append(out, f)
		}
	}
	return out, nil
}

// findings are those of a node, one of a kind.
func (n *Node) findings(asked map[sharing.Mechanism]bool) (out []Finding) {
	add := func(kind string, i int, gpus float64) *Finding {
		at := slices.IndexFunc(out, func(f Finding) bool { return f.Kind == kind })
		if at < 0 {
			at = len(out)
			out = append(out, Finding{Kind: kind})
		}
		f := &out[at]
		f.Devices, f.GPUs = append(f.Devices, i), f.GPUs+gpus
		return f
	}
	empty := map[string]int{}
	slots, whole := 0, 0
	for i := range n.Devices {
		d := &n.Devices[i]
		f := d.Free()
		shared := d.Mode != sharing.MechanismNone && d.Mode != sharing.MechanismExclusive
		switch {
		case d.fault != faultNone:
		case shared && f.Tenants == 0 && !d.Open && !asked[d.Mode]:
			add("unasked-mode", i, 1)
		case Sliced(d.Mode):
			gpus := 0.0
			for _, in := range d.Instances {
				if !slices.ContainsFunc(n.Assignments, func(a Assignment) bool {
					return int(a.Device) == i && a.Profile == in.Profile && a.Start == in.Start
				}) {
					empty[in.Profile.Name]++
					gpus += float64(in.Profile.PlacementUnits) / float64(max(1, in.Profile.Model().Units))
				}
			}
			if gpus > 0 {
				add("empty-instances", i, gpus)
			}
		case d.Mode == sharing.MechanismExclusive:
			if part := n.half(i); part > 0 {
				add("whole-for-slice", i, 1-part)
				whole++
			}
		case shared && d.Slots > 0 && f.Slots > 0:
			add("free-shares", i, float64(f.Slots)/float64(d.Slots))
			slots += int(f.Slots)
		}
	}
	for i := range out {
		f := &out[i]
		switch f.Kind {
		case "empty-instances":
			var parts []string
			for _, p := range slices.Sorted(maps.Keys(empty)) {
				parts = append(parts, fmt.Sprintf("%d x %s", empty[p], p))
			}
			f.Text = strings.Join(parts, ", ") + " held by nobody"
		case "whole-for-slice":
			f.Text = fmt.Sprintf("whole GPUs held by work that a part of each would do for: %d", whole)
		case "free-shares":
			f.Text = fmt.Sprintf("shares held by nobody: %d", slots)
		case "unasked-mode":
			f.Text = fmt.Sprintf("%d GPUs run %v, which no workload asks for", len(f.Devices), n.Devices[f.Devices[0]].Mode)
		}
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(a.Kind, b.Kind) })
	return out
}

// half returns the part of a device that its one tenant was measured to use, where that is no more than half of it.
func (n *Node) half(i int) float64 {
	total := n.Devices[i].GPU.Usable()
	for a := range n.On(i) {
		part := float64(a.Busy) / 1000
		if a.Memory > 0 && total > 0 {
			part = max(part, float64(a.Memory)/float64(total))
		}
		if a.Busy > 0 && part <= 0.5 {
			return part
		}
	}
	return 0
}
