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
)

func (s *search) newShared(key GroupKey) *shared {
	h := &shared{key: key, sliced: traits.Of(key.Mechanism).Sliced,
		each: traits.PerInstance(key.Mechanism), index: len(s.sites), class: s.pl.sites[key.Pool].class[key.Mechanism],
		fillings: map[string]*filling{}, instances: map[string]int{}}
	h.spans = h.class == classLimited && s.pl.sites[key.Pool].each > 1
	h.empty = s.filling(h, nil)
	return h
}

// filling returns the content with these members, which are sorted by workload, and may change afterwards.
func (s *search) filling(h *shared, members []Member) *filling {
	s.members, s.name = members, s.name[:0]
	for _, m := range members {
		s.name = binary.AppendUvarint(binary.AppendUvarint(s.name, uint64(m.Workload)), uint64(m.Replicas))
	}
	if f := h.fillings[string(s.name)]; f != nil {
		return f
	}
	name := string(s.name)
	members = slices.Clone(members)
	f := &filling{GPU: s.pl.newGPU(h.key, members, 1), site: h, room: slices.Repeat([]int16{-1}, len(s.pl.Workloads))}
	if h.sliced {
		f.cut = s.cut(h, members)
		for _, m := range members {
			f.slow += m.Replicas * s.pl.Choice(m.Workload, h.key).grade
		}
	} else if f.n > 1 {
		f.slow = s.pl.Predict(Site{GroupKey: h.key}, members).grade
	}
	h.fillings[name] = f
	return f
}

// with is f with n more replicas, or instances, of w.
func (s *search) with(f *filling, w, n int) *filling {
	return s.filling(f.site, joined(append(s.members[:0], f.Members...), w, n))
}

// without is f without any of w.
func (s *search) without(f *filling, w int) *filling {
	if !has(f.Members, w) {
		return f
	}
	others := func(m Member) bool { return m.Workload == w }
	return s.filling(f.site, slices.DeleteFunc(append(s.members[:0], f.Members...), others))
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
		room, err := s.instances(f, c.Slice.Profile.Name)
		if err != nil {
			return 0, err
		}
		n = min(room, most)
	}
	f.room[w] = int16(min(n, math.MaxInt16))
	return int(f.room[w]), nil
}

// cut returns the instances of members, in the order of their profiles.
func (s *search) cut(h *shared, members []Member) (counts []mig.Count) {
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
	return counts
}

// instances counts those of a profile that can still come to a sliced GPU.
func (s *search) instances(f *filling, profile string) (int, error) {
	s.name = append(s.name[:0], profile...)
	for _, c := range f.cut {
		s.name = append(binary.AppendUvarint(s.name, uint64(c.N)), c.Profile...)
	}
	if n, known := f.site.instances[string(s.name)]; known {
		return n, nil
	}
	key := string(s.name)
	for n := 0; ; n++ {
		more := append(slices.Clone(f.cut), mig.Count{Profile: profile, N: n + 1})
		_, err := s.pl.model(f.Pool).Place(more, mig.Layout{})
		if errors.Is(err, mig.ErrInfeasible) {
			f.site.instances[key] = n
			return n, nil
		} else if err != nil {
			return 0, fmt.Errorf("decision: %w", err)
		}
	}
}

// laid is a sliced GPU with a filling's instances; left is by workload how many replicas have no place yet.
func (s *search) laid(f *filling, left map[int]int) (GPU, error) {
	layout, err := s.pl.model(f.Pool).Place(f.cut, mig.Layout{})
	if err != nil {
		return GPU{}, fmt.Errorf("decision: %w", err)
	}
	waiting := map[string][]Member{} // by profile
	for _, m := range f.Members {
		name := s.pl.Choice(m.Workload, f.GroupKey).Slice.Profile.Name
		for range m.Replicas {
			n := min(f.site.each, left[m.Workload])
			left[m.Workload] -= n
			waiting[name] = append(waiting[name], Member{m.Workload, n})
		}
	}
	var members []Member
	for _, in := range layout.Instances {
		queue := waiting[in.Profile.Name]
		members, waiting[in.Profile.Name] = append(members, queue[0]), queue[1:]
	}
	g := s.pl.newGPU(f.GroupKey, members, 1)
	g.Layout = layout
	return g, nil
}
