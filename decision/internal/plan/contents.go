// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

func (s *search) newShared(key GroupKey) *shared {
	h := &shared{key: key, sliced: traits.Of(key.Mechanism).Sliced,
		each: traits.PerInstance(key.Mechanism), index: len(s.sites), class: s.pl.sites[key.Pool].class[key.Mechanism],
		fillings: map[string]*filling{}, cuts: map[string]*cut{}}
	h.spans = h.class == classLimited && s.pl.sites[key.Pool].each > 1
	h.empty = s.filling(h, nil)
	return h
}

// newGPU is a GPU with tenants; those of MIG have no instances yet.
func (pl *Planner) newGPU(key GroupKey, members []Member, size int) GPU {
	s := &pl.sites[key.Pool]
	g := GPU{bin: bin{limit: math.MaxInt}, GroupKey: key, Size: size, domain: pl.domain(s, key.Mechanism, members)}
	firm := func(m Member) bool { return !pl.Workloads[m.Workload].Workload().Spot }
	g.Spot = s.spot && !slices.ContainsFunc(members, firm)
	for _, m := range members {
		if key.Mechanism == sharing.MechanismExclusive || traits.Of(key.Mechanism).Sliced {
			g.Members, g.n = members, g.n+m.Replicas
		} else {
			pl.put(&g.bin, m.Workload, pl.Choice(m.Workload, key), m.Replicas)
		}
	}
	return g
}

// filling returns the content with these members, which are sorted by workload.
func (s *search) filling(h *shared, members []Member) *filling {
	name := make([]byte, 0, 4*len(members))
	for _, m := range members {
		name = binary.AppendUvarint(binary.AppendUvarint(name, uint64(m.Workload)), uint64(m.Replicas))
	}
	if f := h.fillings[string(name)]; f != nil {
		return f
	}
	f := &filling{GPU: s.pl.newGPU(h.key, members, 1), site: h, room: slices.Repeat([]int16{-1}, len(s.pl.Workloads)),
		more: map[uint64]*filling{}, less: make([]*filling, len(members))}
	if h.sliced {
		f.cut = s.cutFor(h, members)
		for _, m := range members {
			f.slow += m.Replicas * s.pl.Choice(m.Workload, h.key).grade
		}
	} else if f.n > 1 {
		f.slow = s.pl.Predict(Site{GroupKey: h.key}, members).grade
	}
	h.fillings[string(name)] = f
	return f
}

// with is f with n more replicas, or instances, of w.
func (s *search) with(f *filling, w, n int) *filling {
	key := uint64(w)<<32 | uint64(n)
	if next := f.more[key]; next != nil {
		return next
	}
	next := s.filling(f.site, joined(slices.Clone(f.Members), w, n))
	f.more[key] = next
	return next
}

// without is f without any of w.
func (s *search) without(f *filling, w int) *filling {
	for at := range f.Members {
		if f.Members[at].Workload != w {
			continue
		}
		if f.less[at] == nil {
			f.less[at] = s.filling(f.site, slices.Delete(slices.Clone(f.Members), at, at+1))
		}
		return f.less[at]
	}
	return f
}

// roomIn counts the replicas, or instances, of w that can still come, at most as many as it has.
func (s *search) roomIn(f *filling, w int) (int, error) {
	if n := f.room[w]; n >= 0 {
		return int(n), nil
	}
	h, c := f.site, s.pl.Choice(w, f.site.key)
	most := (s.pl.Wanted[w] + h.each - 1) / h.each
	n := 0
	if !h.sliced {
		n = s.pl.room(&f.bin, w, c, most)
		if f.n == 0 {
			n = max(n, 1)
		}
		s.evaluated++
	} else {
		room, err := s.roomFor(h, f.cut, c.Slice.Profile.Name)
		if err != nil {
			return 0, err
		}
		n = min(room, most)
	}
	f.room[w] = int16(min(n, math.MaxInt16))
	return int(f.room[w]), nil
}

// cutFor returns the instances of members.
func (s *search) cutFor(h *shared, members []Member) *cut {
	var counts []mig.Count
	for _, m := range members {
		name := s.pl.Choice(m.Workload, h.key).Slice.Profile.Name
		at, found := slices.BinarySearchFunc(counts, name, func(c mig.Count, n string) int {
			return strings.Compare(c.Profile, n)
		})
		if !found {
			counts = slices.Insert(counts, at, mig.Count{Profile: name})
		}
		counts[at].N += m.Replicas
	}
	name := make([]byte, 0, 64)
	for _, c := range counts {
		name = append(binary.AppendUvarint(name, uint64(c.N)), c.Profile...)
	}
	if h.cuts[string(name)] == nil {
		h.cuts[string(name)] = &cut{counts, map[string]int{}}
	}
	return h.cuts[string(name)]
}

// roomFor counts the instances of a profile that can still come to a sliced GPU.
func (s *search) roomFor(h *shared, c *cut, profile string) (int, error) {
	if n, known := c.room[profile]; known {
		return n, nil
	}
	for n := 0; ; n++ {
		more := append(slices.Clone(c.counts), mig.Count{Profile: profile, N: n + 1})
		_, err := s.pl.model(h.key.Pool).Place(more, mig.Layout{})
		if errors.Is(err, mig.ErrInfeasible) {
			c.room[profile] = n
			return n, nil
		} else if err != nil {
			return 0, fmt.Errorf("decision: %w", err)
		}
	}
}

// laid is a sliced GPU with a filling's instances; left is by workload how many replicas have no place yet.
func (s *search) laid(f *filling, left map[int]int) (GPU, error) {
	layout, err := s.pl.model(f.Pool).Place(f.cut.counts, mig.Layout{})
	if err != nil {
		return GPU{}, fmt.Errorf("decision: %w", err)
	}
	waiting := map[string][]Member{}
	for _, m := range f.Members {
		name := s.pl.Choice(m.Workload, f.GroupKey).Slice.Profile.Name
		for range m.Replicas {
			n := min(f.site.each, left[m.Workload])
			left[m.Workload] -= n
			waiting[name] = append(waiting[name], Member{m.Workload, n})
		}
	}
	return s.pl.handOut(f.GroupKey, layout, waiting), nil
}
