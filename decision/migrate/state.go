// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/layout"
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
	kept      map[string]bool // nodes that are in use today and can't be drained
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

// running counts the replicas of a workload.
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

// namespace is that of a workload's name, empty without one.
func namespace(workload string) string { return workload[:max(0, strings.IndexByte(workload, '/'))] }

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
