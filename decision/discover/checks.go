// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover/internal/usage"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// leftOut finds GPUs that are no part of the fleet, and those of it that no pod holds.
func (b *build) leftOut() {
	for _, n := range b.nodes {
		if n.apart == "" || n.gpu == nil {
			continue
		}
		in := "no pool"
		pool := decision.Pool{GPU: n.gpu.Name, InstanceType: n.instanceType, GPUsPerNode: decision.Some(n.gpus)}
		if p := b.poolOf[n]; p != nil {
			in = "pool " + p.name
		}
		b.price(&pool)
		b.find("nodes-"+strings.ReplaceAll(n.apart, " ", "-"), sharing.SeverityMedium, "node "+n.name, "node status",
			"is %s: its %s of %s are counted apart, in %s%s", n.apart, plaintext.Count(n.gpus, "GPU"), n.gpu.Name, in,
			monthly(&pool, n.gpus))
	}
	b.unheld()
}

// unheld finds GPUs that no pod holds, at the least: where replicas of a GPU are handed out, pods may sit on one.
func (b *build) unheld() {
	if len(b.c.users) == 0 {
		return
	}
	for _, p := range b.pools {
		var names []string
		free, all := 0, 0
		for _, n := range p.nodes {
			all += n.gpus
			if left := n.free(); left > 0 {
				free, names = free+left, append(names, fmt.Sprintf("%s (%d)", n.name, left))
			}
		}
		if free > 0 {
			b.find("gpus-not-held", sharing.SeverityMedium, "pool "+p.name, "pods and nodes",
				"at least %d of %s are held by no pod: %s%s", free, plaintext.Count(all, "GPU"),
				plaintext.Some(names, mostNames, len(names)), monthly(&b.Fleet.Pools[p.index], free))
		}
	}
}

// free returns the least number of a node's GPUs that no pod holds: a resource not understood may be any of them.
func (n *node) free() int {
	if len(n.opaque) > 0 {
		return 0
	}
	taken, unknown := map[string]bool{}, 0
	for gpu := range n.apartGPUs {
		taken[gpu] = true
	}
	for _, p := range n.pods {
		if len(p.held) == 0 { // a process on a machine
			unknown += p.ask.gpus
		}
		for i := range p.held {
			if h := &p.held[i]; h.device != "" {
				taken[h.device] = true
			} else {
				unknown += h.gpus
			}
		}
	}
	return max(0, n.gpus-len(taken)-unknown)
}

// monthly writes the cost of GPUs of a pool in a month, "" without a price.
func monthly(p *decision.Pool, gpus int) string {
	price, ok := p.Price()
	if !ok {
		return ""
	}
	m, err := price.Mul(int64(gpus) * cost.HoursPerMonth)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(": %s a month", m.Round(2))
}

// idleGPUs reports GPUs on which nothing ran and nothing was held for an hour or more.
func (b *build) idleGPUs(u *usage.Usage, kind string) {
	idle, longest := map[*node]int{}, map[*node]time.Duration{}
	for i := range u.Devices {
		s := &u.Devices[i]
		if n := b.byName[s.Node]; n != nil && n.inMIG == 0 && s.Profile == "" && s.Instance.IsZero() &&
			s.Times.Known >= time.Hour && s.Times.Used == 0 {
			idle[n]++
			longest[n] = max(longest[n], s.Times.Known)
		}
	}
	for n, gpus := range idle {
		money := ""
		if p := b.poolOf[n]; p != nil {
			money = monthly(&b.Fleet.Pools[p.index], gpus)
		}
		b.find("idle-gpus", sharing.SeverityMedium, "node "+n.name, kind,
			"%s of %d: nothing ran and nothing was held in %s%s", plaintext.Count(gpus, "idle GPU"), n.gpus, span(longest[n]),
			money)
	}
}

// strayDevices finds samples of GPUs that are in no node.
func (b *build) strayDevices(u *usage.Usage, kind string) {
	if len(b.nodes) == 0 {
		return
	}
	stray := map[string]bool{}
	for i := range u.Devices {
		s := &u.Devices[i]
		switch n := b.byName[s.Node]; {
		case n == nil && s.Node != "" && b.byDevice[s.GPU] == nil:
			stray["node "+s.Node] = true
		case n != nil && len(n.uuids) > 0 && s.GPU != "" && !slices.Contains(n.uuids, s.GPU):
			stray["GPU "+s.GPU] = true
		}
	}
	if names := slices.Sorted(maps.Keys(stray)); len(names) > 0 {
		b.find("gpu-in-no-node", sharing.SeverityMedium, names[0], kind,
			"there are samples of %s that are not among the objects: another cluster's, or the exporter names itself and not "+
				"its node", plaintext.Some(names, mostNames, len(names)))
	}
}

// anotherTime bounds how far apart samples and objects may be without a finding: a cluster changes in a day or two.
const anotherTime = 48 * time.Hour

// checkSources finds samples that were refused, and samples of another time than the objects.
func (b *build) checkSources(u *usage.Usage) {
	var end time.Time
	for i := range u.Sources {
		s := &u.Sources[i]
		if s.Refused > 0 {
			b.find("samples-refused", sharing.SeverityMedium, "samples of "+s.Name, s.Name,
				"%d of %d samples are refused: negative, too large, no number, or not after the sample before; the rest is used",
				s.Refused, s.Samples)
		}
		if s.To.After(end) {
			end = s.To
		}
	}
	if off := b.c.at.Sub(end).Abs(); !b.c.at.IsZero() && !end.IsZero() && off > anotherTime {
		b.find("samples-of-another-time", sharing.SeverityMedium, "samples", "times of the objects",
			"the samples end on %s and the objects are of %s: they are %s apart", end.Format(time.DateOnly),
			b.c.at.Format(time.DateOnly), span(off))
	}
}
