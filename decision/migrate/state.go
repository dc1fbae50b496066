// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// kind is the kind of device that a workload's replicas hold.
type kind struct {
	mode    sharing.Mechanism
	profile string // of a MIG instance
}

func (k kind) String() string { return strings.TrimSpace(k.mode.String() + " " + k.profile) }

// resource names the extended resource of such a device, as pods ask the device plugin for it.
func (k kind) resource() string {
	if k.mode == sharing.MechanismMIG {
		return "nvidia.com/mig-" + k.profile
	}
	return "nvidia.com/gpu"
}

// cluster is a fleet's state, and the limits of a change of it.
type cluster struct {
	fleet     *decision.Fleet
	bounds    map[string]string // of workloads that move to devices of their kind only, the reason
	opts      decision.Options
	layout    *layout.Cluster // as it runs
	evaluator *decision.Evaluator
	tenants   map[string]*layout.Workload
	of        map[string]*decision.Workload
	runs      map[string]map[string][]string // keys of replicas, by workload and node
	wants     map[string]int                 // replicas, with those that wait for a device
	budgets   map[string]fleet.Budget
	pools     map[string]*score.CompiledPool
	prices    layout.Prices
	priced    bool // every pool is
	currency  string
	stays     map[string]string // reasons by workload
	held      map[string]bool   // whether that reason is other than missing figures
	objects   map[string]fleet.NodeObject
	before    map[string]sharing.Answer
}

// replicas lists the keys of replicas by workload and node.
func replicas(l *layout.Cluster) map[string]map[string][]string {
	out := map[string]map[string][]string{}
	for n := range l.Nodes() {
		for key, a := range firsts(n) {
			w := a.Workload.Name
			if out[w] == nil {
				out[w] = map[string][]string{}
			}
			out[w][n.Name] = append(out[w][n.Name], key)
		}
	}
	return out
}

// firsts visits each replica on a node with the first of its assignments.
func firsts(n *layout.Node) iter.Seq2[string, *layout.Assignment] {
	return func(yield func(string, *layout.Assignment) bool) {
		seen := map[string]bool{}
		for i := range n.Assignments {
			a := &n.Assignments[i]
			if !seen[a.Key] && !yield(a.Key, a) {
				return
			}
			seen[a.Key] = true
		}
	}
}

func (c *cluster) running(w string) (n int) {
	for _, keys := range c.runs[w] {
		n += len(keys)
	}
	return n
}

// kind is that of a workload's devices today.
func (c *cluster) kind(w string) kind {
	if t := c.of[w].Today; t != nil {
		return kind{t.Mechanism, t.Profile}
	}
	return kind{}
}

// each is the number of devices of one replica.
func each(w *decision.Workload) int { return max(1, w.GPUs) }

// leastReplicas returns the least number of replicas that a workload is to have; of one that comes, the most.
func leastReplicas(w *decision.Workload) int {
	if w.Today == nil {
		return max(1, w.Replicas.Max)
	}
	return max(1, cmp.Or(w.Replicas.Min, w.Replicas.Max))
}

// The keys of the figures that a workload must have before it may share a GPU in a new way.
const (
	keyMemory = "memory"
	keyBusy   = "gpu_busy"
	KeySLO    = "slo"
)

// NotKnown lists the keys of the required figures that a running workload lacks.
func NotKnown(w *decision.Workload) (keys []string) {
	if w.MemoryNeed().Unknown {
		keys = append(keys, keyMemory)
	}
	if w.GPUBusy.IsZero() && w.Load == nil && w.Profile == nil {
		keys = append(keys, keyBusy)
	}
	if w.Kind == decision.KindOnlineInference && w.SLO == (profile.SLO{}) {
		keys = append(keys, KeySLO)
	}
	return keys
}

// guarded reports whether a workload has objectives, stated or not.
func guarded(w *decision.Workload) bool {
	return w.SLO != (profile.SLO{}) || w.Kind == decision.KindOnlineInference
}

// notKnown begins the reason for which a workload on a shared GPU stays until more is known of it.
const notKnown = "not known: "

// planned are the mechanisms that the device plugin hands out by a node's configuration.
var planned = []sharing.Mechanism{
	sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG,
}

// fixedNodes are the nodes that stay as they are: those of workloads that stay, and closed ones.
func (c *cluster) fixedNodes() map[string]bool {
	out := map[string]bool{}
	for n := range c.layout.Nodes() {
		out[n.Name] = n.Closed != "" || c.objects[n.Name].Keeps != ""
		for _, a := range firsts(n) {
			out[n.Name] = out[n.Name] || c.stays[a.Workload.Name] != ""
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// home is the pool that a workload runs in, and whether that is one.
func (c *cluster) home(w string) (pool string, one bool) {
	for node := range c.runs[w] {
		p := c.layout.Node(node).Pool
		if pool != "" && pool != p {
			return pool, false
		}
		pool = p
	}
	return pool, pool != ""
}

// moved are the workloads that have other devices in a layout than today.
func (c *cluster) moved(l *layout.Cluster) map[string]bool {
	moved := map[string]bool{}
	for today := range c.layout.Nodes() {
		n := l.Node(today.Name)
		if n == today {
			continue
		}
		for key, a := range firsts(today) {
			if w := a.Workload.Name; !moved[w] && !slices.Equal(n.Replica(key), today.Replica(key)) {
				moved[w] = true
			}
		}
	}
	return moved
}

// configures reports whether two states of a node hand out its GPUs in different ways.
func configures(a, b *layout.Node) bool {
	return !slices.EqualFunc(a.Devices, b.Devices, func(x, y layout.Device) bool {
		return x.Mode == y.Mode && x.Slots == y.Slots && slices.Equal(x.Instances, y.Instances)
	})
}

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
