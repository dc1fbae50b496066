package mig

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// packer turns a demand on bins into a covering problem and its solution back into layouts.
type packer struct {
	bins    []Bin
	states  []state
	classes []binClass
	items   []string // profile names, largest first
	profile [][]int  // of each bin, the profile index of each item, or -1
	cuts    []cutDemand
	problem coverProblem
}

// binClass are bins that are alike to the covering problem.
type binClass struct {
	model *Model
	state state
	cost  int64
	bins  []int
	limit int64 // of all, or negative
}

// cutDemand asks for a number of GPU instances of a profile that are cut in one way.
type cutDemand struct {
	name    string
	compute []int
	times   int
}

func newPacker(demand []Count, bins []Bin) (*packer, error) {
	pk := &packer{bins: bins}
	var list problems
	list.If(len(bins) == 0, "bins", "name at least one GPU", "is empty")
	for b, bin := range bins {
		at := fmt.Sprintf("bins[%d]", b)
		if bin.Model == nil {
			list.Addf(at, "set Model", "has no GPU")
			continue
		}
		list.If(bin.Limit < 0 || bin.Cost < 0 || bin.Cost > 1e9, at,
			"use a limit of at least 0 and a cost of 0 to 1e9", "limit %d, cost %d", bin.Limit, bin.Cost)
		st, err := bin.Model.stateOf(bin.Have)
		if errors.Is(err, ErrPlacementsUnknown) {
			return nil, err
		} else if err != nil {
			list.add(at+".have", err)
		}
		pk.states = append(pk.states, st)
	}
	if err := list.err(); err != nil {
		return nil, err
	}
	pk.readDemand(demand, &list)
	if err := list.err(); err != nil {
		return nil, err
	}
	pk.classify()
	for c := range pk.classes {
		pk.addColumns(c)
	}
	return pk, nil
}

// readDemand makes the items: one for each profile that is asked for.
func (pk *packer) readDemand(demand []Count, list *problems) {
	total, devices := tally(list, "demand", demand, pk.canonical)
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		p := pk.anyProfile(name)
		for _, cut := range packCompute(pk.strictest(), p.ComputeSlices, devices[name]) {
			cut.name = name
			pk.cuts = append(pk.cuts, cut)
			total[name] += cut.times
		}
	}
	maps.DeleteFunc(total, func(_ string, n int) bool { return n == 0 })
	pk.items = slices.SortedFunc(maps.Keys(total), func(a, b string) int {
		p, q := pk.anyProfile(a), pk.anyProfile(b)
		return cmp.Or(cmp.Compare(q.PlacementUnits, p.PlacementUnits), cmp.Compare(q.ComputeSlices, p.ComputeSlices),
			cmp.Compare(a, b))
	})
	pk.problem.items = min(len(pk.items), maxItems)
	list.If(len(pk.items) > maxItems, "demand", "split it", "asks for %d profiles, at most %d are possible",
		len(pk.items), maxItems)
	for i, name := range pk.items[:pk.problem.items] {
		list.If(total[name] > MaxCount, "demand", fmt.Sprintf("use at most %d of a profile", MaxCount),
			"%d of %s", total[name], name)
		pk.problem.demand[i] = int32(min(total[name], MaxCount))
	}
	pk.resolveItems(list)
}

// canonical returns the name that the bins' GPUs give to the profile of a device, or the one given where they
// differ, and the slices of its compute instance as Model.device has them.
func (pk *packer) canonical(name string) (found string, width int, err error) {
	for _, b := range pk.bins {
		p, w, failed := b.Model.device(name)
		switch {
		case failed != nil:
			err = cmp.Or(err, failed)
		case found == "":
			found, width = p.Name, w
		case found != p.Name:
			n, _ := ParseName(name) // device has read it
			found = n.gpuInstance().String()
		}
	}
	if found != "" {
		err = nil
	}
	return found, width, err
}

// anyProfile returns the profile of a name on the first bin that has it.
func (pk *packer) anyProfile(name string) *Profile {
	for _, b := range pk.bins {
		if p, err := b.Model.Profile(name); err == nil {
			return p
		}
	}
	return nil
}

// strictest returns the compute-instance rule that every bin's GPU obeys.
func (pk *packer) strictest() CIRule {
	rule := pk.bins[0].Model.CIRule
	for _, b := range pk.bins[1:] {
		switch other := b.Model.CIRule; {
		case rule == CIRuleSingle || other == CIRuleSingle:
			rule = CIRuleSingle
		case other == CIRuleAligned:
			rule = CIRuleAligned
		}
	}
	return rule
}

func (pk *packer) resolveItems(list *problems) {
	for _, b := range pk.bins {
		of := make([]int, len(pk.items))
		for i, name := range pk.items {
			of[i] = -1
			if p, err := b.Model.Profile(name); err == nil {
				if j := slices.Index(of[:i], p.index); j >= 0 {
					list.Addf("demand", "pack them apart", "%s and %s are one profile on %s and two elsewhere", pk.items[j], name,
						b.Model.Key)
				}
				of[i] = p.index
			}
		}
		pk.profile = append(pk.profile, of)
	}
}

// classify joins bins that are alike, which keeps the covering problem small.
func (pk *packer) classify() {
	for b, bin := range pk.bins {
		cost := cmp.Or(bin.Cost, 1)
		if bin.Owned {
			cost = 0
		}
		c := slices.IndexFunc(pk.classes, func(c binClass) bool {
			return c.model == bin.Model && c.state == pk.states[b] && c.cost == cost
		})
		if c < 0 {
			c = len(pk.classes)
			pk.classes = append(pk.classes, binClass{model: bin.Model, state: pk.states[b], cost: cost})
		}
		cl := &pk.classes[c]
		cl.bins = append(cl.bins, b)
		if bin.Limit == 0 {
			cl.limit = -1
		} else if cl.limit >= 0 {
			cl.limit += int64(bin.Limit)
		}
	}
	for _, c := range pk.classes {
		pk.problem.limits = append(pk.problem.limits, c.limit)
	}
}

// multiset counts instances of each profile.
type multiset = [maxProfiles]uint8

// multisetsFrom returns the distinct counts of what can be added to st, nothing excepted, in a fixed order.
func (m *Model) multisetsFrom(st state) []multiset {
	seen := map[multiset]bool{}
	var out []multiset
	base := st.count
	m.walk(&st, 0, everyProfile, nil, func(s *state, placed []int, _ bool) bool {
		n := s.count
		for i := range n {
			n[i] -= base[i]
		}
		if len(placed) > 0 && !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
		return true
	})
	return out
}

// addColumns adds a column for each maximal choice of the demanded profiles.
func (pk *packer) addColumns(class int) {
	c := &pk.classes[class]
	of := pk.profile[c.bins[0]]
	var sets []multiset
	if c.state == (state{}) {
		sets = c.model.grid.multisets()
	} else {
		sets = c.model.multisetsFrom(c.state)
	}
	index := map[itemCounts]bool{}
	var takes []itemCounts
	for _, n := range sets {
		var take itemCounts
		left := n
		for i, p := range of {
			if p >= 0 {
				take[i] = int32(n[p])
				left[p] = 0
			}
		}
		if left == (multiset{}) {
			index[take] = true
			takes = append(takes, take)
		}
	}
	for _, take := range takes {
		maximal := true
		for i := range of {
			grown := take
			grown[i]++
			maximal = maximal && !index[grown]
		}
		if maximal {
			pk.problem.columns = append(pk.problem.columns, column{take: take, cost: c.cost, bin: class})
		}
	}
}

// packing turns a solution into layouts.
func (pk *packer) packing(sol coverSolution) (Packing, error) {
	a := assembler{packer: pk, used: make([]int, len(pk.bins)), groups: map[string]int{}}
	if err := pk.problem.uses(sol, a.emit); err != nil {
		return Packing{}, err
	}
	a.out.LowerBound, a.out.Optimal = sol.bound, sol.optimal || a.out.Cost == sol.bound
	return a.out, nil
}

// assembler builds a packing. It uses the packer's cuts up.
type assembler struct {
	*packer
	used   []int // GPUs of each bin
	groups map[string]int
	out    Packing
}

// emit gives take to so many GPUs of the column's class.
func (a *assembler) emit(col *column, take itemCounts, times int64) error {
	class := &a.classes[col.bin]
	a.out.Cost += col.cost * times
	a.out.GPUs += int(times)
	for _, b := range class.bins {
		room := int(times)
		if limit := a.bins[b].Limit; limit > 0 {
			room = min(room, limit-a.used[b])
		}
		a.used[b] += room
		times -= int64(room)
		for room > 0 {
			layout, same, err := a.layout(b, take, room)
			if err != nil {
				return err
			}
			key := fmt.Sprint(b, ":", layout)
			g, ok := a.groups[key]
			if !ok {
				g = len(a.out.Groups)
				a.groups[key], a.out.Groups = g, append(a.out.Groups, PackedGroup{Bin: b, Layout: layout})
			}
			a.out.Groups[g].GPUs += same
			room -= same
		}
	}
	return nil
}

// layout places take on a GPU of bin b and says how many of the next GPUs get
// the very same: one while instances are still to be cut, else all.
func (a *assembler) layout(b int, take itemCounts, gpus int) (Layout, int, error) {
	m := a.bins[b].Model
	var n [maxProfiles]int
	for i, p := range a.profile[b] {
		if p >= 0 {
			n[p] = int(take[i])
		}
	}
	slots, ok := m.search(a.states[b], n)
	if !ok {
		return Layout{}, 0, m.explain(n, a.bins[b].Have)
	}
	l := m.layoutOf(slots)
	for i := range l.Instances {
		name := a.items[slices.Index(a.profile[b], l.Instances[i].Profile.index)]
		cut := slices.IndexFunc(a.cuts, func(c cutDemand) bool { return c.times > 0 && c.name == name })
		if cut >= 0 {
			a.cuts[cut].times--
			l.Instances[i].Compute = a.cuts[cut].compute
			gpus = 1
		}
	}
	return NewLayout(m, append(l.Instances, a.bins[b].Have.Instances...)...), gpus, nil
}
