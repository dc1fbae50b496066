// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
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

// Place is a node with a number of replicas of a workload.
type Place struct {
	Node     string `json:"node"`
	Replicas int    `json:"replicas"`
}

// cluster is a fleet's state, and the limits of a change of it.
type cluster struct {
	fleet    *decision.Fleet
	bounds   map[string]string // of workloads that move to devices of their kind only, the reason
	opts     decision.Options
	layout   *layout.Cluster // as it runs
	judge    *decision.Evaluator
	tenants  map[string]*layout.Workload
	of       map[string]*decision.Workload
	runs     map[string]map[string][]string // keys of replicas, by workload and node
	wants    map[string]int                 // replicas, with those that wait for a device
	budgets  map[string]fleet.Budget
	pools    map[string]*decision.CompiledPool
	prices   layout.Prices
	priced   bool // every pool is
	currency string
	stays    map[string]string // reasons by workload
	held     map[string]bool   // whether that reason is other than missing figures
	objects  map[string]fleet.NodeObject
	kept     map[string]bool // nodes that are in use today and can't be drained
	before   map[string]sharing.Answer
}

// read reads a fleet's state, finds the workloads that can't be moved, and evaluates which objectives are met.
func read(ctx context.Context, f *decision.Fleet, opts decision.Options) (*cluster, error) {
	if f.Today == nil {
		return nil, fmt.Errorf("migrate: the fleet has no today: cotenant discover -out writes it")
	}
	if err := f.Validate(); err != nil {
		return nil, err
	}
	opts.Confidence, opts.Running = cmp.Or(opts.Confidence, decision.DefaultConfidence), true
	c := &cluster{bounds: map[string]string{}, fleet: f, opts: opts, of: map[string]*decision.Workload{},
		tenants: f.Tenants(), wants: map[string]int{},
		budgets: map[string]fleet.Budget{}, pools: map[string]*decision.CompiledPool{}, priced: true,
		stays: map[string]string{}, held: map[string]bool{}, objects: map[string]fleet.NodeObject{},
		kept: map[string]bool{}}
	for _, o := range f.Today.Objects {
		c.objects[o.Name] = o
	}
	var compiled []*decision.CompiledPool
	for i := range f.Pools {
		cp, err := decision.CompilePool(&f.Pools[i])
		if err != nil {
			return nil, err
		}
		compiled = append(compiled, cp)
		c.pools[cp.Pool.Name], c.priced = cp, c.priced && cp.Priced
		c.currency = cmp.Or(c.currency, cp.Price.Currency())
	}
	c.prices = decision.Prices(compiled)
	if !c.priced { // GPUs are counted
		one, _ := cost.FromMicros(1e6, cmp.Or(c.currency, "USD"))
		for p := range c.prices {
			c.prices[p] = layout.Price{PerGPU: one}
		}
	}
	for i := range f.Workloads {
		c.of[f.Workloads[i].Name] = &f.Workloads[i]
	}
	c.observe()
	for n := range c.layout.Nodes() {
		c.kept[n.Name] = c.objects[n.Name].Keeps != "" && n.Used()
	}
	for name, w := range c.of {
		c.wants[name] = max(c.running(name), leastReplicas(w))
	}
	for _, b := range f.Today.Budgets {
		if had, ok := c.budgets[b.Workload]; !ok || b.Allowed < had.Allowed {
			c.budgets[b.Workload] = b
		}
	}
	c.hold()
	var err error
	if c.judge, err = decision.NewEvaluator(ctx, f, opts); err == nil {
		c.before, err = c.judge.Nodes(c.layout.Nodes())
	}
	c.holdDomains()
	return c, err
}

// observe lays out the cluster as it runs. Which nodes of a pool are spot is not known: those with the fewest replicas,
// so that no more is saved by freeing them.
func (c *cluster) observe() {
	c.layout, _ = c.fleet.Layout() // nodes with contradictions stay as they are
	byPool := map[string][]*layout.Node{}
	for n := range c.layout.Nodes() {
		byPool[n.Pool] = append(byPool[n.Pool], n)
	}
	for pool, nodes := range byPool {
		cp, spot, marked := c.pools[pool], 0, 0
		if s := cp.Pool.Spot; s != nil && c.priced {
			spot = min(s.Count, cp.Spot.Count)
		}
		slices.SortStableFunc(nodes, func(a, b *layout.Node) int { return len(a.Assignments) - len(b.Assignments) })
		for _, n := range nodes {
			next := *n
			if next.Spot = marked < spot; next.Spot {
				marked += len(n.Devices)
			}
			switch n.Delivery {
			case sharing.DeliveryBare, sharing.DeliveryGPUOperator, sharing.DeliveryDevicePlugin:
			default:
				if onCards(n) {
					c.book(&next)
					break
				}
				next.Closed = cmp.Or(n.Closed, fmt.Sprintf("a node of %v, for which no steps are planned: a decision "+
					"for the fleet without its today writes its pods", n.Delivery))
			}
			if next.Spot != n.Spot || next.Closed != n.Closed || onCards(n) {
				c.layout, _ = c.layout.WithNode(next)
			}
		}
		if p := c.prices[pool]; marked > spot { // the last node is spot in part
			mixed := (p.SpotPerGPU.Micros()*int64(spot) + p.PerGPU.Micros()*int64(marked-spot)) / int64(marked)
			if both, err := cost.FromMicros(mixed, p.PerGPU.Currency()); err == nil {
				p.SpotPerGPU = both
				c.prices[pool] = p
			}
		}
	}
	c.runs = replicas(c.layout)
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

// hold notes the workloads that stay whatever may be found.
func (c *cluster) hold() {
	for name, w := range c.of {
		if why := c.fixed(w); why != "" {
			c.stays[name] = why
		}
	}
	for n := range c.layout.Nodes() {
		why := ""
		if n.Closed != "" {
			why = n.Name + " is " + n.Closed
		}
		for i := range n.Assignments {
			a := &n.Assignments[i]
			if w := c.of[a.Workload.Name]; a.Device < 0 || n.Devices[a.Device].Faulty() || w.Today == nil ||
				n.Devices[a.Device].Mode != w.Today.Mechanism {
				why = cmp.Or(why, fmt.Sprintf("more runs on %s than it hands out as %s: another handed it out, or the files are "+
					"of two moments", n.Name, Shape(n)))
			}
		}
		for _, a := range firsts(n) {
			if w := a.Workload.Name; why != "" && c.stays[w] == "" {
				c.stays[w] = why
			}
		}
	}
	for w, why := range c.stays {
		c.held[w] = !strings.HasPrefix(why, notKnown)
	}
}

// fixed is the reason for which a workload can't be moved, or must not be before more is known; empty without one.
func (c *cluster) fixed(w *decision.Workload) string {
	t := w.Today
	switch {
	case t == nil:
		return ""
	case t.Stays != "":
		return t.Stays
	case !slices.Contains(planned, t.Mechanism) && t.Mechanism != sharing.MechanismHAMi:
		return fmt.Sprintf("it shares by %v, for which no steps are planned", t.Mechanism)
	case t.Object == "Job" || t.Object == "CronJob":
		return fmt.Sprintf("a %s's pods run to their end where they are", t.Object)
	case t.Object == "Pod":
		return "nothing starts a bare Pod again"
	case t.Object != "" && t.Object != "Deployment" && t.Object != "StatefulSet":
		return fmt.Sprintf("its pods are made by its %s, whose own template has to be changed", t.Object)
	case t.Mechanism == sharing.MechanismHAMi && t.Object == "StatefulSet":
		return "a StatefulSet stops a replica before it starts the next, and HAMi may have given its place to another"
	case t.Object == "StatefulSet" && 0 < c.running(w.Name) && c.running(w.Name) < leastReplicas(w):
		return "a replica of it waits, and its controller replaces no other before that one runs"
	case t.Object == "StatefulSet" && c.budgets[w.Name].Allowed < 1:
		return "a StatefulSet stops a replica before it starts the next, and no PodDisruptionBudget was given that lets " +
			"one be missing"
	}
	if t.Mechanism == sharing.MechanismHAMi {
		c.bounds[w.Name], c.held[w.Name] = "it may only move to other cards, with what its pods request of HAMi", true
		return ""
	}
	if keys := NotKnown(w); len(keys) > 0 {
		if why := notKnown + strings.Join(keys, ", "); !c.bound(w.Name, why) {
			return why
		}
	}
	return ""
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
