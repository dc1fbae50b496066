package discover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
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
		b.price("", &pool)
		delete(b.Provenance, ".node_price_per_hour")
		delete(b.Provenance, ".price_per_gpu_hour")
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
			held, alone := map[string]bool{}, 0
			for _, w := range b.whoOn(n) {
				for _, k := range w.pods {
					switch at := k.ask; {
					case k.node != n.name || !k.running:
					case at.resource == "ResourceClaim":
						for _, key := range k.claims {
							if c := b.c.claims[key]; c != nil {
								for _, a := range c.allocated {
									d := b.device(a)
									held[cmp.Or(parentOf(d), a.device)] = true
								}
							}
						}
					case at.group != "":
						held[at.group] = true
					default:
						alone += at.gpus
					}
				}
			}
			all += n.gpus
			if left := n.gpus - len(held) - alone; left > 0 {
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

// parentOf names the GPU of a device, "" of one that is not known.
func parentOf(d *device) string {
	if d == nil {
		return ""
	}
	return cmp.Or(d.parent, d.uuid)
}

// monthly writes what GPUs of a pool cost in a month, "" without a price.
func monthly(p *decision.Pool, gpus int) string {
	price, ok := decision.GPUPrice(p)
	if !ok {
		return ""
	}
	m, err := price.Mul(int64(gpus) * cost.HoursPerMonth)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(": %s a month", m.Round(2))
}
