// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// Count asks for N GPU instances of a profile, each with one compute instance that spans it.
type Count struct {
	Profile string
	N       int
}

// String writes the count as ParseCounts reads it.
func (c Count) String() string { return fmt.Sprintf("%s=%d", c.Profile, c.N) }

// MaxCount is the largest number that a Count may ask for.
const MaxCount = 1_000_000

// ParseCounts reads "3g.40gb=1,2g.20gb=2"; "=1" may be left out. Only the form of the profile names is checked. The
// error names every bad entry.
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

// resolve adds counts up by profile. The error names every unknown profile and bad count, each at its place under path.
func (m *Model) resolve(path string, counts []Count) (n [maxProfiles]int, err error) {
	var list problem.List
	for i, c := range counts {
		at := fmt.Sprintf("%s[%d]", path, i)
		if c.N < 0 || c.N > MaxCount {
			list.Addf(at, fmt.Sprintf("use 0 to %d", MaxCount), "%s: %d is not a count", problem.Clip(c.Profile), c.N)
			continue
		}
		p, err := m.Profile(c.Profile)
		if err != nil {
			list.AddErr(at, err)
			continue
		}
		if m.byName[c.Profile] == nil {
			name, _ := ParseName(c.Profile) // Profile has read it
			list.If(name.ComputeSlices < name.Slices, at, fmt.Sprintf("use %s, and divide it with nvidia-smi mig -cci", p),
				"%s: compute instances within a GPU instance are not planned", c.Profile)
		}
		n[p.index] += c.N
		list.If(n[p.index] > MaxCount, at, fmt.Sprintf("use at most %d of a profile", MaxCount),
			"%d of %s", n[p.index], p)
		n[p.index] = min(n[p.index], MaxCount)
	}
	return n, invalid(list.Err())
}

// fitCompute reports whether compute instances fit in a GPU instance of g slices.
func fitCompute(rule string, g int, sizes []int) bool {
	sum, slots := 0, 0
	for _, c := range sizes {
		sum += c
		slots += computeSlots(c)
	}
	switch rule {
	case ciRuleSingle:
		return len(sizes) <= 1 && sum <= g
	case ciRuleContiguous:
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
