package capacity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/plaintext"
)

// arrange foresees a candidate and describes it. Where its verdict is unknown, the
// cheapest that is known to be kept follows: with more of the same GPUs, or on others.
func (s *search) arrange(ctx context.Context, c *candidate) (out []Arrangement) {
	a := s.described(ctx, c, s.foresee(ctx, c))
	if s.err != nil {
		return nil
	}
	out = []Arrangement{a}
	if a.Verdict != VerdictUnknown || !c.kept {
		return out // nothing that was tried is likelier
	}
	safe := s.secure(ctx, &a.found, nil)
	parts, _ := s.plan.parts(c.kind)
	for _, at := range s.divisions(parts) {
		for _, other := range s.others(ctx, c, parts, at, safe) {
			if price, err := other.perHour(); err != nil || safe != nil && price.Micros() >= safe.CostPerHour.Micros() {
				continue
			}
			if next := s.secure(ctx, other, safe); next != nil {
				safe = next
			}
		}
	}
	if safe != nil && s.err == nil {
		if less := safe.GPUs - a.GPUs; a.GPU == safe.GPU && less > 0 {
			safe.Reason = fmt.Sprintf("%s may do, with %d the objectives are kept whatever the uncertain costs are; %s",
				plaintext.Count(a.GPUs, "GPU"), safe.GPUs, safe.Reason)
		}
		out = append(out, *safe)
	}
	return out
}

// others are the candidates of a kind on some GPUs besides c that keep the objectives as far as values go, the cheapest
// and then the furthest from its limits first: of every layout, where the kind has several.
func (s *search) others(ctx context.Context, c *candidate, parts []part, at []*gpu,
	below *Arrangement) (out []*candidate) {
	var beat *candidate
	if below != nil {
		beat = &below.found
	}
	if len(parts) > 1 {
		if c.on(at) {
			return nil
		}
		other, _ := s.on(ctx, c.kind, parts, at, beat)
		if other == nil || !other.kept {
			return nil
		}
		return []*candidate{other}
	}
	layouts, _ := s.layouts(c.kind, parts[0], at[0]) // none where it does not fit
	most := at[0].Most
	if below != nil {
		most = int(min(int64(most), (below.CostPerHour.Micros()-1)/at[0].PricePerHour.Micros()))
	}
	for i := range layouts {
		l := &layouts[i]
		fewest := s.fewest(l, s.load)
		if fewest > most || c.on(at) && l.describe() == c.parts[0].layout.describe() {
			continue
		}
		f := s.least(ctx, l, c.router, fewest, most, false)
		if f.fewest = c.parts[0].fewest; f.kept {
			out = append(out, &candidate{kind: c.kind, parts: []placed{f.placed}, router: c.router, kept: true, over: f.over})
		}
	}
	slices.SortStableFunc(out, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.gpus(), b.gpus()), cmp.Compare(a.over, b.over))
	})
	return out
}

const mostDivisions = 16 // bound of the ways to put parts on kinds of GPU that are looked at

// divisions are the ways to put parts on kinds of GPU: each on any of them, or where that makes too many, all on one.
func (s *search) divisions(parts []part) [][]*gpu {
	all := [][]*gpu{nil}
	for range parts {
		var next [][]*gpu
		for _, at := range all {
			for _, g := range s.gpus {
				next = append(next, append(slices.Clone(at), g))
			}
		}
		if all = next; len(all) > mostDivisions {
			all = nil
			for _, g := range s.gpus {
				all = append(all, slices.Repeat([]*gpu{g}, len(parts)))
			}
			return all
		}
	}
	return all
}

// secure gives a candidate the fewest GPUs with which it is known to keep the objectives; nil when that takes too many,
// or as much money as below costs.
func (s *search) secure(ctx context.Context, of *candidate, below *Arrangement) *Arrangement {
	c := *of
	c.parts = slices.Clone(c.parts)
	more, missed := -1, 0 // the part that was given more GPUs, and with how many it is not known to be kept
	var known *played
	for range 12 {
		price, err := c.perHour()
		if err != nil || more >= 0 && c.parts[more].n > c.parts[more].layout.gpu.Most || c.gpus() > 4*of.gpus() ||
			below != nil && price.Micros() >= below.CostPerHour.Micros() {
			return nil
		}
		f := s.foresee(ctx, &c)
		if f.verdict == VerdictKept {
			known = f
			break
		}
		// More for the server whose tenant is nearest to its limits.
		more = s.partOf(&c, s.judge(highest(f.seen)).tenant)
		missed = c.parts[more].n
		c.parts[more].n = max(missed+1, int(float64(missed)*1.2))
	}
	if known == nil {
		return nil
	}
	for more >= 0 && c.parts[more].n-missed > 1 {
		less := c
		less.parts = slices.Clone(c.parts)
		less.parts[more].n = (missed + c.parts[more].n) / 2
		if f := s.foresee(ctx, &less); f.verdict == VerdictKept {
			c, known = less, f
		} else {
			missed = less.parts[more].n
		}
	}
	a := s.described(ctx, &c, known)
	return &a
}

// highest are figures at the bad ends of their intervals.
func highest(seen []figures) []figures {
	out := make([]figures, len(seen))
	for t := range seen {
		if seen[t] == nil {
			continue
		}
		out[t] = figures{}
		for name, i := range seen[t] {
			v := i.High
			if name == shareMetric {
				v = i.Low
			}
			out[t][name] = profile.Interval{Value: v, Low: v, High: v}
		}
	}
	return out
}

// partOf is the index of the part that serves a tenant.
func (s *search) partOf(c *candidate, tenant int) int {
	i := slices.IndexFunc(c.parts, func(p placed) bool {
		return slices.ContainsFunc(p.layout.servers, func(sv server) bool { return slices.Contains(sv.tenants, tenant) })
	})
	return max(i, 0)
}

// foresee plays a candidate at the searched load with what is uncertain of its costs.
func (s *search) foresee(ctx context.Context, c *candidate) *played {
	s.count(c, s.load)
	return s.play(ctx, c, func(cluster serving.Cluster, routes map[int]route) (*serving.Report, error) {
		return cluster.Foresee(ctx, s.traffic.requests(routes, s.load))
	})
}

func (s *search) described(ctx context.Context, c *candidate, f *played) Arrangement {
	report, seen := f.report, f.seen
	l := &c.parts[0].layout
	a := Arrangement{
		Kind: c.kind, Mechanism: c.kind.Mechanism(), GPU: c.gpuName(), GPUs: c.gpus(), CopiesPerGPU: l.copies(0),
		Router: c.router.String(), Division: c.division(),
		Tried: c.tried(), Verdict: f.verdict, Predicted: map[string]profile.Interval{}, Basis: basisOf(c.servers()),
		found: *c, played: f, search: s,
	}
	if c.replicas() < 2 {
		a.Router = "none"
	}
	goodTokens := 0.0
	for i := range report.Services {
		sv := &report.Services[i]
		good := 1.0 // without limits every token is
		if slices.ContainsFunc(s.plan.Tenants, func(t Tenant) bool { return len(t.Objectives.Limits) > 0 }) {
			good = sv.GoodFraction()
		}
		a.GoodputPerS += sv.GoodPerS
		goodTokens += sv.TokensPerS.Or(0) * good
		a.Servers = append(a.Servers, ServerReplicas{sv.Name, len(sv.Replicas)})
	}
	a.GoodputPerS = figures4(a.GoodputPerS)
	if c.kind == KindAdapters {
		for i := range c.parts {
			a.Adapters += c.parts[i].layout.servers[0].engine.Adapters.Slots
		}
	}
	a.Utilisation = figures4(mean(report.GPUs))
	for t := range seen {
		if seen[t] == nil {
			continue
		}
		of := seen[t].rounded()
		for name, i := range seen[t] {
			worst, has := a.Predicted[name]
			if !has || name == shareMetric && i.Value < worst.Value || name != shareMetric && i.Value > worst.Value {
				a.Predicted[name] = of[name]
			}
		}
		a.Tenants = append(a.Tenants, TenantFigures{s.plan.Tenants[t].Name, of})
	}
	price, err := c.perHour()
	a.CostPerHour = Money{price}
	if perHour := int64(goodTokens * 3600); perHour > 0 && err == nil {
		var million cost.Money
		million, err = price.MulFrac(1_000_000, perHour)
		a.PerMillion = optional.Of(Money{million})
	}
	s.err = cmp.Or(s.err, err)
	a.Gap = s.gap(c)
	a.Reason = s.reason(c, f)
	if f.verdict == VerdictUnknown {
		a.Settle = s.settle(c, f.judgement)
	}
	for r, n := range c.byRouter {
		if a.ByRouter == nil {
			a.ByRouter = map[serving.RoutePolicy]RouterNeed{}
		}
		a.ByRouter[r] = RouterNeed{GPUs: max(n, -n), More: n < 0}
	}
	s.grow(ctx, &a, c, f)
	return a
}

// gap is the share of the GPUs that some other use of them by the same kind may save:
// none where every GPU has one server, for there the search is exact.
func (s *search) gap(c *candidate) float64 {
	if !c.kept || c.kind == KindOwnGPU || c.kind == KindMergedServer || c.kind == KindAdapters {
		return 0
	}
	fewest := 0
	for i := range c.parts {
		fewest += max(c.parts[i].fewest, 1)
	}
	return figures4(max(0, float64(c.gpus()-fewest)/float64(c.gpus())))
}

// settle is the run that makes an unknown verdict known.
func (s *search) settle(c *candidate, j judgement) string {
	t := &s.plan.Tenants[max(j.tenant, 0)]
	own := s.traffic.tenants[max(j.tenant, 0)]
	return fmt.Sprintf("run %s at %.3g requests/s (%.0f tokens in, %.0f out) on one GPU of this arrangement (%s, %s) and "+
		"read %s", t.Name,
		float64(own.requests)/s.traffic.seconds(s.load)/float64(c.gpus()), own.input/float64(max(own.requests, 1)),
		own.output/float64(max(own.requests, 1)), c.parts[s.partOf(c, max(j.tenant, 0))].layout.gpu.Name, c.kind, j.metric)
}

// reason explains the arrangement's number of GPUs.
func (s *search) reason(c *candidate, f *played) string {
	var parts []string
	r := f.report
	if f.tenant >= 0 {
		parts = append(parts, s.words(f))
	}
	parts = append(parts, fmt.Sprintf("the GPUs are busy %.0f%% of the time", 100*mean(r.GPUs)))
	if hit, ok := hits(r); ok {
		parts = append(parts, fmt.Sprintf("%.0f%% of the prompts' tokens come from prefix caches", 100*hit))
	}
	if why := cause(c, r); why != "" {
		parts = append(parts, why)
	}
	if mean(r.GPUs) < idleGPUs && c.gpus() > 1 {
		if most, usual := s.traffic.burst(s.load); float64(most) > bursts*usual {
			parts = append(parts, fmt.Sprintf("bursts decide: up to %d requests come within a second, %.2g on average", most,
				usual))
		}
	}
	for i := range c.parts {
		if why := c.parts[i].short; why != "" && c.kept {
			parts = append(parts, why)
		}
	}
	return strings.Join(parts, "; ")
}

// GPUs that are busy for less of their time than idleGPUs are as many as the bursts ask
// for, where so many times more requests come than on average.
const idleGPUs, bursts = 0.4, 3

func mean(gpus []serving.GPUReport) float64 {
	sum := 0.0
	for i := range gpus {
		sum += gpus[i].BusyFraction
	}
	return sum / float64(max(len(gpus), 1))
}

func hits(r *serving.Report) (share float64, any bool) {
	var in, cached int64
	for i := range r.Services {
		in += r.Services[i].InputTokens
		cached += r.Services[i].CachedTokens
	}
	return float64(cached) / float64(max(in, 1)), cached > 0
}

// cause names the limit that requests wait for, beside the GPU itself.
func cause(c *candidate, r *serving.Report) string {
	var all, kv, places, adapters, preempted int64
	wakes := 0
	for i := range r.Services {
		all += r.Services[i].Requests
		preempted += r.Services[i].Preemptions
		for _, p := range r.Services[i].Replicas {
			kv += p.WaitedForKV
			places += p.WaitedForSequences
			adapters += p.WaitedForAdapter
			wakes += p.Wakes
		}
	}
	few := max(all/100, 1)
	switch {
	case kv+preempted >= few && kv >= places && kv >= adapters:
		return fmt.Sprintf("KV caches are full: %d requests waited for room and %d were put back", kv, preempted)
	case adapters >= few && adapters >= places:
		return fmt.Sprintf("adapter slots are taken: %d requests waited for one", adapters)
	case places >= few:
		return fmt.Sprintf("batches are full%s: %d requests waited for a place", batchOf(c), places)
	case wakes > 0 && int64(wakes) >= few:
		return fmt.Sprintf("servers were woken %d times", wakes)
	}
	return ""
}

// batchOf returns the size of a server's batch, where all servers' are of one size.
func batchOf(c *candidate) string {
	servers := c.servers()
	n := servers[0].engine.Sequences
	if n == 0 || slices.ContainsFunc(servers, func(o server) bool { return o.engine.Sequences != n }) {
		return ""
	}
	return fmt.Sprintf(" at %d", n)
}
