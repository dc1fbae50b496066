// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// Pods under HAMi move with the requests that they have: its scheduler places them by these, so that no pod gets less
// of a card than today. As their neighbours change, services move, or get others, only where they are known to keep
// their objectives.

// onCards reports whether HAMi hands out all GPUs of a node as shares by its own library.
func onCards(n *layout.Node) bool {
	return n.Delivery == sharing.DeliveryHAMi && !slices.ContainsFunc(n.Devices, func(d layout.Device) bool {
		return d.Mode != sharing.MechanismHAMi
	})
}

// book notes on such a node the memory and compute that HAMi's scheduler books for each pod. A node with a pod of which
// the memory is not known is left as it is.
func (c *cluster) book(n *layout.Node) {
	n.Assignments = slices.Clone(n.Assignments)
	for i := range n.Assignments {
		a := &n.Assignments[i]
		if a.Memory, a.Compute = booked(c.of[a.Workload.Name]); a.Memory == 0 {
			n.Closed = cmp.Or(n.Closed, "a node on which it is not known what HAMi gave "+a.Workload.Name)
		}
	}
}

// booked is the memory and the thousandths of compute that HAMi books on a card for a replica: the gpumem and gpucores
// of its pod. Memory 0 is not known, compute 0 has no limit.
func booked(w *decision.Workload) (memory sharing.Bytes, compute int16) {
	if w.Request != nil {
		compute = int16(10 * w.Request.Cores)
	}
	memory, _ = w.Memory.Get()
	return memory, compute
}

// cardRoom counts the replicas of a workload for which HAMi's scheduler finds room on a card. A twentieth of the memory
// is left out, as drivers report up to that much less than the GPU table has. All of a card's compute is booked only
// where nobody else is, and a card without compute left takes nobody.
func cardRoom(d *layout.Device, w *decision.Workload) int {
	free := d.Free()
	memory, compute := booked(w)
	room := free.Memory - d.GPU.Memory/20
	if memory == 0 || room < memory || free.Compute <= 0 || compute >= 1000 && free.Tenants > 0 {
		return 0
	}
	n := min(int(free.Slots), int(room/memory))
	if compute > 0 {
		n = min(n, int(free.Compute/int32(compute)))
	}
	return n
}

// domain is nodes of a pool on which tenants run that trust one another, directly or by a third one.
type domain struct {
	pool    string
	nodes   []*layout.Node
	tenants []*layout.Workload
}

// domains divides the used nodes of HAMi.
func (c *cluster) domains() (out []domain) {
	for n := range c.layout.Nodes() {
		if !onCards(n) || !n.Used() {
			continue
		}
		joined := domain{pool: n.Pool, nodes: []*layout.Node{n}}
		for _, a := range firsts(n) {
			joined.tenants = append(joined.tenants, a.Workload)
		}
		out = slices.DeleteFunc(out, func(d domain) bool {
			trusts := d.pool == n.Pool && slices.ContainsFunc(d.tenants, func(w *layout.Workload) bool {
				return slices.ContainsFunc(joined.tenants, w.Trust)
			})
			if trusts {
				joined.nodes = append(joined.nodes, d.nodes...)
				joined.tenants = append(joined.tenants, d.tenants...)
			}
			return trusts
		})
		out = append(out, joined)
	}
	return out
}

// nodesNeeded is the least number of nodes that have the memory and compute that HAMi books for a domain.
func (d *domain) nodesNeeded() int {
	var memory, most sharing.Bytes
	compute, cards := 0, 0
	for _, n := range d.nodes {
		var here sharing.Bytes
		for i := range n.Devices {
			here += n.Devices[i].GPU.Memory
		}
		most, cards = max(most, here), max(cards, len(n.Devices))
		for i := range n.Assignments {
			memory, compute = memory+n.Assignments[i].Memory, compute+int(n.Assignments[i].Compute)
		}
	}
	return max(int((memory+most-1)/max(1, most)), (compute+1000*cards-1)/(1000*cards))
}

// holdDomains notes the workloads under HAMi that stay: those of domains that could do with no fewer nodes whatever
// were measured, and else those on nodes with a service that is not known to meet its objectives there.
func (c *cluster) holdDomains() {
	for _, d := range c.domains() {
		needed := d.nodesNeeded() >= len(d.nodes)
		for _, n := range d.nodes {
			why := ""
			if needed {
				why = fmt.Sprintf("its tenant and those that trust it need all of their %s, by what pods request of HAMi",
					plaintext.Count(len(d.nodes), "node"))
			}
			for _, w := range sortedKeys(n.Replicas()) {
				if !needed && guarded(c.of[w]) && c.before[w] != sharing.AnswerYes {
					why = cmp.Or(why, notKnown+strings.Join(append(NotKnown(c.of[w]), "whether "+w+
						" meets its objectives with its neighbours"), ", "))
				}
			}
			for w := range n.Replicas() {
				if why != "" && (needed || c.stays[w] == "") {
					c.stays[w], c.held[w] = why, needed
				}
			}
			if why != "" && n.Closed == "" {
				next := *n
				next.Closed = why
				c.layout, _ = c.layout.WithNode(next)
			}
		}
	}
}
