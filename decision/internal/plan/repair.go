// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
)

// leave takes some workloads from their places, and returns those that are to enter: they and those that lack replicas.
func (s *search) leave(a *arranged) []int {
	s.gone = append(s.gone[:0], make([]bool, len(a.placed))...)
	gone, ws := s.gone, s.leavers[:0]
	defer func() { s.leavers = ws }()
	drop := func(w int) {
		if !gone[w] && len(s.ways[w]) > 0 {
			gone[w] = true
			ws = append(ws, w)
		}
	}
	n := 1 + s.rng.IntN(min(leaving, len(a.placed)))
	gpus := 0 // that are shared
	for i := range a.gpus {
		gpus += len(a.gpus[i])
	}
	if at := s.rng.IntN(len(a.placed)); s.whole && a.placed[at] > 0 && s.rng.IntN(2) == 0 {
		pool := s.ways[at][a.stakes[at][0].way].c.Pool // of which a node may become empty
		for _, w := range s.rng.Perm(len(a.placed)) {
			if len(ws) < n && slices.ContainsFunc(a.stakes[w][:a.used(w)], func(st stake) bool {
				return s.ways[w][st.way].c.Pool == pool
			}) {
				drop(w)
			}
		}
	} else if gpus > 0 && s.rng.IntN(2) == 0 {
		for k := 0; len(ws) < n && k < 3; k++ {
			at, site := s.rng.IntN(gpus), 0
			for ; at >= len(a.gpus[site]); site++ {
				at -= len(a.gpus[site])
			}
			for _, m := range a.gpus[site][at].Members {
				drop(m.Workload)
			}
		}
	} else {
		for range n {
			drop(s.rng.IntN(len(a.placed)))
		}
	}
	for _, w := range ws {
		s.remove(a, w)
	}
	for w, n := range a.placed {
		if n < s.pl.Wanted[w] {
			if !gone[w] && s.rng.IntN(2) == 0 {
				s.remove(a, w)
			}
			drop(w)
		}
	}
	s.rng.Shuffle(len(ws), func(i, j int) { ws[i], ws[j] = ws[j], ws[i] })
	if s.rng.IntN(3) == 0 { // those first that leave the fewest places
		size := func(w int) float64 { return s.each(w) * float64(s.pl.Wanted[w]) }
		slices.SortStableFunc(ws, func(v, w int) int { return cmp.Compare(size(w), size(v)) })
	}
	return ws
}

// each is a lower bound on the cost of a replica of a workload.
func (s *search) each(w int) float64 {
	if len(s.ways[w]) == 0 {
		return 0
	}
	return s.ways[w][0].c.Unit
}

// enter places workloads one after another, each where most of its replicas find room, at the least cost, and the rest
// of them in further places. To find other arrangements too, a way, a GPU or some replicas are left out now and then.
func (s *search) enter(a *arranged, ws []int, others bool) error {
	for _, w := range ws {
		for n := a.used(w); n < mostPlaces && a.placed[w] < s.pl.Wanted[w]; n++ {
			some, err := s.enterOne(a, w, s.pl.Wanted[w]-a.placed[w], others)
			if err != nil {
				return err
			}
			if !some {
				break
			}
		}
	}
	return nil
}

// enterOne takes the best way for a workload's replicas, and reports whether there is one.
func (s *search) enterOne(a *arranged, w, want int, others bool) (bool, error) {
	if others && want > 1 && s.rng.IntN(4) == 0 {
		want = 1 + s.rng.IntN(want-1) // the others may make more of the room
	}
	first, most, least, inside := -1, 0, 0.0, false // inside: the way is into the filled pool
	how := entry{}
	if others && s.rng.IntN(4) > 0 {
		how.salt = s.rng.Uint64()
	}
	for k := range s.ways[w] {
		if how.salt > 0 && how.salt>>(k%60)&3 == 3 {
			continue
		}
		n, cost, err := s.fit(a, w, k, want, how)
		if err != nil {
			return false, err
		}
		in := s.ways[w][k].c.Pool == s.fill
		if n > 0 && in && !inside || in == inside && (n > most || n > 0 && n == most && cheaper(cost, least)) {
			first, most, least, inside = k, n, cost, in
		}
	}
	if first < 0 {
		return false, nil
	}
	how.commit = true
	_, _, err := s.fit(a, w, first, want, how)
	return true, err
}

// full counts, by workload with replicas that have no place, the GPUs of each pool's nodes where those join the others.
func (s *search) full(a *arranged) ([]map[GroupKey]int, error) {
	out := make([]map[GroupKey]int, len(a.placed))
	for w, n := range a.placed {
		left := s.pl.Wanted[w] - n
		if left == 0 {
			continue
		}
		out[w] = map[GroupKey]int{}
		for _, v := range s.ways[w] {
			sites := &s.pl.sites[v.c.Pool]
			next := s.withWhole(&a.loads[v.c.Pool], w, v.c.Pool, left)
			if v.site != nil {
				if _, err := s.share(a, &next, v, w, left, entry{endless: true}); err != nil {
					return nil, err
				}
			}
			if !sites.fits(&next) {
				nodes, _ := sites.count(&next)
				out[w][v.c.GroupKey] = nodes * sites.each
			}
		}
	}
	return out, nil
}
