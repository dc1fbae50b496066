package capacity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// search is a search under way.
type search struct {
	plan      *Plan
	predictor predict.Predictor
	traffic   *traffic
	gpus      []*gpu
	excluded  []Exclusion
	plays     int
	load      float64           // of what is searched now
	floors    map[string]string // what requests miss even alone, by layout; "" where nothing
	err       error             // the first that playing met; see play
}

// Search finds the cheapest arrangement of each kind at each load, and which of them is to be taken. The error
// names everything that is wrong with the plan; when ctx ends, it comes with the result of what had been searched.
func (p Plan) Search(ctx context.Context) (*Result, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := &search{plan: &p, floors: map[string]string{}, predictor: predict.NewPredictor()}
	if p.Predictor != nil {
		s.predictor = *p.Predictor
	}
	var err error
	if s.traffic, err = p.read(ctx); err != nil {
		return nil, err
	}
	for _, g := range p.GPUs {
		r, err := p.resolve(g)
		if err != nil {
			s.exclude("", g.Name, err.Error())
			continue
		}
		s.gpus = append(s.gpus, r)
	}
	r := &Result{Currency: p.GPUs[0].PricePerHour.Currency(), Trace: s.describeTrace(), Arrangements: []Arrangement{},
		Crossovers: []Crossover{}}
	if r.Why, err = s.tooLarge(); err != nil {
		return nil, err
	}
	if r.Excluded = s.excluded; len(r.Why) > 0 {
		return r, nil
	}
	return r, s.run(ctx, r)
}

// tooLarge names the tenants whose servers no single GPU of the plan holds, with the fewest that would. The error is
// about servers that cannot run as the plan configures them.
func (s *search) tooLarge() (why []string, err error) {
	var l problem.List
	for i := range s.plan.Tenants {
		longest, least, on := s.traffic.tenants[i].longest, 0, ""
		var weights sharing.Bytes
		for _, g := range s.gpus {
			e, _, err := s.engine(i, g, g.whole)
			if err != nil {
				continue
			}
			e.Check(&l, "scheduling")
			weights = e.Model.Weights()
			if n := e.GPUsFor(g.memory, longest); n > 0 && (least == 0 || n < least) {
				least, on = n, g.Name
			}
		}
		if least > 1 {
			why = append(why, fmt.Sprintf("%s: its weights (%v) and the KV cache of its longest request (%d tokens) take at "+
				"least %d %s. This plans servers that share GPUs; one server over several GPUs in parallel is planned by "+
				"AIConfigurator or NVIDIA Dynamo", s.plan.Tenants[i].Name, weights, longest, least, on))
		}
	}
	return why, l.Under(ErrInvalid)
}

func (s *search) exclude(kind, gpu, reason string) {
	e := Exclusion{Kind: kind, GPU: gpu, Reason: strings.ReplaceAll(reason, "predict: ", "")}
	if !slices.Contains(s.excluded, e) {
		s.excluded = append(s.excluded, e)
	}
}

// run searches each load, the largest last, and describes what it finds there.
func (s *search) run(ctx context.Context, r *Result) error {
	var last []candidate
	var before *CheapestAt
	for _, load := range s.plan.loads() {
		found := s.kindsAt(ctx, load)
		if s.err != nil {
			s.close(r)
			return s.err
		}
		var now *CheapestAt
		for i := range found {
			if found[i].kept {
				p := s.standing(&found[i], load)
				r.Kept = append(r.Kept, p)
				if now == nil || p.CostPerHour.Micros() < now.CostPerHour.Micros() {
					now = &p
				}
			}
		}
		if before != nil && now != nil && (before.Kind != now.Kind || before.GPU != now.GPU) {
			r.Crossovers = append(r.Crossovers, Crossover{Above: before.Load, UpTo: now.Load, From: *before, To: *now})
		}
		before, last = cmp.Or(now, before), found
	}
	for i := range last {
		r.Arrangements = append(r.Arrangements, s.arrange(ctx, &last[i])...)
	}
	if s.close(r); s.err == nil {
		s.why(ctx, r)
		r.Plays = s.plays
		s.playWhole(ctx, r)
	}
	return s.err
}

// playWhole plays the chosen arrangement against the whole trace.
func (s *search) playWhole(ctx context.Context, r *Result) {
	if r.Chosen == nil || s.traffic.total <= len(s.traffic.window) {
		return
	}
	n := 0
	counted := func(yield func(Request) bool) {
		for q := range s.plan.Requests {
			if n++; s.plan.Progress != nil && n%20000 == 0 {
				s.plan.Progress(Progress{Load: s.load, Kind: r.Chosen.Kind, GPU: r.Chosen.GPU, GPUs: r.Chosen.GPUs, Plays: s.plays,
					Whole: n, Of: s.traffic.total})
			}
			if !yield(q) {
				return
			}
		}
	}
	all := s.play(ctx, &r.Chosen.found, func(cluster serving.Cluster, routes map[int]route) (*serving.Report, error) {
		return cluster.Play(ctx, scaled(counted, routes, s.load))
	})
	if s.err != nil {
		return
	}
	r.Whole = &Whole{Requests: s.traffic.total}
	for t, f := range all.seen {
		r.Whole.Tenants = append(r.Whole.Tenants, TenantFigures{s.plan.Tenants[t].Name, f.rounded()})
	}
}

// kindsAt finds the cheapest candidate of each kind at a load.
func (s *search) kindsAt(ctx context.Context, load float64) []candidate {
	s.load = load
	wanted := s.plan.Kinds
	if wanted == nil {
		wanted = Kinds()
	}
	var out []candidate
	for _, k := range wanted {
		parts, why := s.plan.parts(k)
		if parts == nil {
			s.exclude(k.String(), "", why)
			continue
		}
		if best := s.cheapestOf(ctx, k, parts); best != nil {
			out = append(out, *best)
		}
	}
	return out
}

// cheapestOf searches a kind over the GPUs, the cheapest first: what a later one may
// cost is bounded by what was found.
func (s *search) cheapestOf(ctx context.Context, k Kind, parts []part) *candidate {
	gpus := slices.Clone(s.gpus)
	slices.SortStableFunc(gpus, func(a, b *gpu) int {
		return cmp.Compare(a.PricePerHour.Micros(), b.PricePerHour.Micros())
	})
	var best *candidate
	for _, g := range gpus {
		c, err := s.on(ctx, k, parts, slices.Repeat([]*gpu{g}, len(parts)), best)
		if err != nil {
			s.exclude(k.String(), g.Name, err.Error())
		}
		if c != nil && (best == nil || better(c, best)) {
			best = c
		}
	}
	at := s.each(ctx, k, parts, gpus)
	if at == nil || best != nil && best.on(at) {
		return best
	}
	// Each part fits its GPU.
	if c, _ := s.on(ctx, k, parts, at, best); c != nil && (best == nil || better(c, best)) {
		best = c
	}
	return best
}

// each finds for every part the GPUs on which it alone is cheapest; nil where there is
// nothing to choose, or a part finds none.
func (s *search) each(ctx context.Context, k Kind, parts []part, gpus []*gpu) (at []*gpu) {
	if len(parts) < 2 || len(gpus) < 2 {
		return nil
	}
	for i := range parts {
		var best *candidate
		for _, g := range gpus {
			c, _ := s.fit(ctx, k, parts[i:i+1], []*gpu{g}, best)
			if c != nil && c.kept && (best == nil || better(c, best)) {
				best = c
			}
		}
		if best == nil {
			return nil
		}
		at = append(at, best.parts[0].layout.gpu)
	}
	return at
}

// better prefers what keeps the objectives, then what costs less, then fewer GPUs.
func better(a, b *candidate) bool {
	if a.kept != b.kept {
		return a.kept
	}
	pa, errA := a.perHour()
	pb, errB := b.perHour()
	if errA != nil || errB != nil {
		return errA == nil
	}
	if !a.kept {
		return a.over < b.over
	}
	return cmp.Or(cmp.Compare(pa.Micros(), pb.Micros()), cmp.Compare(a.gpus(), b.gpus())) < 0
}

// routers are the policies that are tried, the one to start with first.
func (s *search) routers() []serving.RoutePolicy {
	out := []serving.RoutePolicy{serving.RoutePolicyLeastRequests, serving.RoutePolicyRoundRobin}
	if s.traffic.prefixes {
		out = append([]serving.RoutePolicy{serving.RoutePolicyPrefixApproximate, serving.RoutePolicyKVAware}, out...)
	}
	if s.traffic.sessions {
		out = append(out, serving.RoutePolicySession)
	}
	return out
}

// route tries the other policies: with the candidate's GPUs, and with fewer. It keeps how many each would need.
func (s *search) route(ctx context.Context, c *candidate, routers []serving.RoutePolicy) *candidate {
	if c.replicas() < 2 || !c.kept && (c.tried() > 0 || c.gpus() > 8*len(c.parts)) {
		return c
	}
	c.byRouter = map[serving.RoutePolicy]int{}
	if c.kept {
		c.byRouter[c.router] = c.gpus()
	}
	best := c
	for _, r := range routers {
		if r == c.router {
			continue
		}
		with := *c
		with.router, with.parts = r, slices.Clone(c.parts)
		with.kept, with.over = true, 0
		most := 0 // that were tried
		for i := range with.parts {
			p := &with.parts[i]
			// From the fewest up to a third more than the first policy needs: a policy that needs
			// more is out of the question, and is said to need more.
			limit := min(p.n+max(p.n/2, 2), p.layout.gpu.Most)
			f := s.least(ctx, &p.layout, r, min(limit, max(p.fewest, min(p.n-1, p.fewest+1))), limit, false)
			p.n, p.short = f.n, f.short
			most += max(f.n, f.tried)
			with.kept, with.over = with.kept && f.kept, max(with.over, f.over)
		}
		if with.kept {
			c.byRouter[r] = with.gpus()
		} else {
			c.byRouter[r] = -most // more than so many
		}
		if better(&with, best) {
			with.byRouter = c.byRouter
			best = &with
		}
	}
	best.byRouter = c.byRouter
	return best
}
