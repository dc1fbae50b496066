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
	for _, vendor := range slices.Sorted(maps.Keys(b.vendors)) {
		b.find("other-vendor", sharing.SeverityInfo, "cluster", "node resources and ResourceSlices",
			"%s with GPUs of %s, which are named and left: %s", plaintext.Count(len(b.vendors[vendor]), "node"), vendor,
			plaintext.Some(b.vendors[vendor], mostNames, len(b.vendors[vendor])))
	}
	apart := map[string][]*node{}
	for _, n := range b.nodes {
		if n.apart != "" && n.gpu != nil {
			in := "no pool"
			if p := b.poolOf[n]; p != nil {
				in = "pool " + p.name
			}
			key := n.apart + "\x00" + n.gpu.Name + "\x00" + n.instanceType + "\x00" + in
			apart[key] = append(apart[key], n)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(apart)) {
		nodes := apart[key]
		n, gpus, names := nodes[0], 0, []string{}
		for _, m := range nodes {
			gpus, names = gpus+m.gpus, append(names, m.name)
		}
		pool := decision.Pool{GPU: n.gpu.Name, InstanceType: n.instanceType, GPUsPerNode: decision.Some(n.gpus)}
		b.price(&pool)
		b.find("nodes-"+strings.ReplaceAll(n.apart, " ", "-"), sharing.SeverityMedium, "node "+names[0], "node status",
			"%s of %s on nodes that are %s (%s) are counted apart: they are in %s%s", plaintext.Count(gpus, "GPU"), n.gpu.Name,
			n.apart, plaintext.Some(names, mostNames, len(names)), key[strings.LastIndexByte(key, 0)+1:], monthly(&pool, gpus))
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
	taken, alone := map[string]bool{}, 0
	for gpu := range n.apartGPUs {
		taken[gpu] = true
	}
	for _, p := range n.pods {
		if len(p.held) == 0 { // a process on a machine
			alone += p.ask.gpus
		}
		for i := range p.held {
			if h := &p.held[i]; h.device != "" {
				taken[h.device] = true
			} else {
				alone += h.gpus
			}
		}
	}
	return max(0, n.gpus-len(taken)-alone)
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

// idleGPUs finds GPUs on which nothing ran and nothing was held.
func (b *build) idleGPUs(u *usage.Usage, kind string) {
	type idle struct {
		n       int
		longest time.Duration
	}
	by := map[*node]*idle{}
	for i := range u.Devices {
		s := &u.Devices[i]
		n := b.byName[s.Node]
		if n == nil || n.inMIG > 0 || s.Profile != "" || !s.Instance.IsZero() || s.Times.Known < time.Hour ||
			s.Times.Held > 0 || s.Times.Busy > 0 {
			continue
		}
		if by[n] == nil {
			by[n] = &idle{}
		}
		by[n].n++
		by[n].longest = max(by[n].longest, s.Times.Known)
	}
	for _, n := range b.nodes {
		if by[n] == nil {
			continue
		}
		money := ""
		if p := b.poolOf[n]; p != nil {
			money = monthly(&b.Fleet.Pools[p.index], by[n].n)
		}
		b.find("idle-gpus", sharing.SeverityMedium, "node "+n.name, kind,
			"%s of %d: nothing ran and nothing was held in %s%s", plaintext.Count(by[n].n, "idle GPU"), n.gpus,
			span(by[n].longest), money)
	}
}

// strayDevices finds samples of GPUs that are in no node.
func (b *build) strayDevices(u *usage.Usage, kind string) {
	if len(b.nodes) == 0 {
		return
	}
	stray, matched := map[string]bool{}, 0
	for i := range u.Devices {
		s := &u.Devices[i]
		switch n := b.byName[s.Node]; {
		case n == nil && s.Node != "" && b.byDevice[s.GPU] == nil:
			stray["node "+s.Node] = true
		case n != nil && len(n.uuids) > 0 && s.GPU != "" && !slices.Contains(n.uuids, s.GPU):
			stray["GPU "+s.GPU] = true
		default:
			matched++
		}
	}
	names := slices.Sorted(maps.Keys(stray))
	switch {
	case len(names) == 0:
	case matched == 0:
		b.find("gpu-in-no-node", sharing.SeverityMedium, names[0], kind,
			"none of the samples is of a node among the objects (%s in all): another cluster's, or the exporter names itself "+
				"and not its node", plaintext.Count(len(names), "name"))
	default:
		for _, name := range names[:min(len(names), maxTold)] {
			b.find("gpu-in-no-node", sharing.SeverityMedium, name, kind,
				"there are samples of it, and no such GPU among the objects")
		}
	}
}

// anotherTime bounds how far apart samples and objects may be without a finding: a cluster changes in a day or two.
const anotherTime = 48 * time.Hour

// checkSources finds samples that were refused, and sources whose times have nothing in common.
func (b *build) checkSources(u *usage.Usage) {
	reasons := map[string]int{}
	example := ""
	for _, list := range [][]usage.Stats{u.Tenants, u.Devices} {
		for i := range list {
			for f, v := range list[i].Figures {
				for r, n := range v.Refused {
					reasons[fmt.Sprintf("%v: %v", f, r)] += n
					if text := fmt.Sprintf("%v of %v", f, list[i].Key); n > 0 && (example == "" || text < example) {
						example = text
					}
				}
			}
		}
		if len(reasons) > 0 {
			break
		}
	}
	for i := range u.Sources {
		if s := &u.Sources[i]; s.Refused > 0 {
			b.find("samples-refused", sharing.SeverityMedium, "samples of "+example, s.Name,
				"%d of %d samples are refused (%s); the rest is used", s.Refused, s.Samples,
				strings.Join(slices.Sorted(maps.Keys(reasons)), ", "))
		}
	}
	timed := slices.DeleteFunc(slices.Clone(u.Sources), func(s usage.Source) bool { return s.From.IsZero() })
	if len(timed) == 0 {
		return
	}
	latest := slices.MaxFunc(timed, func(x, y usage.Source) int { return x.From.Compare(y.From) })
	earliest := slices.MinFunc(timed, func(x, y usage.Source) int { return x.To.Compare(y.To) })
	if at := b.c.at; !at.IsZero() {
		end := slices.MaxFunc(timed, func(x, y usage.Source) int { return x.To.Compare(y.To) }).To
		if off := at.Sub(end).Abs(); off > anotherTime {
			b.find("samples-of-another-time", sharing.SeverityMedium, latest.Name, "times of the objects",
				"the samples end on %s and the objects are of %s: they are %s apart", end.Format(time.DateOnly),
				at.Format(time.DateOnly), span(off))
		}
	}
	if latest.From.After(earliest.To.Add(time.Hour)) {
		b.find("clocks-disagree", sharing.SeverityMedium, earliest.Name, latest.Name,
			"its samples end %s before those of %s begin: other times, or clocks that disagree",
			span(latest.From.Sub(earliest.To)), latest.Name)
	}
}
