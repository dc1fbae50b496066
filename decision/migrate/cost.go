// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

const hoursPerMonth = cost.HoursPerMonth

// moveHours bounds the time for which a replica that moves holds two devices; an assumption.
const moveHours = 1

// perHour is the price of a layout in micro-units. What can't be drained is paid for.
func (c *cluster) perHour(l *layout.Cluster) int64 {
	return c.price(l, func(n string) bool { return c.objects[n].Keeps != "" && c.layout.Node(n).Used() })
}

// price is the price of a layout an hour in which some nodes are paid for whether they are used or not.
func (c *cluster) price(l *layout.Cluster, paid func(node string) bool) int64 {
	for n := range l.Nodes() {
		if !n.Used() && paid(n.Name) {
			next := *n
			next.Assignments = []layout.Assignment{{Key: "paid for: " + n.Name, Device: layout.UnknownDevice}}
			l, _ = l.WithNode(next)
		}
	}
	all, _ := l.Cost(c.prices) // one currency, as fleets are checked for it
	return all.PerHour.Micros()
}

// device prices the devices of a replica on a node, in micro-units an hour: their part of the node.
func (c *cluster) device(n *layout.Node, key string) (micros int64) {
	p := c.prices[n.Pool]
	gpu := cmp.Or(p.PerNode.Micros()/int64(len(n.Devices)), p.PerGPU.Micros())
	for _, a := range n.Replica(key) {
		if a.Profile != nil {
			micros += gpu * int64(a.Profile.PlacementUnits) / int64(a.Profile.Model().Units)
		} else {
			micros += gpu / int64(max(1, n.Devices[max(0, a.Device)].Slots))
		}
	}
	return micros
}

// uncertain is the part of a change's saving that may not come, in micro-units a month: moved workloads that have to go
// back, each with a probability of one less the confidence, and an hour of its devices twice for each move.
func (c *cluster) uncertain(moved map[string]bool, of []string) (micros int64) {
	for _, w := range of {
		if !moved[w] {
			continue
		}
		for node, keys := range c.runs[w] {
			for _, key := range keys {
				device := c.device(c.layout.Node(node), key)
				micros += int64((1-c.opts.Confidence)*float64(device)*hoursPerMonth) + device*moveHours
			}
		}
	}
	return micros
}

func (c *cluster) costs(to *layout.Cluster) Cost {
	b := Cost{NodesToday: c.layout.Count(), NodesAfter: to.Count(), uncertain: c.uncertain(c.moved(to), sortedKeys(c.of)),
		saved: (c.perHour(c.layout) - c.perHour(to)) * hoursPerMonth}
	var come int64
	for n := range to.Nodes() {
		if c.layout.Node(n.Name).Used() && !n.Used() && c.objects[n.Name].Keeps == "" {
			b.NodesAfter, b.GPUsFreed = b.NodesAfter-1, b.GPUsFreed+len(n.Devices)
		}
		for key, a := range firsts(n) {
			if c.of[a.Workload.Name].Today == nil {
				come += c.device(n, key) * hoursPerMonth
			}
		}
	}
	if !c.priced {
		return b
	}
	b.Currency = c.currency
	text := func(micros int64) string {
		m, err := cost.FromMicros(micros, b.Currency)
		if err != nil {
			return ""
		}
		return m.Round(2).Decimal()
	}
	today := c.price(c.layout, func(string) bool { return true }) * hoursPerMonth
	b.MonthlyToday, b.MonthlyAfter = text(today), text(today-b.saved)
	b.MonthlySaved, b.Uncertain = text(b.saved), text(b.uncertain)
	if come > 0 {
		b.Comes = text(come)
	}
	return b
}

func (c *cluster) leave(why string) *Plan {
	p := c.newPlan()
	p.Why, p.Cost, p.Stays = why, c.costs(c.layout), c.reasons(nil)
	p.answers(c.before, c.before)
	return p
}

func (c *cluster) newPlan() *Plan {
	return &Plan{Steps: []Step{}, Rows: []Row{}, Answers: []Answer{}, Fleet: c.fleet, Today: c.layout, After: c.layout,
		cluster: c}
}

// answers notes which workloads meet their objectives, where that is known.
func (p *Plan) answers(today, after map[string]sharing.Answer) {
	for _, w := range sortedKeys(after) {
		if today[w] != sharing.AnswerUnknown || after[w] != sharing.AnswerUnknown {
			p.Answers = append(p.Answers, Answer{w, today[w], after[w]})
		}
	}
}

func (c *cluster) reasons(moved []Row) (out []Stay) {
	all := maps.Clone(c.bounds)
	for _, r := range moved {
		delete(all, r.Workload)
	}
	maps.Copy(all, c.stays)
	for _, w := range sortedKeys(all) {
		i := slices.IndexFunc(out, func(s Stay) bool { return s.Why == all[w] })
		if i < 0 {
			i = len(out)
			out = append(out, Stay{Why: all[w]})
		}
		if out[i].Count++; len(out[i].Workloads) < mostNamed {
			out[i].Workloads = append(out[i].Workloads, w)
		}
	}
	return out
}

func (p *Plan) rows(c *cluster, kinds func(w string) kind, after map[string]sharing.Answer) {
	then := replicas(p.After)
	text := func(n int, k kind) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprintf("%d x %v", n, k)
	}
	for n := range p.After.Nodes() {
		both := n.Replicas()
		for w, k := range p.Today.Node(n.Name).Replicas() {
			both[w] = max(both[w], k)
		}
		for _, w := range sortedKeys(both) {
			row := Row{Node: n.Name, Workload: w, Today: text(len(c.runs[w][n.Name]), c.kind(w)),
				After: text(len(then[w][n.Name]), kinds(w))}
			if row.Today == row.After {
				continue
			}
			switch alike := c.alike(p.After, then[w], w, kinds(w)); {
			case !(alike && c.bounds[w] != "") && after[w] == sharing.AnswerYes:
				row.Risk = fmt.Sprintf("meets its objectives at %.0f%% confidence", 100*c.opts.Confidence)
			case alike:
				row.Risk = "the same kind of device as today"
			case after[w] == sharing.AnswerNo:
				row.Risk, row.risky = "misses an objective, as today", true
			default:
				row.Risk, row.risky = "whether it meets its objectives is not known", true
			}
			p.Rows = append(p.Rows, row)
		}
	}
	slices.SortStableFunc(p.Rows, func(a, b Row) int { return strings.Compare(a.Node, b.Node) })
}

// alike reports whether a workload's replicas have devices of their own, or without objectives the same part of a card,
// of one kind on one pool today and after.
func (c *cluster) alike(after *layout.Cluster, then map[string][]string, w string, k kind) bool {
	pools := map[string]bool{}
	for _, on := range []map[string][]string{c.runs[w], then} {
		for node := range on {
			pools[after.Node(node).Pool] = true
		}
	}
	whole := k.mode == sharing.MechanismExclusive || k.mode == sharing.MechanismMIG ||
		k.mode == sharing.MechanismHAMi && !guarded(c.of[w])
	return whole && k == c.kind(w) && len(pools) == 1 && c.running(w) > 0
}

// documented returns the part of a decision that needs documents: whole nodes that are configured, and the workloads
// with pods that move to them or request another device.
func (p *Plan) documented(c *cluster, kinds func(w string) kind, r *decision.Result) *decision.Result {
	out := *r
	out.Decisions, out.Pools, out.Traps = nil, nil, nil
	var nodes []layout.Node
	for i := range p.Steps {
		if s := &p.Steps[i]; s.Action == "configure" {
			n := *p.After.Node(s.Node)
			n.Delivery = sharing.DeliveryGPUOperator
			nodes = append(nodes, n)
		}
	}
	steps := slices.Clone(p.Steps)
	slices.SortStableFunc(steps, func(a, b Step) int { return strings.Compare(a.Workload, b.Workload) })
	for _, s := range steps {
		at := slices.IndexFunc(s.To, func(to Place) bool {
			return slices.ContainsFunc(nodes, func(n layout.Node) bool { return n.Name == to.Node })
		})
		if s.Action != "move" || at < 0 && !s.Request {
			continue
		}
		d := decision.Decision{Workload: s.Workload, Status: decision.StatusNone, GPUs: each(c.of[s.Workload])}
		if had := r.Decision(s.Workload); had != nil {
			d = *had
		}
		k := kinds(s.Workload)
		if d.Mechanism != k.mode {
			d.Accepts = nil // it gets free devices instead
		} else {
			for _, t := range r.Traps {
				if strings.HasPrefix(t.Message, s.Workload+": ") {
					out.Traps = append(out.Traps, t)
				}
			}
		}
		d.Places = nil
		d.Pool, d.Mechanism, d.Profile = p.After.Node(s.To[max(0, at)].Node).Pool, k.mode, k.profile
		out.Decisions = append(out.Decisions, d)
	}
	out.Layout, _ = layout.Observe(nodes)
	return &out
}
