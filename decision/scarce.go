package decision

import (
	"cmp"
	"maps"
	"slices"
)

// scarce settles workloads of which not all find room: of the sets that fit
// entirely and can't be larger it takes the one beside which most replicas of the
// others are placed in part, the cheapest among equals.
func (pl *planner) scarce(ws []int, fits func(set int) bool, take func(set int) error) error {
	groups, chosen, placed := maps.Clone(pl.groups), slices.Clone(pl.chosen), slices.Clone(pl.placed)
	restore := func() {
		pl.groups = maps.Clone(groups)
		copy(pl.chosen, chosen)
		copy(pl.placed, placed)
		for _, w := range ws {
			pl.full[w] = nil
		}
	}
	full := 1<<len(ws) - 1
	var sets []int
	for set := full; set >= 0; set-- {
		if (set == 0 || fits(set)) && !slices.ContainsFunc(sets, func(larger int) bool { return larger&set == set }) {
			sets = append(sets, set)
		}
	}
	best, most, least := 0, -1, 0.0
	for _, set := range sets {
		if len(sets) == 1 {
			break
		}
		if err := take(set); err != nil {
			return err
		}
		n := 0
		for _, w := range ws {
			n += pl.placed[w]
		}
		if price := pl.price(); n > most || n == most && cmp.Compare(price, least) < 0 {
			best, most, least = set, n, price
		}
		restore()
	}
	if len(sets) == 1 {
		best = sets[0]
	}
	return take(best)
}

// price is what the GPUs in use cost for an hour.
func (pl *planner) price() float64 {
	sum := 0.0
	for p := range pl.pools {
		n, spot := pl.used(p)
		sum += pl.costOfGPUs(p, n, spot)
	}
	return sum
}
