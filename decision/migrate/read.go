// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

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
		budgets: map[string]fleet.Budget{}, pools: map[string]*score.CompiledPool{}, priced: true,
		stays: map[string]string{}, held: map[string]bool{}, objects: map[string]fleet.NodeObject{}}
	for _, o := range f.Today.Objects {
		c.objects[o.Name] = o
	}
	var compiled []*score.CompiledPool
	for i := range f.Pools {
		cp, err := score.CompilePool(&f.Pools[i])
		if err != nil {
			return nil, err
		}
		compiled = append(compiled, cp)
		c.pools[cp.Pool.Name], c.priced = cp, c.priced && cp.Priced
		c.currency = cmp.Or(c.currency, cp.Price.Currency())
	}
	c.prices = score.Prices(compiled)
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
	if c.evaluator, err = decision.NewEvaluator(ctx, f, opts); err == nil {
		c.before, err = c.evaluator.Nodes(c.layout.Nodes())
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
			if w := c.of[a.Workload.Name]; a.Device < 0 || n.Devices[a.Device].Free().Faulty || w.Today == nil ||
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

// bound lets a workload that lacks the figures for other sharing move to devices of its present kind, and reports
// whether it has such: GPUs or MIG instances of its own. why names the missing figures.
func (c *cluster) bound(w, why string) bool {
	_, one := c.home(w)
	if m := c.kind(w).mode; !one || m != sharing.MechanismExclusive && m != sharing.MechanismMIG {
		return false
	}
	c.bounds[w] = why + "; it may only move to a device of the same kind"
	return true
}

// residual is the fleet of workloads that may move, with the GPUs that they may have. asking names the arriving ones
// that request MIG instances by profile: their pods start on no other devices.
func (c *cluster) residual(fixed map[string]bool) (f *decision.Fleet, asking []string) {
	f = &decision.Fleet{Version: c.fleet.Version, Trust: c.fleet.Trust}
	gpus, held, kept := map[string]int{}, map[string]int{}, map[string]float64{}
	for n := range c.layout.Nodes() {
		if onCards(n) {
			continue
		}
		if !fixed[n.Name] {
			gpus[n.Pool] += len(n.Devices)
			for i := range n.Assignments {
				if a := &n.Assignments[i]; c.bounds[a.Workload.Name] != "" {
					kept[n.Pool] += gpusOf(a)
				}
			}
			continue
		}
		for _, a := range firsts(n) {
			if w := a.Workload.Name; c.stays[w] == "" && c.bounds[w] == "" {
				held[n.Pool] += each(c.of[w])
			}
		}
		if n.Closed == "" {
			held[n.Pool] += unused(n)
		}
	}
	for pool := range kept {
		gpus[pool] = max(0, gpus[pool]-int(math.Ceil(kept[pool])))
	}
	for _, p := range c.fleet.Pools {
		if gpus[p.Name]+held[p.Name] == 0 {
			continue
		}
		p.Count, p.Layouts = min(p.Count, gpus[p.Name]+held[p.Name]), nil
		sunk := held[p.Name] // on nodes that stay
		if r := p.Reserved; r != nil {
			sunk = max(sunk, cmp.Or(r.Count, p.Count))
		}
		if p.Reserved, sunk = nil, min(sunk, p.Count); sunk > 0 {
			price := c.pools[p.Name].Price
			if none, err := cost.FromMicros(0, c.currency); price.Currency() == "" && err == nil {
				price = none // that of other pools
			}
			p.Reserved = &fleet.Pricing{Count: sunk, PricePerGPUHour: price}
		}
		if s := p.Spot; s != nil {
			p.Spot = &fleet.Pricing{Count: min(s.Count, p.Count), PricePerGPUHour: s.PricePerGPUHour}
		}
		p.Mechanisms = slices.DeleteFunc(slices.Clone(planned), func(m sharing.Mechanism) bool {
			// A node that stays has only free devices that are not shared.
			shares := m == sharing.MechanismTimeSlicing || m == sharing.MechanismMPS
			return len(p.Mechanisms) > 0 && !slices.Contains(p.Mechanisms, m) || gpus[p.Name] == 0 && shares
		})
		gpus[p.Name] += held[p.Name]
		f.Pools = append(f.Pools, p)
	}
	for _, w := range c.fleet.Workloads {
		if c.stays[w.Name] != "" || c.bounds[w.Name] != "" {
			continue
		}
		if w.Pool != "" && gpus[w.Pool] == 0 {
			c.stays[w.Name] = "its pool has no node that may change"
			continue
		}
		if w.Today != nil {
			w = c.today(w)
		} else if w.Request != nil && w.Request.Profile != "" {
			asking = append(asking, w.Name)
			continue
		}
		f.Workloads = append(f.Workloads, w)
	}
	return f, asking
}

// today is a workload with as many replicas as it runs, whose figures are of the GPU that all of them run on.
func (c *cluster) today(w decision.Workload) decision.Workload {
	w.Replicas = decision.Replicas{Max: c.wants[w.Name]}
	if home, one := c.home(w.Name); one {
		gpu := c.pools[home].Pool.GPU
		w.SoloOn, w.BusyOn = cmp.Or(w.SoloOn, gpu), cmp.Or(w.BusyOn, gpu)
		if w.Job != nil {
			job := *w.Job
			job.On, w.Job = cmp.Or(job.On, gpu), &job
		}
	}
	return w
}

// gpusOf is the part of a GPU that an assignment holds.
func gpusOf(a *layout.Assignment) float64 {
	if a.Profile == nil {
		return 1
	}
	return float64(a.Profile.PlacementUnits) / float64(a.Profile.Model().Units)
}

// unused counts the GPUs of a node that are neither shared nor held, and those of its free MIG instances.
func unused(n *layout.Node) (gpus int) {
	free, all, partitioned := 0, 0, 0
	for i := range n.Devices {
		d := &n.Devices[i]
		if d.Mode == sharing.MechanismExclusive {
			gpus += int(d.Free().Slots)
		}
		if len(d.Instances) > 0 {
			partitioned++
			all += len(d.Instances)
			free += int(d.Free().Slots)
		}
	}
	if free > 0 {
		gpus += max(1, partitioned*free/all)
	}
	return gpus
}

// newKey is the key of a replica that does not run yet.
func newKey(workload string, number int) string { return workload + "-new-" + strconv.Itoa(number) }
