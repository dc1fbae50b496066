// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
)

// leave takes some workloads from their places, and returns those that are to enter: they and those that lack replicas.
func (s *search) leave(a *arranged) []int {
	s.gone = append(s.gone[:0], make([]bool, len(a.way))...)
	gone, ws := s.gone, s.leavers[:0]
	defer func() { s.leavers = ws }()
	drop := func(w int) {
		if !gone[w] && len(s.ways[w]) > 0 {
			gone[w] = true
			ws = append(ws, w)
		}
	}
	n := 1 + s.rng.IntN(min(leaving, len(a.way)))
	if len(s.whole) > 0 && s.rng.IntN(2) == 0 { // of one pool, which may empty a node
		pool := s.whole[s.rng.IntN(len(s.whole))]
		for _, w := range s.rng.Perm(len(a.way)) {
			if len(ws) < n && a.way[w] >= 0 && s.ways[w][a.way[w]].c.Pool == pool {
				drop(w)
			}
		}
	} else if len(a.gpus) > 0 && s.rng.IntN(2) == 0 {
		for k := 0; len(ws) < n && k < 3; k++ {
			for _, m := range a.gpus[s.rng.IntN(len(a.gpus))].members {
				drop(m.Workload)
			}
		}
	} else {
		for range n {
			drop(s.rng.IntN(len(a.way)))
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
			if a.placed[w] == 0 {
				drop(w)
			}
		}
	}
	s.rng.Shuffle(len(ws), func(i, j int) { ws[i], ws[j] = ws[j], ws[i] })
	if s.rng.IntN(3) == 0 { // those first that leave the fewest places
		slices.SortStableFunc(ws, func(v, w int) int { return cmp.Compare(s.size(w), s.size(v)) })
	}
	return ws
}

// each is a lower bound on the cost of a replica of a workload, and size on that of all its replicas.
func (s *search) each(w int) float64 {
	if len(s.ways[w]) == 0 {
		return 0
	}
	return s.ways[w][0].c.Unit
}

func (s *search) size(w int) float64 { return s.each(w) * float64(s.pl.Wanted[w]) }

// enter places workloads one after another, each where most of its replicas find room, at the least cost; where
// others are to be found too, a way or a GPU is left out now and then.
func (s *search) enter(a *arranged, ws []int, others bool) error {
	for _, w := range ws {
		salt, first := uint64(0), -1
		want := s.pl.Wanted[w]
		if others && s.short && want > 1 && s.rng.IntN(4) == 0 {
			want = 1 + s.rng.IntN(want) // the others may make more of the room
		}
		most, least := 0, 0.0
		if others && s.rng.IntN(4) > 0 {
			salt = s.rng.Uint64()
		}
		for k := range s.ways[w] {
			if salt > 0 && salt>>(k%60)&3 == 3 {
				continue
			}
			n, cost, err := s.fit(a, w, k, want, salt, false)
			if err != nil {
				return err
			}
			if n > most || n > 0 && n == most && cheaper(cost, least) {
				first, most, least = k, n, cost
			}
		}
		if first < 0 {
			continue
		}
		if _, _, err := s.fit(a, w, first, want, salt, true); err != nil {
			return err
		}
	}
	return nil
}
