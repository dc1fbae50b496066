// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// Count asks for N devices of a profile. The name may be that of a compute
// instance ("1c.3g.40gb"): such devices share GPU instances, as many as fit.
type Count struct {
	Profile string
	N       int
}

// String writes the count as ParseCounts reads it.
func (c Count) String() string { return fmt.Sprintf("%s=%d", c.Profile, c.N) }

// MaxCount is the largest number that a Count may ask for.
const MaxCount = 1_000_000

// ParseCounts reads "3g.40gb=1,2g.20gb=2"; "=1" may be left out. The profiles'
// names are checked for their form only. The error names every bad place.
func ParseCounts(s string) ([]Count, error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	var list problem.List
	var counts []Count
	for i, item := range strings.Split(s, ",") {
		path := fmt.Sprintf("[%d]", i)
		name, num, given := strings.Cut(strings.TrimSpace(item), "=")
		c := Count{Profile: strings.TrimSpace(name), N: 1}
		var err error
		if given {
			c.N, err = parseCount(strings.TrimSpace(num))
			list.AddErr(path, err)
		}
		_, err = ParseName(c.Profile)
		list.AddErr(path, err)
		counts = append(counts, c)
	}
	if err := invalid(list.Err()); err != nil {
		return nil, err
	}
	return counts, nil
}

func parseCount(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n > MaxCount {
		return 0, &problem.Problem{Message: fmt.Sprintf("%q is not a count", problem.Clip(s)),
			Remedy: fmt.Sprintf("write a whole number from 0 to %d", MaxCount)}
	}
	return int(n), nil
}

// demand holds counts for one model: whole GPU instances of each profile,
// and GPU instances that are cut into compute instances.
type demand struct {
	n      [maxProfiles]int
	cut    []cutInstance
	cutted [maxProfiles]int // GPU instances in cut, by profile
}

// instances returns the GPU instances of each profile that the demand needs.
func (d *demand) instances() [maxProfiles]int {
	n := d.n
	for i, k := range d.cutted {
		n[i] += k
	}
	return n
}

type cutInstance struct {
	profile int
	compute []int
}

// resolve turns counts into a demand on m. The error joins every unknown profile and bad count.
func (m *Model) resolve(counts []Count) (demand, error) {
	var d demand
	var list problem.List
	whole, cut := tally(&list, "want", counts, m.device)
	if err := invalid(list.Err()); err != nil {
		return demand{}, err
	}
	for i, p := range m.Profiles {
		d.n[i] = min(whole[p], MaxCount)
		for size, n := range cut[p] {
			// More devices than a GPU has slices can't be placed; a few too many say so as well as a million.
			cut[p][size] = min(n, maxUnits*maxUnits)
		}
		for _, c := range packCompute(m.CIRule, p.ComputeSlices, cut[p]) {
			for range c.times {
				d.cut = append(d.cut, cutInstance{i, c.compute})
			}
			d.cutted[i] += c.times
		}
	}
	return d, nil
}

// tally adds counts up by profile: GPU instances, and compute instances of less than one by their slices.
func tally[P comparable](list *problem.List, path string, counts []Count, device func(name string) (P, int, error)) (
	whole map[P]int, cut map[P]map[int]int) {
	whole, cut = map[P]int{}, map[P]map[int]int{}
	for i, c := range counts {
		at := fmt.Sprintf("%s[%d]", path, i)
		if c.N < 0 || c.N > MaxCount {
			list.Addf(at, fmt.Sprintf("use 0 to %d", MaxCount), "%s: %d is not a count", problem.Clip(c.Profile), c.N)
			continue
		}
		p, slices, err := device(c.Profile)
		switch {
		case err != nil:
			list.AddErr(at, err)
		case slices == 0:
			whole[p] += c.N
		case cut[p] == nil:
			cut[p] = map[int]int{slices: c.N}
		default:
			cut[p][slices] += c.N
		}
	}
	return whole, cut
}

// device returns the profile of a device's name, and the slices of its compute
// instance where that does not span the GPU instance, else 0.
func (m *Model) device(name string) (*Profile, int, error) {
	if p := m.byName[name]; p != nil {
		return p, 0, nil
	}
	p, err := m.Profile(name)
	if err != nil {
		return nil, 0, err
	}
	if n, err := ParseName(name); err == nil && n.ComputeSlices != n.Slices {
		return p, n.ComputeSlices, nil
	}
	return p, 0, nil
}

// packCompute puts compute instances (slices to number) into as few GPU instances of g slices as possible. It is
// the same covering problem as packing GPUs, with the ways to cut a GPU instance as columns.
func packCompute(rule CIRule, g int, sizes map[int]int) []cutDemand {
	var p coverProblem
	var of []int
	for c := g; c >= 1; c-- {
		if sizes[c] > 0 {
			p.demand[len(of)] = int32(min(sizes[c], MaxCount))
			of = append(of, c)
		}
	}
	p.items = len(of)
	if p.items == 0 {
		return nil
	}
	p.columns = cutColumns(rule, g, of)
	sol := p.solve(100)
	var cuts []cutDemand
	_ = p.uses(sol, func(take itemCounts, times int64) error {
		cut := cutDemand{times: int(times)}
		for i, size := range of {
			cut.compute = append(cut.compute, slices.Repeat([]int{size}, int(take[i]))...)
		}
		cuts = append(cuts, cut)
		return nil
	})
	return cuts
}

// cutColumns returns the maximal ways to cut a GPU instance of g slices into
// compute instances of the given sizes, largest first.
func cutColumns(rule CIRule, g int, of []int) []itemCounts {
	var columns []itemCounts
	var take itemCounts
	var sizes []int
	var grow func(i int)
	grow = func(i int) {
		if i == len(of) {
			for _, c := range of {
				if fitCompute(rule, g, append(slices.Clone(sizes), c)) {
					return
				}
			}
			columns = append(columns, take)
			return
		}
		if fitCompute(rule, g, append(slices.Clone(sizes), of[i])) {
			sizes = append(sizes, of[i])
			take[i]++
			grow(i)
			take[i]--
			sizes = sizes[:len(sizes)-1]
		}
		grow(i + 1)
	}
	grow(0)
	return columns
}

// fitCompute reports whether compute instances fit in a GPU instance of g slices.
func fitCompute(rule CIRule, g int, sizes []int) bool {
	sum, slots := 0, 0
	for _, c := range sizes {
		sum += c
		slots += computeSlots(c)
	}
	switch rule {
	case CIRuleSingle:
		return len(sizes) <= 1 && sum <= g
	case CIRuleContiguous:
		return sum <= g
	}
	return sum <= g && slots <= computeSlots(g) // unknown is as strict as aligned
}

// computeSlots is the number of slots that c compute slices take where compute
// instances are aligned: the next power of two.
func computeSlots(c int) int {
	s := 1
	for s < c {
		s *= 2
	}
	return s
}
