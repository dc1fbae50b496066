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
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// leave is the plan in which all stays as it is.
func (c *cluster) leave(why string) *Plan {
	p := &Plan{Steps: []Step{}, Rows: []Row{}, Answers: []Answer{}, Why: why, Fleet: c.fleet}
	for _, w := range slices.Sorted(maps.Keys(c.before)) {
		p.Answers = append(p.Answers, Answer{w, c.before[w], c.before[w]})
	}
	c.settle(p, nil, nil, nil)
	return p
}

// settle fills in the reasons of what stays, and the money.
func (c *cluster) settle(p *Plan, loads []*load, seats map[string]seat, moved map[string]bool) {
	for _, w := range slices.Sorted(maps.Keys(c.stays)) {
		i := slices.IndexFunc(p.Stays, func(s Stay) bool { return s.Why == c.stays[w] })
		if i < 0 {
			i = len(p.Stays)
			p.Stays = append(p.Stays, Stay{Why: c.stays[w]})
		}
		if p.Stays[i].Count++; len(p.Stays[i].Workloads) < mostNamed {
			p.Stays[i].Workloads = append(p.Stays[i].Workloads, w)
		}
	}
	p.Answers = slices.DeleteFunc(p.Answers, func(a Answer) bool {
		return a.Today == sharing.AnswerUnknown && a.After == sharing.AnswerUnknown
	})
	b := &p.Bill
	b.NodesToday, b.NodesAfter = len(c.nodes), len(c.nodes)
	all, used, change := map[string]int{}, map[string]int{}, map[string]int{} // GPUs by pool
	for _, n := range c.nodes {
		all[n.Pool] += n.GPUs
		if len(n.run) > 0 {
			used[n.Pool] += n.GPUs
		}
		for w, k := range n.run {
			if moved[w] {
				device := c.device(n, ShapeOf(n.Node), c.want(w, c.today[w])) * int64(k)
				b.uncertain += int64((1-c.opts.Confidence)*float64(device)*cost.HoursPerMonth) + device*moveHours
			}
		}
	}
	var come, today int64
	for _, l := range loads {
		switch before, then := len(l.node.run) > 0, len(l.run) > 0; {
		case before && !then:
			b.NodesAfter, b.GPUsFreed = b.NodesAfter-1, b.GPUsFreed+l.node.GPUs
			change[l.node.Pool] -= l.node.GPUs
		case then && !before: // what stands empty today could be given back today
			change[l.node.Pool] += l.node.GPUs
		}
		for w, k := range l.run {
			if c.of[w].Today == nil {
				come += c.device(l.node, l.shape, c.want(w, seats[w])) * int64(k) * cost.HoursPerMonth
			}
		}
	}
	for p, n := range all {
		today += c.month(p, n)
		b.saved += c.month(p, used[p]) - c.month(p, used[p]+change[p])
	}
	if !c.priced {
		return
	}
	b.Currency = c.currency
	text := func(micros int64) string {
		m, err := cost.FromMicros(micros, b.Currency)
		if err != nil {
			return ""
		}
		return m.Round(2).Decimal()
	}
	b.MonthlyToday, b.MonthlyAfter = text(today), text(today-b.saved)
	b.MonthlySaved, b.Uncertain = text(b.saved), text(b.uncertain)
	if come > 0 {
		b.Comes = text(come)
	}
}

// month prices a pool of which n GPUs are on nodes in use, in micro-units a month. Those that are not count as spot
// first, as far as there are any: which nodes are is not known, and no less is saved.
func (c *cluster) month(pool string, n int) int64 {
	p := c.pools[pool]
	paid := p.Paid(n, 0)
	if s := p.Pool.Spot; s != nil {
		firm := p.Pool.Count - paid.Reserved - min(s.Count, p.Spot.Count)
		paid.Spot = max(0, paid.OnDemand-firm)
	}
	return (c.micros[pool]*int64(paid.OnDemand-paid.Spot) + p.Spot.PricePerGPUHour.Micros()*int64(paid.Spot) +
		p.Reserved.PricePerGPUHour.Micros()*int64(paid.Reserved)) * cost.HoursPerMonth
}

// device prices the devices of one replica, in micro-units an hour: their part of their GPUs.
func (c *cluster) device(n *node, s Shape, w *want) int64 {
	gpus, devices := s.whole, s.seats(w.seat)
	if w.seat.mechanism == sharing.MechanismMIG {
		gpus, devices = n.GPUs-s.whole, replicas(s.Instances)
	}
	return c.micros[n.Pool] * int64(w.each) * int64(gpus) / int64(max(1, devices))
}

// weigh makes the plan of an order of steps where that is worth it.
func (c *cluster) weigh(o *order, loads []*load, seats map[string]seat, after map[string]sharing.Answer,
	r *decision.Result) *Plan {
	p := &Plan{Steps: o.steps, Rows: []Row{}, Fleet: c.fleet}
	var come []string
	for _, w := range slices.Sorted(maps.Keys(after)) {
		p.Answers = append(p.Answers, Answer{w, c.before[w], after[w]})
		n := 0
		for _, l := range loads {
			n += l.run[w]
		}
		if n > c.running[w] {
			come = append(come, w)
		} else if c.before[w] == sharing.AnswerNo && after[w] != sharing.AnswerNo {
			p.Mends = append(p.Mends, w)
		}
	}
	c.settle(p, loads, seats, o.moved)
	if len(p.Steps) == 0 {
		return c.leave("what runs today is the best that was found")
	}
	if len(p.Mends) == 0 && len(come) == 0 && p.Bill.saved <= p.Bill.uncertain {
		return c.leave("the best change that was found saves no more than is uncertain about it")
	}
	var why []string
	if p.Bill.GPUsFreed > 0 {
		freed := plaintext.Count(p.Bill.NodesToday-p.Bill.NodesAfter, "node")
		why = append(why, fmt.Sprintf("it empties %s of %d", freed, len(c.nodes)))
	}
	if len(p.Mends) > 0 {
		why = append(why, "it mends "+strings.Join(p.Mends, ", "))
	}
	if len(come) > 0 {
		why = append(why, "it gives a place to "+strings.Join(come, ", "))
	}
	p.Why = strings.Join(why, ", and ")
	c.rows(p, loads, seats, after)
	p.Result = c.changed(loads, seats, r)
	return p
}

// rows lists what changes by node and workload.
func (c *cluster) rows(p *Plan, loads []*load, seats map[string]seat, after map[string]sharing.Answer) {
	slices.SortFunc(loads, func(x, y *load) int { return cmp.Compare(x.node.Name, y.node.Name) })
	text := func(n int, s seat) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprintf("%d x %v", n, s)
	}
	for _, l := range loads {
		all := maps.Clone(l.node.run)
		maps.Copy(all, l.run)
		for _, w := range slices.Sorted(maps.Keys(all)) {
			row := Row{l.node.Name, w, text(l.node.run[w], c.today[w]), text(l.run[w], seats[w]), ""}
			if row.Today == row.After {
				continue
			}
			switch after[w] {
			case sharing.AnswerYes:
				row.Risk = fmt.Sprintf("keeps its objectives at %.0f%% confidence", 100*c.opts.Confidence)
			case sharing.AnswerNo:
				row.Risk = "misses an objective, as today"
			default:
				row.Risk = "whether it keeps its objectives is not known"
			}
			p.Rows = append(p.Rows, row)
		}
	}
}

// namespace is that of a workload's name, empty without one.
func namespace(workload string) string { return workload[:max(0, strings.IndexByte(workload, '/'))] }

// changed is the part of a decision that needs documents: the nodes that get another shape, whole, and the workloads
// whose pods go to them or ask for another device.
func (c *cluster) changed(loads []*load, seats map[string]seat, r *decision.Result) *decision.Result {
	out := *r
	out.Decisions, out.Pools = nil, nil
	on := map[string]*load{} // a new node of the workload
	var nodes []layout.Node
	for _, l := range loads {
		for w := range l.run {
			if l.fresh || on[w] == nil && (seats[w] != c.today[w] || c.of[w].Today == nil) {
				on[w] = l
			}
		}
		if l.fresh {
			nodes = append(nodes, l.planned(c.pools[l.node.Pool].Pool.GPU))
		}
	}
	for _, w := range slices.Sorted(maps.Keys(on)) {
		d := *cmp.Or(r.Decision(w), &decision.Decision{Workload: w, GPUs: max(1, c.of[w].GPUs)})
		d.Pool, d.Mechanism, d.Profile = on[w].node.Pool, seats[w].mechanism, seats[w].profile
		out.Decisions = append(out.Decisions, d)
	}
	out.Layout, _ = layout.Observe(nodes)
	return &out
}

// planned is a node with its new shape and those who come to it, on whichever of its GPUs.
func (l *load) planned(gpu string) layout.Node {
	n := layout.Node{Name: l.node.Name, Pool: l.node.Pool, Delivery: sharing.DeliveryGPUOperator,
		Devices: make([]layout.Device, l.node.GPUs)}
	kind, rules := layout.GPUOf(gpu), layout.RulesOf(n.Delivery)
	for i := range n.Devices {
		d := &n.Devices[i]
		d.GPU = kind
		if i >= len(l.shape.Layouts) {
			m := l.shape.Mechanism
			if m == sharing.MechanismNone || l.shape.Replicas < 2 {
				m = sharing.MechanismExclusive
			}
			rules.Configure(d, m, int32(l.shape.Replicas))
			continue
		}
		rules.Configure(d, sharing.MechanismMIG, 0)
		var counts []mig.Count
		for _, p := range slices.Sorted(maps.Keys(l.shape.Layouts[i])) {
			counts = append(counts, mig.Count{Profile: p, N: l.shape.Layouts[i][p]})
		}
		if kind.MIG == nil {
			continue
		}
		made, _ := kind.MIG.Place(counts, mig.Layout{Model: kind.MIG}) // such as the catalogue has
		for _, in := range made.Instances {
			d.Instances = append(d.Instances, layout.Instance{Profile: in.Profile, Start: int8(in.Start)})
		}
	}
	for _, w := range slices.Sorted(maps.Keys(l.run)) {
		n.Assignments = append(n.Assignments, layout.Assignment{Key: w + "@" + n.Name, Workload: &layout.Workload{Name: w},
			Device: layout.NoDevice})
	}
	return n
}
