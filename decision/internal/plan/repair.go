package plan

import (
	"cmp"
	"slices"
)

// leave takes some workloads from their places, and returns those that are to
// enter: they and those that lack replicas.
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
		if n < s.pl.Workloads[w].Workload().ReplicaCount() {
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

// size bounds what all replicas of a workload take from below, in money.
func (s *search) size(w int) float64 {
	return s.ways[w][0].c.Unit * float64(s.pl.Workloads[w].Workload().ReplicaCount())
}

func (s *search) remove(a *arranged, w int) {
	if a.way[w] < 0 {
		return
	}
	v := s.ways[w][a.way[w]]
	if v.site == nil {
		n := a.placed[w] * s.pl.Workloads[w].Workload().GPUCount()
		a.used[v.c.Pool] -= n
		if s.owns(w, v.c.Pool) {
			a.spots[v.c.Pool] -= n
		}
	} else {
		kept := a.gpus[:0]
		for _, f := range a.gpus {
			if f.site == v.site {
				if f.spot {
					a.spots[v.c.Pool]--
				}
				if f = s.without(f, w); len(f.members) == 0 {
					a.used[v.c.Pool]--
					continue
				}
				if f.spot {
					a.spots[v.c.Pool]++
				}
			}
			kept = append(kept, f)
		}
		a.gpus = kept
	}
	a.way[w], a.placed[w] = -1, 0
}

// owns says whether GPUs of w's own in a pool may be spot.
func (s *search) owns(w, pool int) bool {
	return s.pl.Pools[pool].Pool.Spot != nil && s.pl.Workloads[w].Workload().Spot
}

// enter places workloads one after another, each where most of its replicas find
// room, at the least cost; now and then a way or a GPU is left out.
func (s *search) enter(a *arranged, ws []int) error {
	for _, w := range ws {
		salt, first := s.rng.Uint64(), -1
		want := s.pl.Workloads[w].Workload().ReplicaCount()
		if s.short && want > 1 && s.rng.IntN(4) == 0 {
			want = 1 + s.rng.IntN(want) // the others may make more of the room
		}
		most, least := 0, 0.0
		if s.rng.IntN(4) == 0 {
			salt = 0
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

// fit counts the replicas of w, of those wanted, that find room by one of its ways, and what that adds to the cost;
// with commit set they take their places.
func (s *search) fit(a *arranged, w, k, want int, salt uint64, commit bool) (placed int, cost float64, err error) {
	v := s.ways[w][k]
	p := v.c.Pool
	t := &s.guide[p]
	each := 1
	used, spots := a.used[p], a.spots[p]
	if v.site == nil {
		gpus := s.pl.Workloads[w].Workload().GPUCount()
		placed = min(want, (t.Pool.Count-used)/gpus)
		used += placed * gpus
		if s.owns(w, p) {
			spots += placed * gpus
		}
	} else {
		each = v.site.each
		s.looked += len(a.gpus)
		left := (want + each - 1) / each
		add := func(f *filling, most int) *filling {
			left -= most
			if !commit && t.Spot.Count == 0 {
				return f // what it would hold changes nothing
			}
			f = s.with(f, w, most)
			if f.spot {
				spots++
			}
			return f
		}
		for i, f := range a.gpus {
			if left == 0 {
				break
			}
			if f.site != v.site || salt>>(i%61)&31 == 31 {
				continue
			}
			n, err := s.roomIn(f, w)
			if err != nil {
				return 0, 0, err
			}
			if n = min(n, left); n == 0 {
				continue
			}
			if f.spot {
				spots--
			}
			if f = add(f, n); commit {
				a.gpus[i] = f
			}
		}
		for left > 0 && used < t.Pool.Count {
			n, err := s.roomIn(v.site.empty, w)
			if err != nil {
				return 0, 0, err
			}
			if n == 0 {
				break
			}
			used++
			if f := add(v.site.empty, min(n, left)); commit {
				a.gpus = append(a.gpus, f)
			}
		}
		placed = min(want, ((want+each-1)/each-left)*each)
	}
	cost = t.of(used, spots) - t.of(a.used[p], a.spots[p])
	if commit && placed > 0 {
		a.way[w], a.placed[w] = k, placed
		a.used[p], a.spots[p] = used, spots
	}
	return placed, cost, nil
}
