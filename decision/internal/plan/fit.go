// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"sort"
)

// remove takes a workload from its places.
func (s *search) remove(a *arranged, w int) {
	for _, of := range a.stakes[w][:a.used(w)] {
		v := s.ways[w][of.way]
		p := v.c.Pool
		if v.site == nil {
			a.loads[p] = s.withWhole(&a.loads[p], w, p, -int(of.n))
			continue
		}
		gpus := a.gpus[v.site.index]
		kept := gpus[:0]
		firm, spot := int32(0), int32(0)
		s.spans = s.spans[:0]
		for _, f := range gpus {
			if f = s.without(f, w); f.n == 0 {
				continue
			}
			if firm++; f.Spot {
				firm, spot = firm-1, spot+1
			}
			if v.site.spans {
				s.spans = append(s.spans, f.span(len(s.spans)))
			}
			kept = append(kept, f)
		}
		a.gpus[v.site.index] = kept
		part := s.partOf(v.site, firm, spot)
		a.loads[p] = a.loads[p].swapped(&a.parts[v.site.index], &part)
		a.parts[v.site.index] = part
	}
	a.stakes[w], a.placed[w] = [mostPlaces]stake{}, 0
}

// partOf returns the load that so many GPUs of a site, those of spans where their slots matter, add to its pool.
func (s *search) partOf(h *shared, firm, spot int32) (l load) {
	st := &s.pl.sites[h.key.Pool]
	if h.spans {
		l.onOwn(st, h.class, s.spans)
	} else {
		l.alike(st, h.class, firm, spot)
	}
	return l
}

// withWhole is a pool's load with n more replicas of a workload on whole GPUs, or fewer.
func (s *search) withWhole(l *load, w, p, n int) load {
	st, size := &s.pl.sites[p], s.pl.Workloads[w].Workload().GPUCount()
	out := *l
	out.gpus += int32(n * size)
	cheap := s.owns(w, p)
	if cheap {
		out.spot += int32(n * size)
	}
	if st.each == 1 {
		return out
	}
	all := make([]int32, 2*st.each+2)
	sizes, spots := all[:st.each+1], all[st.each+1:]
	if l.wholes != nil {
		copy(sizes, l.sizes)
		copy(spots, l.spotSizes)
	}
	if cheap {
		spots[size] += int32(n)
	} else {
		sizes[size] += int32(n)
	}
	out.wholes = &wholes{sizes: sizes, spotSizes: spots, nodes: int32(bestFit(make([]int32, st.each+1), sizes))}
	for size, n := range sizes {
		out.wholes.gpus += int32(size) * n
	}
	return out
}

// owns reports whether GPUs of w's own in a pool may be spot.
func (s *search) owns(w, pool int) bool {
	return s.pl.sites[pool].spot && s.pl.Workloads[w].Workload().Spot
}

// most is the largest number, up to n, for which a load fits, which is the last that it tries; -1 where none does.
func most(n int, fits func(int) bool) int {
	if fits(n) {
		return n
	}
	if n -= 1 + sort.Search(n, func(k int) bool { return fits(n - 1 - k) }); n >= 0 {
		fits(n)
	}
	return n
}

// fit counts the replicas of w, of those wanted, that find room by one of its ways, and returns the added cost.
func (s *search) fit(a *arranged, w, k, want int, how entry) (placed int, cost float64, err error) {
	v := s.ways[w][k]
	p := v.c.Pool
	t := &s.guide[p]
	now := &a.loads[p]
	var next load
	if v.site == nil {
		size := s.pl.Workloads[w].Workload().GPUCount()
		placed = min(want, (t.Pool.Count-int(now.gpus))/size)
		if placed > 0 {
			placed = most(placed, func(n int) bool {
				next = s.withWhole(now, w, p, n)
				return t.sites.fits(&next)
			})
		}
		if placed <= 0 {
			return 0, 0, nil
		}
	} else if placed, err = s.share(a, &next, v, w, want, how); placed <= 0 || err != nil {
		return 0, 0, err
	}
	cost = t.of(&next) - t.of(now) + v.c.Longer*float64(placed)
	if how.commit {
		a.add(w, k, placed)
		a.loads[p] = next
	}
	return placed, cost, nil
}

// share is fit on GPUs that are shared; next becomes the load of their pool.
func (s *search) share(a *arranged, next *load, v wayIn, w, want int, how entry) (int, error) {
	h, p := v.site, v.c.Pool
	st, gpus, part := &s.pl.sites[p], a.gpus[h.index], &a.parts[h.index]
	all := (want + h.each - 1) / h.each
	firm, spot, left, err := s.join(gpus, part, v, w, all, how.salt)
	room, fresh := 0, 0
	if left > 0 && err == nil {
		room, err = s.roomIn(h.empty, w)
	}
	if err != nil {
		return 0, err
	}
	if room > 0 {
		fresh = (left + room - 1) / room
		if !how.endless {
			fresh = min(fresh, st.pool.Pool.Count-int(a.loads[p].gpus))
		}
	}
	if len(s.joins) == 0 && fresh <= 0 {
		return 0, nil
	}
	old, own := len(s.spans), load{}
	fresh = most(fresh, func(n int) bool {
		s.spans = s.spans[:old]
		for i := 0; h.spans && i < n; i++ {
			s.spans = append(s.spans, s.spanWith(h.empty, w, v.c, min(room, left-i*room), s.owns(w, p)))
		}
		if s.owns(w, p) {
			own = s.partOf(h, firm, spot+int32(n))
		} else {
			own = s.partOf(h, firm+int32(n), spot)
		}
		*next = a.loads[p].swapped(part, &own)
		return how.endless || st.fits(next)
	})
	if fresh < 0 {
		return 0, nil
	}
	if how.commit {
		for _, j := range s.joins {
			gpus[j.gpu] = s.with(gpus[j.gpu], w, j.n)
		}
		for i := range fresh {
			gpus = append(gpus, s.with(h.empty, w, min(room, left-i*room)))
		}
		a.gpus[h.index], *part = gpus, own
	}
	left = max(0, left-fresh*room)
	return min(want, (all-left)*h.each), nil
}

// join finds room for replicas, or instances, of w on GPUs in use: those that come to each, and the spans of all where
// nodes depend on them. It returns the GPUs that then must not be interrupted, those that may be, and the number that
// finds no room.
func (s *search) join(gpus []*filling, part *load, v wayIn, w, left int, salt uint64) (firm, spot int32, none int,
	err error) {
	firm, spot = part.gpus-part.spot, part.spot
	s.visited += len(gpus)
	s.joins, s.spans = s.joins[:0], s.spans[:0]
	for i, f := range gpus {
		if left == 0 && !v.site.spans {
			break
		}
		n, cheap := 0, f.Spot
		if left > 0 && salt>>(i%61)&31 != 31 {
			if n, err = s.roomIn(f, w); err != nil {
				return 0, 0, 0, err
			}
			n = min(n, left)
		}
		if n > 0 {
			left -= n
			s.joins = append(s.joins, join{i, n})
			if cheap = f.Spot && s.owns(w, v.c.Pool); f.Spot && !cheap {
				firm, spot = firm+1, spot-1
			}
		}
		if v.site.spans {
			s.spans = append(s.spans, s.spanWith(f, w, v.c, n, cheap))
		}
	}
	return firm, spot, left, nil
}

// spanWith is the span of a GPU to which n more replicas of a workload come.
func (s *search) spanWith(f *filling, w int, c *Choice, n int, cheap bool) span {
	one := f.GPU
	one.n, one.Spot, one.domain = f.n+n, cheap, cmp.Or(f.domain, f.site.domain)
	if n > 0 {
		one.limit = min(one.limit, c.Tenants)
		if f.site.apart {
			one.domain = s.with(f, w, n).domain
		}
	}
	return one.span(len(s.spans))
}
