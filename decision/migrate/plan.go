package migrate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Plan compares a change with leaving all as it is, and holds its steps. Without steps all stays as it is.
type Plan struct {
	Steps []Step `json:"steps"`
	Rows  []Row  `json:"changes"` // by node and workload
	Bill  Bill   `json:"bill"`
	// Mends are the workloads that miss an objective, or the GPU's memory, today and not after.
	Mends []string `json:"mends,omitempty"`
	// Answers say whether workloads keep their objectives, where that is known today or after.
	Answers []Answer `json:"answers"`
	Stays   []Stay   `json:"stays,omitempty"` // by reason
	Why     string   `json:"why"`
	Kept    bool     `json:"kept,omitempty"` // from an earlier plan; see Keep

	Fleet  *decision.Fleet  `json:"-"` // the fleet with its state
	Result *decision.Result `json:"-"` // the decision for what moves to new nodes or gets another request; nil without
}

// Changes reports whether anything is to change.
func (p *Plan) Changes() bool { return len(p.Steps) > 0 }

// Row says what changes for one workload on one node.
type Row struct {
	Node     string `json:"node"`
	Workload string `json:"workload"`
	Today    string `json:"today"` // "3 x exclusive"; empty where it comes new
	After    string `json:"after"` // empty where it leaves
	Risk     string `json:"risk"`
}

// Answer says whether a workload keeps its objectives today and after the change.
type Answer struct {
	Workload string         `json:"workload"`
	Today    sharing.Answer `json:"today"`
	After    sharing.Answer `json:"after"`
}

// Stay is a reason for which workloads were not free to move.
type Stay struct {
	Why       string   `json:"why"`
	Count     int      `json:"count"`
	Workloads []string `json:"workloads"` // the first of them, at most 20
}

// mostNamed bounds the workloads that are named of one reason.
const mostNamed = 20

// Bill is the money of a plan, by the month of 730 hours: exact decimals, absent where a pool has no price. Nodes are
// paid whole, and reserved GPUs in any case.
type Bill struct {
	NodesToday int `json:"nodes_today"` // with GPUs
	NodesAfter int `json:"nodes_after"` // those that the plan empties left out
	GPUsFreed  int `json:"gpus_freed"`
	// Uncertain is the part of MonthlySaved that may not come: moved workloads that have to go back, each with a
	// probability of one less the confidence, and an hour of its devices twice for each move.
	MonthlyToday string `json:"monthly_today,omitempty"`
	MonthlyAfter string `json:"monthly_after,omitempty"`
	MonthlySaved string `json:"monthly_saved,omitempty"`
	Uncertain    string `json:"monthly_uncertain,omitempty"`
	// Comes prices the devices of the workloads that come.
	Comes    string `json:"monthly_comes,omitempty"`
	Currency string `json:"currency,omitempty"`

	saved, uncertain int64 // micro-units a month; without prices a GPU counts as one unit an hour
}

// moveHours bounds the time for which a replica that moves holds two devices; an assumption.
const moveHours = 1

// attempts bounds how often a plan is made anew around what turned out not to move.
const attempts = 16

// cluster is a fleet's state as the planner reads it.
type cluster struct {
	fleet   *decision.Fleet
	opts    decision.Options
	nodes   []*node
	byName  map[string]*node
	of      map[string]*decision.Workload
	today   map[string]seat
	running map[string]int
	wants   map[string]int // replicas, with those that wait for a device
	budgets map[string]decision.Budget
	priced  bool             // every pool is
	micros  map[string]int64 // a GPU's price an hour by pool
	pools   map[string]*decision.CompiledPool
	models  map[string]*mig.Model // by pool; nil without MIG
	stays   map[string]string
	before  map[string]sharing.Answer

	currency string
}

// Make plans the fleet's change, or says why all stays as it is. Workloads without today come new and get places, those
// whose request names a MIG profile instances of it; those for which there is none stand in Stays with the reason, and
// [Plan.Waits] names them. opts are those of [decision.Decide]; the error is its, or that of a fleet without state.
func Make(ctx context.Context, f *decision.Fleet, opts decision.Options) (*Plan, error) {
	return plan(ctx, f, opts, nil)
}

// Admit gives the workloads without today, and replicas that wait, a place beside what runs, and changes that only
// where there is no other ([Plan.Disturbs]). Options and error are those of Make.
func Admit(ctx context.Context, f *decision.Fleet, opts decision.Options) (*Plan, error) {
	p, err := plan(ctx, f, opts, func(c *cluster) {
		for w, n := range c.running {
			if n == c.wants[w] && c.stays[w] == "" {
				c.stays[w] = "it runs, and the question is what comes"
			}
		}
	})
	if err != nil || p.Changes() && len(p.Waits()) == 0 {
		return p, err
	}
	more, err := Make(ctx, f, opts)
	if err == nil && p.Changes() && len(more.Waits()) >= len(p.Waits()) {
		return p, nil
	}
	return more, err
}

// Keep plans as Make does, and stays with the part of an earlier plan's steps that can still be taken unless the new
// plan mends more, or saves more by what is uncertain about it. So one of two plans that are as good is not given up
// for the other, and what is worth taking can be told from what comes and goes.
func Keep(ctx context.Context, f *decision.Fleet, steps []Step, opts decision.Options) (*Plan, error) {
	p, err := Make(ctx, f, opts)
	if err != nil || len(steps) == 0 || !p.Changes() {
		return p, err
	}
	c, err := read(ctx, f, opts)
	if err != nil {
		return nil, err
	}
	loads, seats := c.retake(steps)
	old, again, err := c.propose(ctx, loads, seats, p.Result)
	if err != nil || len(again) > 0 || !old.Changes() || len(p.Mends) > len(old.Mends) ||
		p.Bill.saved-old.Bill.saved > p.Bill.uncertain {
		return p, err
	}
	old.Kept = true
	return old, nil
}

// Waits names the workloads of which replicas have no device once the steps are taken.
func (p *Plan) Waits() (names []string) {
	for i := range p.Fleet.Workloads {
		w := &p.Fleet.Workloads[i]
		lacks := replicasOf(w)
		if w.Today != nil {
			lacks -= count(w.Today.On)
		}
		for _, s := range p.Steps {
			if s.Workload == w.Name {
				lacks += count(s.From) - count(s.To)
			}
		}
		if lacks > 0 {
			names = append(names, w.Name)
		}
	}
	return names
}

// Disturbs reports whether a step changes what runs, beside starting what comes.
func (p *Plan) Disturbs() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action != ActionMove || len(s.From) > 0 })
}

// plan makes a plan around what stays, of which hold may name more.
func plan(ctx context.Context, f *decision.Fleet, opts decision.Options, hold func(*cluster)) (*Plan, error) {
	f, _, err := decision.ResolveReplicas(ctx, f, opts)
	if err != nil {
		return nil, err
	}
	c, err := read(ctx, f, opts)
	if err != nil {
		return nil, err
	}
	if hold != nil {
		hold(c)
	}
	lost := ""
	for range attempts {
		p, again, err := c.attempt(ctx)
		if err == nil && len(again) == 0 && !p.Changes() {
			p.Why = cmp.Or(lost, p.Why)
		}
		if err != nil || len(again) == 0 {
			return p, err
		}
		for _, w := range slices.Sorted(maps.Keys(again)) {
			switch {
			case c.of[w].Today == nil:
				c.stays[w] = "it has no place: " + again[w]
				lost = cmp.Or(lost, w+" has no place: "+again[w])
			case c.running[w] > 0 && c.wants[w] > c.running[w]:
				c.wants[w] = c.running[w] // those that wait go on waiting
			default:
				c.stays[w] = again[w]
			}
		}
	}
	return c.leave("no order of steps was found in which every replica keeps a device"), nil
}

// read takes a fleet's state in, what can't be moved, and who keeps which objectives.
func read(ctx context.Context, f *decision.Fleet, opts decision.Options) (*cluster, error) {
	if f.Today == nil {
		return nil, fmt.Errorf("migrate: the fleet has no today: cotenant discover -out writes it")
	}
	if err := f.Validate(); err != nil {
		return nil, err
	}
	opts.Confidence = cmp.Or(opts.Confidence, decision.DefaultConfidence)
	opts.Brief = true
	c, err := newCluster(f, opts)
	if err != nil {
		return nil, err
	}
	c.hold()
	c.before, err = decision.Judge(ctx, f, seatings(c.seated(), c.today), opts)
	return c, err
}

// attempt plans around what stays. again names workloads that have to stay as well, for another attempt.
func (c *cluster) attempt(ctx context.Context) (p *Plan, again map[string]string, err error) {
	pinned := c.pinned()
	rest, asking := c.residual(pinned)
	if len(rest.Workloads)+len(asking) == 0 {
		return c.leave("nothing that runs may be moved before more is known of it"), nil, nil
	}
	if len(rest.Pools) == 0 {
		return c.leave("every node holds something that stays where it is, and has no device free"), nil, nil
	}
	r := &decision.Result{}
	if len(rest.Workloads) > 0 {
		if r, err = decision.Decide(ctx, rest, c.opts); err != nil {
			return nil, nil, err
		}
	}
	again = map[string]string{}
	for i := range r.Decisions {
		switch d := &r.Decisions[i]; {
		case d.Unplaced > 0 && d.Placed > 0: // Why is theirs who have a place
			again[d.Workload] = fmt.Sprintf("only %d of %d replicas find room", d.Placed, d.Placed+d.Unplaced)
		case d.Unplaced > 0 && c.of[d.Workload].Today == nil:
			again[d.Workload] = d.Why
		case d.Unplaced > 0:
			again[d.Workload] = "nothing better has room for all of its replicas: " + d.Why
		case d.Status == decision.StatusProvisional && c.of[d.Workload].Today != nil:
			again[d.Workload] = "it is not known enough of: " + reason(d)
		}
	}
	if len(again) > 0 {
		return nil, again, nil
	}
	loads, seats, full := c.place(r, asking, pinned)
	if full != "" {
		why := "too few nodes are free to hand out GPUs as it needs them"
		if slices.Contains(asking, full) {
			why = fmt.Sprintf("it asks for %d x %s, and no pool has as many free or can make them",
				c.wants[full]*max(1, c.of[full].GPUs), c.of[full].Request.Profile)
		}
		return nil, map[string]string{full: why}, nil
	}
	return c.propose(ctx, loads, seats, r)
}

// propose plans the way to a target. again names workloads for which it is none.
func (c *cluster) propose(ctx context.Context, loads []*load, seats map[string]seat, r *decision.Result) (p *Plan,
	again map[string]string, err error) {
	after, err := decision.Judge(ctx, c.fleet, seatings(loads, seats), c.opts)
	if err != nil {
		return nil, nil, err
	}
	again = map[string]string{}
	for w, answer := range after {
		switch _, runs := c.before[w]; {
		case runs && answer != c.before[w] && (answer == sharing.AnswerNo || c.before[w] == sharing.AnswerYes):
			again[w] = "beside its new neighbours it would not keep its objectives surely"
		case !runs && answer == sharing.AnswerNo:
			again[w] = "it would miss its objectives on the devices that are free"
		}
	}
	if len(again) > 0 {
		return nil, again, nil
	}
	if w, why := c.cramped(loads, seats); w != "" {
		return nil, map[string]string{w: why}, nil
	}
	o := c.order(loads, seats)
	if o.stuck != "" {
		return nil, map[string]string{o.stuck: "no device is free to start it on before it stops"}, nil
	}
	return c.weigh(o, loads, seats, after, r), nil, nil
}

// cramped names a workload whose autoscaler may ask for more replicas than would have devices after the change, where
// they have them today.
func (c *cluster) cramped(loads []*load, seats map[string]seat) (workload, why string) {
	most := func(w string, s seat, loads []*load) (n int) {
		for _, l := range loads {
			if l.run[w] > 0 {
				n += l.run[w] + (l.shape.seats(s)-l.used[s])/max(1, c.of[w].GPUs)
			}
		}
		return n
	}
	present := c.seated()
	for _, a := range c.fleet.Today.Autoscalers {
		if c.stays[a.Workload] != "" {
			continue
		}
		today := min(a.Max, most(a.Workload, c.today[a.Workload], present))
		if after := most(a.Workload, seats[a.Workload], loads); after < today {
			return a.Workload, fmt.Sprintf("its autoscaler may ask for %d replicas, and there would be devices for %d", today,
				after)
		}
	}
	return "", ""
}

// seated are the nodes as they are, with the devices that are held.
func (c *cluster) seated() []*load {
	var all []*load
	for _, n := range c.nodes {
		l := newLoad(n, ShapeOf(n.Node))
		l.run = maps.Clone(n.run)
		for w, k := range n.run {
			l.used[c.today[w]] += k * c.want(w, c.today[w]).each
		}
		all = append(all, l)
	}
	return all
}

// reason says why an answer is provisional.
func reason(d *decision.Decision) string {
	if len(d.Assumes) > 0 {
		return "assumed is that " + d.Assumes[0].What
	}
	return d.Why
}
