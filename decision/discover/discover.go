// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Discover makes the fleet from all inputs so far. It may be called again after more inputs.
func (c *Collector) Discover() *Discovery {
	b := &build{c: c, devices: map[string][]*device{}, heldBy: map[deviceID]int{}, hamiCounts: map[string]bool{},
		others: map[string]bool{}, heldDevices: map[*device]bool{}, byName: map[string]*node{},
		poolOf: map[*node]*pool{}, byDevice: map[string]*workload{}, sharedSeries: map[*workload]bool{},
		Discovery: &Discovery{Pods: c.pods, Provenance: map[string]Provenance{}}, findings: slices.Clone(c.findings)}
	b.Fleet.Version = "v1"
	b.claims()
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		if n := b.readNode(c.nodes[name]); n != nil {
			b.nodes, b.byName[name] = append(b.nodes, n), n
		}
	}
	b.joinMachines()
	b.group()
	b.notUnderstood()
	b.makePools()
	for i, w := range b.workloads {
		w.index = i
		b.Fleet.Workloads = append(b.Fleet.Workloads, b.makeWorkload(w, fmt.Sprintf("workloads[%d]", i)))
	}
	b.takeUsage()
	b.takeServing()
	b.today()
	b.cluster()
	b.unusedHints()
	b.checkKAI()
	b.checkHeld()
	b.check()
	b.leftOut()
	b.traps()
	b.unknowns()
	slices.SortFunc(b.findings, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(y.Severity, x.Severity), cmp.Compare(x.Code, y.Code), cmp.Compare(x.Object, y.Object),
			cmp.Compare(x.Message, y.Message), cmp.Compare(x.Source, y.Source))
	})
	b.Findings = slices.Compact(b.findings)
	return b.Discovery
}
