package migrate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
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

	Fleet  *decision.Fleet  `json:"-"` // the fleet with its state
	Result *decision.Result `json:"-"` // the decision for what moves to new nodes or gets another request; nil without
}

// Changes reports whether anything is to change.
func (p *Plan) Changes() bool { return len(p.Steps) > 0 }

// Row is what changes for one workload on one node.
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
	Workloads []string `json:"workloads"` // the first of them, at most mostNamed
}

// mostNamed bounds the workloads that are named of one reason.
const mostNamed = 20

// Bill is the money of a plan, by the month of 730 hours: exact decimals, absent where a pool has no price. Nodes are
// paid whole.
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
	// Comes is what the devices of the workloads that come cost.
	Comes    string `json:"monthly_comes,omitempty"`
	Currency string `json:"currency,omitempty"`

	saved, uncertain int64 // micro-units a month; without prices a GPU counts as one unit an hour
}

// moveHours is how long a replica that moves is taken to hold two devices.
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
	budgets map[string]decision.Budget
	priced  bool
	micros  map[string]int64 // a GPU's price an hour by pool
	stays   map[string]string
	before  map[string]sharing.Answer
}

// Make plans the fleet's change, or says why all stays as it is. Workloads without today come new: they get a place
// where there is one. opts are those of [decision.Decide]; the error is its, or says that the fleet has no state.
func Make(ctx context.Context, f *decision.Fleet, opts decision.Options) (*Plan, error) {
	return plan(ctx, f, opts, nil)
}

// Admit gives the workloads without today a place beside what runs, and changes that only where there is no other
// ([Plan.Disturbs]). Options and error are those of Make.
func Admit(ctx context.Context, f *decision.Fleet, opts decision.Options) (*Plan, error) {
	p, err := plan(ctx, f, opts, func(c *cluster) {
		for name, w := range c.of {
			if w.Today != nil && c.stays[name] == "" {
				c.stays[name] = "it runs, and the question is what comes"
			}
		}
	})
	if err != nil || p.Changes() {
		return p, err
	}
	return Make(ctx, f, opts)
}

// Disturbs reports whether a step changes what runs, beside starting what comes.
func (p *Plan) Disturbs() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action != ActionMove || len(s.From) > 0 })
}

// plan makes a plan around what stays, of which hold may name more.
func plan(ctx context.Context, f *decision.Fleet, opts decision.Options, hold func(*cluster)) (*Plan, error) {
	if f.Today == nil {
		return nil, fmt.Errorf("migrate: the fleet has no today: cotenant discover -out writes it")
	}
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if opts.Confidence == 0 {
		opts.Confidence = decision.DefaultConfidence
	}
	opts.Brief = true
	c := newCluster(f, opts)
	c.hold()
	if hold != nil {
		hold(c)
	}
	var err error
	if c.before, err = decision.Judge(ctx, f, seatings(c.present(), c.today), opts); err != nil {
		return nil, err
	}
	for range attempts {
		p, again, err := c.attempt(ctx)
		if err != nil {
			return nil, err
		}
		if len(again) == 0 {
			return p, nil
		}
		maps.Copy(c.stays, again)
	}
	return c.leave("no order of steps was found in which every replica keeps a device"), nil
}

func newCluster(f *decision.Fleet, opts decision.Options) *cluster {
	c := &cluster{fleet: f, opts: opts, byName: map[string]*node{}, of: map[string]*decision.Workload{},
		today: map[string]seat{}, running: map[string]int{}, budgets: map[string]decision.Budget{},
		priced: true, micros: map[string]int64{}, stays: map[string]string{}}
	for i := range f.Today.Nodes {
		n := &node{&f.Today.Nodes[i], map[string]int{}}
		c.nodes = append(c.nodes, n)
		c.byName[n.Name] = n
	}
	for i := range f.Workloads {
		w := &f.Workloads[i]
		c.of[w.Name] = w
		if w.Today == nil {
			continue
		}
		c.today[w.Name] = seat{w.Today.Mechanism, w.Today.Profile}
		for _, on := range w.Today.On {
			c.byName[on.Node].run[w.Name] += on.Replicas
			c.running[w.Name] += on.Replicas
		}
	}
	for _, b := range f.Today.Budgets {
		if had, ok := c.budgets[b.Workload]; !ok || b.Allowed < had.Allowed {
			c.budgets[b.Workload] = b
		}
	}
	for i := range f.Pools {
		price, ok := decision.GPUPrice(&f.Pools[i])
		c.priced = c.priced && ok
		c.micros[f.Pools[i].Name] = price.Micros()
	}
	if !c.priced {
		for p := range c.micros {
			c.micros[p] = 1e6
		}
	}
	return c
}

// hold notes the workloads that stay whatever may be found.
func (c *cluster) hold() {
	pools := map[string]*decision.Pool{}
	for i := range c.fleet.Pools {
		pools[c.fleet.Pools[i].Name] = &c.fleet.Pools[i]
	}
	for name, w := range c.of {
		if w.Today == nil {
			continue
		}
		if why := c.fixed(w); why != "" {
			c.stays[name] = why
		}
	}
	for _, n := range c.nodes {
		l, s := newLoad(n, ShapeOf(n.Node)), ""
		for _, w := range slices.Sorted(maps.Keys(n.run)) {
			if l.put(c.want(w, c.today[w]), n.run[w]) < n.run[w] {
				s = fmt.Sprintf("more runs on %s than it hands out as %v: another handed it out, or the files are of two "+
					"moments", n.Name, l.shape)
			}
		}
		if d := pools[n.Pool].Delivery; d != sharing.DeliveryBare && d != sharing.DeliveryGPUOperator &&
			d != sharing.DeliveryDevicePlugin {
			s = fmt.Sprintf("the GPUs of %s are handed out by %v, whose nodes are not changed from here", n.Name, d)
		} else if n.Closed != "" {
			s = n.Name + " is " + n.Closed
		}
		for w := range n.run {
			if s != "" && c.stays[w] == "" {
				c.stays[w] = s
			}
		}
	}
}

// fixed is the reason for which a workload can't be moved, or must not be before more is known; empty without one.
func (c *cluster) fixed(w *decision.Workload) string {
	t := w.Today
	switch {
	case len(t.On) == 0:
		return "no replica of it runs"
	case !moves(t.Mechanism):
		return fmt.Sprintf("it shares by %v, which is not planned from here", t.Mechanism)
	case t.Object == "Job" || t.Object == "CronJob":
		return fmt.Sprintf("a %s's pods run to their end where they are", t.Object)
	case t.Object == "Pod":
		return "nothing starts a bare Pod again"
	case t.Object != "" && t.Object != "Deployment" && t.Object != "StatefulSet":
		return fmt.Sprintf("its pods are made by its %s, whose own template has to be changed", t.Object)
	case t.Object == "StatefulSet" && c.budgets[w.Name].Allowed < 1:
		return "a StatefulSet stops a replica before it starts the next, and no PodDisruptionBudget lets one be missing"
	case w.MemoryNeed().Unknown:
		return "how much GPU memory it uses is not known"
	case w.GPUBusy.IsZero() && w.Load == nil && w.Profile == nil:
		return "how busy it keeps its GPU is not known"
	case w.Kind == decision.KindOnlineInference && w.SLO == (predict.SLO{}):
		return "which latencies it must keep is not known"
	}
	return ""
}

// moves lists the mechanisms that the device plugin hands out by a node's configuration.
func moves(m sharing.Mechanism) bool { return slices.Contains(planned, m) }

var planned = []sharing.Mechanism{
	sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG,
}

func (c *cluster) want(w string, s seat) *want {
	return &want{w, s, max(1, c.of[w].GPUs), max(c.running[w], 0)}
}

// trusts reports whether two workloads are one tenant's, or each names the other's tenant.
func (c *cluster) trusts(a, b string) bool {
	x, y := c.of[a], c.of[b]
	if x.Tenant == "" && y.Tenant == "" {
		return a == b || c.fleet.Trust == decision.TrustAll
	}
	return x.Tenant == y.Tenant || slices.Contains(x.Trust, y.Tenant) && slices.Contains(y.Trust, x.Tenant)
}

// present are the nodes as they are.
func (c *cluster) present() []*load {
	var out []*load
	for _, n := range c.nodes {
		l := newLoad(n, ShapeOf(n.Node))
		l.run = maps.Clone(n.run)
		out = append(out, l)
	}
	return out
}

// pinned are the nodes that stay as they are: those of workloads that stay, and closed ones.
func (c *cluster) pinned() map[string]bool {
	out := map[string]bool{}
	for _, n := range c.nodes {
		if n.Closed != "" {
			out[n.Name] = true
		}
		for w := range n.run {
			if c.stays[w] != "" {
				out[n.Name] = true
			}
		}
	}
	return out
}

// attempt plans around what stays. again names workloads that have to stay as well, for another attempt.
func (c *cluster) attempt(ctx context.Context) (p *Plan, again map[string]string, err error) {
	pinned := c.pinned()
	rest := c.residual(pinned)
	if len(rest.Workloads) == 0 {
		return c.leave("nothing that runs may be moved before more is known of it"), nil, nil
	}
	if len(rest.Pools) == 0 {
		return c.leave("every node holds something that stays where it is, and has no device free"), nil, nil
	}
	r, err := decision.Decide(ctx, rest, c.opts)
	if err != nil {
		return nil, nil, err
	}
	again = map[string]string{}
	for i := range r.Decisions {
		switch d := &r.Decisions[i]; {
		case d.Unplaced > 0 && c.of[d.Workload].Today != nil:
			again[d.Workload] = "nothing better has room for all of its replicas: " + d.Why
		case d.Unplaced > 0:
			return c.leave(fmt.Sprintf("%s has no place: %s", d.Workload, d.Why)), nil, nil
		case d.Status == decision.StatusProvisional && c.of[d.Workload].Today != nil:
			again[d.Workload] = "it is not known enough of: " + reason(d)
		}
	}
	if len(again) > 0 {
		return nil, again, nil
	}
	loads, seats, full := c.place(r, pinned)
	if full != "" {
		if c.of[full].Today == nil {
			return c.leave(full + " has no place: too few nodes are free to hand out GPUs as it needs them"), nil, nil
		}
		return nil, map[string]string{full: "too few nodes are free to hand out GPUs as it would need them"}, nil
	}
	after, err := decision.Judge(ctx, c.fleet, seatings(loads, seats), c.opts)
	if err != nil {
		return nil, nil, err
	}
	for w := range c.before {
		if after[w] != c.before[w] && (after[w] == sharing.AnswerNo || c.before[w] == sharing.AnswerYes) {
			again[w] = "beside its new neighbours it would not keep its objectives surely"
		}
	}
	for i := range r.Decisions {
		if w := r.Decisions[i].Workload; c.of[w].Today == nil && after[w] == sharing.AnswerNo {
			return c.leave(w + " would miss its objectives on the devices that are free"), nil, nil
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
			return a.Workload, fmt.Sprintf("its autoscaler may ask for %d replicas, and there would be devices for %d", today, after)
		}
	}
	return "", ""
}

// seated are the nodes as they are, with the devices that are held.
func (c *cluster) seated() []*load {
	all := c.present()
	for _, l := range all {
		for w, n := range l.run {
			l.used[c.today[w]] += n * c.want(w, c.today[w]).each
		}
	}
	return all
}

// reason is why an answer is provisional.
func reason(d *decision.Decision) string {
	if len(d.Assumes) > 0 {
		return "assumed is that " + d.Assumes[0].What
	}
	return d.Why
}

// residual is the fleet of what may move and the GPUs that it may have.
func (c *cluster) residual(pinned map[string]bool) *decision.Fleet {
	f := &decision.Fleet{Version: c.fleet.Version, Trust: c.fleet.Trust}
	gpus, held := map[string]int{}, map[string]int{}
	for _, n := range c.nodes {
		if !pinned[n.Name] {
			gpus[n.Pool] += n.GPUs
			continue
		}
		for w, k := range n.run {
			if c.stays[w] == "" {
				held[n.Pool] += k * c.want(w, c.today[w]).each
			}
		}
		if n.Closed == "" {
			held[n.Pool] += c.unused(n)
		}
	}
	for _, p := range c.fleet.Pools {
		if gpus[p.Name]+held[p.Name] == 0 {
			continue
		}
		p.Count, p.Layouts = min(p.Count, gpus[p.Name]+held[p.Name]), nil
		p.Mechanisms = slices.DeleteFunc(slices.Clone(planned), func(m sharing.Mechanism) bool {
			// A node that stays has only free devices that nobody shares.
			shares := m == sharing.MechanismTimeSlicing || m == sharing.MechanismMPS
			return len(p.Mechanisms) > 0 && !slices.Contains(p.Mechanisms, m) || gpus[p.Name] == 0 && shares
		})
		gpus[p.Name] += held[p.Name]
		f.Pools = append(f.Pools, p)
	}
	for _, w := range c.fleet.Workloads {
		if c.stays[w.Name] != "" {
			continue
		}
		if w.Pool != "" && gpus[w.Pool] == 0 {
			c.stays[w.Name] = "its pool has no node that may change"
			continue
		}
		if w.Today != nil {
			w.Replicas = decision.Replicas{Max: c.running[w.Name]}
		}
		f.Workloads = append(f.Workloads, w)
	}
	return f
}

// unused counts the GPUs of a node that nobody holds, and those of its free MIG instances.
func (c *cluster) unused(n *node) int {
	s, whole, instances := ShapeOf(n.Node), 0, 0
	for w, k := range n.run {
		switch want := c.want(w, c.today[w]); want.seat.mechanism {
		case sharing.MechanismExclusive:
			whole += k * want.each
		case sharing.MechanismMIG:
			instances += k * want.each
		}
	}
	free := 0
	if s.Mechanism == sharing.MechanismExclusive {
		free = max(0, s.whole-whole)
	}
	if all := replicas(s.Instances); all > instances {
		free += max(1, n.InMIG*(all-instances)/all)
	}
	return free
}

// place seats all workloads on the nodes: those that may move as decided, and as today where that takes no node more.
// full names one for which the nodes were too few.
func (c *cluster) place(r *decision.Result, pinned map[string]bool) (loads []*load, seats map[string]seat, full string) {
	seats = maps.Clone(c.today)
	pools := map[string]string{} // of what moves
	free := map[string]bool{}
	for i := range r.Decisions {
		d := &r.Decisions[i]
		w := c.of[d.Workload]
		pools[d.Workload] = d.Pool
		if home, one := c.home(d.Workload); w.Today != nil && one && home == d.Pool && c.before[d.Workload] != sharing.AnswerNo {
			free[d.Workload] = true // to stay as it is
			continue
		}
		seats[d.Workload] = seat{d.Mechanism, d.Profile}
	}
	density := c.density(r)
	lay := func(seats map[string]seat) (all []*load, used int, full string) {
		for i := range c.fleet.Pools {
			pool := &c.fleet.Pools[i]
			got, lacking := c.layPool(pool, seats, pools, pinned, density[pool.Name])
			if lacking != "" {
				return nil, 0, lacking
			}
			all = append(all, got...)
		}
		for _, l := range all {
			if len(l.run) > 0 {
				used += l.node.GPUs
			}
		}
		return all, used, ""
	}
	for i := range r.Decisions {
		if d := &r.Decisions[i]; c.of[d.Workload].Today == nil {
			seats[d.Workload] = c.seatFor(d, func(s seat) bool {
				seats[d.Workload] = s
				_, _, lacking := lay(seats)
				return lacking != d.Workload
			})
		}
	}
	// As today, as decided, and in MIG instances that stand free already: the fewest nodes, and today before the others.
	decided, filled := maps.Clone(seats), maps.Clone(seats)
	for w := range free {
		d := r.Decision(w)
		decided[w] = seat{d.Mechanism, d.Profile}
		if profile := c.instance(w, d.Pool); profile != "" {
			filled[w] = seat{sharing.MechanismMIG, profile}
		}
	}
	fewest, found := 0, false
	for _, way := range []map[string]seat{seats, decided, filled} {
		got, used, lacking := lay(way)
		if lacking != "" {
			full = lacking
		} else if !found || used < fewest {
			loads, seats, fewest, found = got, way, used, true
		}
	}
	if !found {
		return nil, nil, full
	}
	// What moves without freeing a node stays.
	for _, w := range slices.Sorted(maps.Keys(free)) {
		if is := seats[w]; is != c.today[w] {
			seats[w] = c.today[w]
			if got, used, lacking := lay(seats); lacking == "" && used <= fewest {
				loads, fewest = got, used
			} else {
				seats[w] = is
			}
		}
	}
	return loads, seats, ""
}

// seatFor is the device of a workload that comes: what is decided, or one that stands free and does as well.
func (c *cluster) seatFor(d *decision.Decision, fits func(seat) bool) seat {
	first := seat{d.Mechanism, d.Profile}
	ways := []seat{first}
	for i := range d.Candidates {
		switch k := &d.Candidates[i]; {
		case k.Pool != d.Pool || k.Verdict != gate.VerdictPass:
		case k.Mechanism == sharing.MechanismMIG:
			if profile := c.instance(d.Workload, d.Pool); profile != "" {
				ways = append(ways, seat{k.Mechanism, profile})
			}
		case k.Mechanism == sharing.MechanismExclusive:
			ways = append(ways, seat{mechanism: k.Mechanism})
		}
	}
	for _, s := range ways {
		if fits(s) {
			return s
		}
	}
	return first
}

// instance is the smallest MIG profile that nodes of a pool have and that holds the workload, empty where there is none
// or it may not go there.
func (c *cluster) instance(w, pool string) (profile string) {
	t := c.of[w].Today
	if max(1, c.of[w].GPUs) > 1 || t != nil && t.Mechanism == sharing.MechanismExclusive && !t.MayWeaken {
		return ""
	}
	var least sharing.Bytes
	for _, n := range c.nodes {
		model := c.model(n.Pool)
		if n.Pool != pool || n.Closed != "" || model == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(n.Instances)) {
			if p, err := model.Profile(name); err == nil {
				if m, ok := p.Memory.Get(); ok && m >= c.of[w].MemoryNeed().Total && (profile == "" || m < least) {
					profile, least = name, m
				}
			}
		}
	}
	return profile
}

// model is the MIG model of a pool's GPUs, nil without one.
func (c *cluster) model(pool string) *mig.Model {
	for i := range c.fleet.Pools {
		if p := &c.fleet.Pools[i]; p.Name == pool {
			if gpu, err := sharing.LookupGPU(p.GPU); err == nil {
				model, _ := mig.Lookup(gpu.Name)
				return model
			}
		}
	}
	return nil
}

// home is the pool that a workload runs in, and whether that is one.
func (c *cluster) home(w string) (pool string, one bool) {
	if c.of[w].Today == nil {
		return "", false
	}
	for _, on := range c.of[w].Today.On {
		p := c.byName[on.Node].Pool
		if pool != "" && pool != p {
			return pool, false
		}
		pool = p
	}
	return pool, pool != ""
}

// density is how many pods of the decision share a GPU, by pool and mechanism.
func (c *cluster) density(r *decision.Result) map[string]map[sharing.Mechanism]int {
	out := map[string]map[sharing.Mechanism]int{}
	for i := range r.Pools {
		p := &r.Pools[i]
		out[p.Pool] = map[sharing.Mechanism]int{}
		for _, g := range p.Groups {
			for _, l := range g.Layouts {
				n := 0
				for _, t := range l.Tenants {
					n += t.Replicas
				}
				out[p.Pool][g.Mechanism] = max(out[p.Pool][g.Mechanism], n)
			}
		}
	}
	return out
}

// layPool seats what belongs in a pool on its nodes. lacking names a workload for which they were too few.
func (c *cluster) layPool(pool *decision.Pool, seats map[string]seat, pools map[string]string, pinned map[string]bool,
	density map[sharing.Mechanism]int) (out []*load, lacking string) {
	var nodes []*node
	var stay []*load
	left := map[string]int{}
	for w, p := range pools {
		if p == pool.Name {
			left[w] = c.running[w]
			if c.of[w].Today == nil {
				left[w] = max(1, c.of[w].Replicas.Max)
			}
		}
	}
	for _, n := range c.nodes {
		if n.Pool != pool.Name {
			continue
		}
		if !pinned[n.Name] {
			nodes = append(nodes, n)
			continue
		}
		l := newLoad(n, ShapeOf(n.Node))
		for _, w := range slices.Sorted(maps.Keys(n.run)) {
			if c.stays[w] != "" {
				l.run[w] = n.run[w]
				l.used[c.today[w]] += n.run[w] * c.want(w, c.today[w]).each
			} else if seats[w] == c.today[w] && left[w] > 0 {
				left[w] -= l.put(c.want(w, seats[w]), min(left[w], n.run[w]))
			}
		}
		stay = append(stay, l)
	}
	var wants []want
	for _, w := range slices.Sorted(maps.Keys(left)) {
		k := c.want(w, seats[w])
		k.n = left[w]
		// Free devices of nodes that stay serve what shares with nobody.
		if k.seat.mechanism == sharing.MechanismExclusive || k.seat.mechanism == sharing.MechanismMIG {
			for _, l := range stay {
				if l.node.Closed == "" {
					k.n -= l.put(k, k.n)
				}
			}
		}
		if k.n > 0 {
			wants = append(wants, *k)
		}
	}
	slices.SortStableFunc(wants, func(x, y want) int { return cmp.Compare(y.each, x.each) })
	if len(wants) == 0 {
		return append(stay, emptied(nil, nodes)...), ""
	}
	y := yard{density: density, model: c.model(pool.Name), trusts: c.trusts}
	got := y.assign(wants, nodes)
	if got == nil {
		last := wants[len(wants)-1]
		for _, w := range wants {
			if w.seat != c.today[w.workload] {
				last = w // what changes gives way to what stays as it is
			}
		}
		return nil, last.workload
	}
	return append(stay, got...), ""
}

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
	var freed, opened []*node
	for _, l := range loads {
		switch before, then := len(l.node.run) > 0, len(l.run) > 0; {
		case before && !then:
			freed = append(freed, l.node)
		case then && !before:
			opened = append(opened, l.node)
		}
	}

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
	b.NodesToday, b.NodesAfter = len(c.nodes), len(c.nodes)-len(freed)
	var today int64
	for _, n := range c.nodes {
		today += c.micros[n.Pool] * int64(n.GPUs) * cost.HoursPerMonth
		for w, k := range n.run {
			if moved[w] {
				device := c.device(n, ShapeOf(n.Node), c.want(w, c.today[w])) * int64(k)
				b.uncertain += int64((1-c.opts.Confidence)*float64(device)*cost.HoursPerMonth) + device*moveHours
			}
		}
	}
	var come int64
	for _, l := range loads {
		for w, k := range l.run {
			if c.of[w].Today == nil {
				come += c.device(l.node, l.shape, c.want(w, seats[w])) * int64(k) * cost.HoursPerMonth
			}
		}
	}
	for _, n := range freed {
		b.GPUsFreed += n.GPUs
		b.saved += c.micros[n.Pool] * int64(n.GPUs) * cost.HoursPerMonth
	}
	for _, n := range opened { // what stands empty today could be given back today
		b.saved -= c.micros[n.Pool] * int64(n.GPUs) * cost.HoursPerMonth
	}
	if !c.priced {
		return
	}
	for i := range c.fleet.Pools {
		price, _ := decision.GPUPrice(&c.fleet.Pools[i])
		b.Currency = price.Currency()
	}
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

// device is what the devices of one replica cost an hour, in micro-units: their part of their GPUs.
func (c *cluster) device(n *node, s Shape, w *want) int64 {
	gpus := s.whole
	if w.seat.mechanism == sharing.MechanismMIG {
		gpus = n.GPUs - s.whole
		return c.micros[n.Pool] * int64(w.each) * int64(gpus) / int64(max(1, replicas(s.Instances)))
	}
	return c.micros[n.Pool] * int64(w.each) * int64(gpus) / int64(max(1, s.seats(w.seat)))
}

// weigh makes the plan of an order of steps where that is worth it.
func (c *cluster) weigh(o *order, loads []*load, seats map[string]seat, after map[string]sharing.Answer,
	r *decision.Result) *Plan {
	p := &Plan{Steps: o.steps, Rows: []Row{}, Fleet: c.fleet}
	var come []string
	for _, w := range slices.Sorted(maps.Keys(after)) {
		_, runs := c.before[w]
		p.Answers = append(p.Answers, Answer{w, c.before[w], after[w]})
		if runs && c.before[w] == sharing.AnswerNo && after[w] != sharing.AnswerNo {
			p.Mends = append(p.Mends, w)
		} else if !runs {
			come = append(come, w)
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
		why = append(why, fmt.Sprintf("it empties %s of %d", plural(p.Bill.NodesToday-p.Bill.NodesAfter, "node"), len(c.nodes)))
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

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
