package capacity

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/cotenant/cotenant/decision/predict/serving"
)

// on searches a kind, each part alone on its kind of GPU, with every layout and router. beat is the price that a
// candidate must stay below to matter. The error is the reason why the kind is impossible there.
func (s *search) on(ctx context.Context, k Kind, parts []part, at []*gpu, beat *candidate) (*candidate, error) {
	c, err := s.fit(ctx, k, parts, at, beat)
	if c == nil {
		return nil, err
	}
	return s.route(ctx, c, s.routers()), nil
}

// fit is on with the first router only.
func (s *search) fit(ctx context.Context, k Kind, parts []part, at []*gpu, beat *candidate) (*candidate, error) {
	left := int64(math.MaxInt64) // money, in micro-units
	if beat != nil && beat.kept {
		if price, err := beat.perHour(); err == nil {
			left = price.Micros() - 1
		}
	}
	for _, g := range at[1:] {
		left -= g.PricePerHour.Micros() // every later part takes a GPU
	}
	router := s.routers()[0]
	c := &candidate{kind: k, router: router, kept: true}
	for i, of := range parts {
		g := at[i]
		if i > 0 {
			left += g.PricePerHour.Micros()
		}
		most := g.Most - len(parts) + 1 + i
		for k := range c.parts {
			if c.parts[k].layout.gpu == g {
				most -= c.parts[k].n
			}
		}
		if most = int(min(int64(most), left/g.PricePerHour.Micros())); most < 1 && (i == 0 || beat != nil) {
			return nil, nil
		}
		layouts, err := s.layouts(k, of, g)
		if err != nil {
			return nil, err
		}
		p := s.part(ctx, layouts, router, most)
		left -= int64(p.n) * g.PricePerHour.Micros()
		c.parts = append(c.parts, p.placed)
		c.kept = c.kept && p.kept
		c.over = max(c.over, p.over)
		if !c.kept && beat != nil {
			return nil, nil
		}
	}
	return c, nil
}

// fitted is a part with as many GPUs as it needs.
type fitted struct {
	placed
	kept bool
	over float64
}

// part finds the layout that needs the fewest GPUs, at most so many.
func (s *search) part(ctx context.Context, layouts []layout, router serving.RoutePolicy, most int) (best fitted) {
	least := math.MaxInt // that any of the layouts may do with
	for i := range layouts {
		l := &layouts[i]
		fewest := s.fewest(l, s.load)
		if least = min(least, fewest); l.mixed > 0 { // a server may also be on slices of two sizes, which is not searched
			least = min(least, s.gpusFor(l, l.mixed, s.load))
		}
		limit := most
		if best.kept {
			limit = best.n // with as many it may keep them better
		}
		if best.n > 0 && fewest > limit {
			continue
		}
		p := s.least(ctx, l, router, min(fewest, max(most, 1)), max(limit, 1), best.kept)
		if best.n == 0 || p.kept && !best.kept || p.kept == best.kept && (p.kept && p.n < best.n ||
			(!p.kept || p.n == best.n) && p.over < best.over) {
			if p.kept && p.n == fewest && fewest > 1 {
				p.short = fmt.Sprintf("fewer than %d of %s cannot do the work even in full batches", fewest, l.gpu.Name)
			}
			best = p
		}
	}
	best.fewest = least
	return best
}

// least finds the fewest GPUs between two numbers with which a layout keeps the objectives, by exponential and then
// binary search: more GPUs are taken never to hurt. Where none do it gives the fewest of those that come close to
// the nearest. With decided set only numbers below the best found matter, and the most is tried first.
func (s *search) least(ctx context.Context, l *layout, router serving.RoutePolicy, low, most int, decided bool) fitted {
	out := fitted{placed: placed{layout: *l}}
	missed, kept := low-1, 0
	var all []fitted // that were missed
	try := func(n int) {
		c := &candidate{kind: l.kind, parts: []placed{{layout: *l, n: n}}, router: router}
		p := s.playAt(ctx, c, s.load)
		if p.verdict == VerdictKept {
			kept, out.n, out.over, out.kept = n, n, p.over, true
			return
		}
		missed = max(missed, n)
		out.short = fmt.Sprintf("with %s of %s: %s", count(n), l.gpu.Name, s.words(p))
		if !out.kept {
			out.n, out.over = n, p.over
			all = append(all, out)
		}
	}
	n := low
	if decided {
		n = most
	}
	for step := 1; ; step *= 2 {
		if try(n); out.kept {
			break
		}
		if out.over >= 1.5 || n >= most {
			if why := s.floor(ctx, l, router); why != "" {
				return all[0]
			}
		}
		if n >= most {
			out = closest(all)
			out.tried = n
			return out
		}
		n = min(n+step, most)
	}
	for kept-missed > 1 {
		try((kept + missed) / 2)
	}
	return out
}

// closest is the first of those that come within a fifth of the nearest.
func closest(all []fitted) fitted {
	nearest := math.Inf(1)
	for i := range all {
		nearest = min(nearest, all[i].over)
	}
	return all[slices.IndexFunc(all, func(f fitted) bool { return f.over <= 1.2*nearest })]
}

func count(n int) string {
	if n == 1 {
		return "one"
	}
	return strconv.Itoa(n)
}

// floor names the objective that requests miss even when each comes alone, "" when nothing: where it is
// something, no number of GPUs helps.
func (s *search) floor(ctx context.Context, l *layout, router serving.RoutePolicy) string {
	key := s.floorKey(l)
	if known, ok := s.floors[key]; ok {
		return known
	}
	c := &candidate{kind: l.kind, parts: []placed{{layout: *l, n: 1}}, router: router}
	s.plays++
	alone := s.play(ctx, c, func(cluster serving.Cluster, routes map[int]route) (*serving.Report, error) {
		return cluster.Play(ctx, s.traffic.apart(routes))
	})
	s.floors[key] = ""
	if alone.verdict != VerdictKept {
		s.floors[key] = s.words(alone)
	}
	return s.floors[key]
}

func (s *search) floorKey(l *layout) string {
	return fmt.Sprint(l.kind, l.gpu.Name, l.describe(), l.servers[0].name, len(l.servers), len(l.slots),
		len(l.slots[0].seats))
}
