package replay

import (
	"cmp"
	"fmt"
	"math/rand" // v1: the published arrival orders were drawn with it
	"slices"
	"strconv"

	"github.com/cotenant/cotenant/decision/placement"
)

// arrivals draws the arrival order of a seed: the tasks, sorted by name, shuffled; then copies of tasks drawn from
// the sorted list until the next would take the demand for GPUs past ratio times the capacity.
func arrivals(tasks []task, seed int64, ratio float64, capacity int64) []placement.Request {
	sorted := slices.Clone(tasks)
	slices.SortFunc(sorted, func(a, b task) int { return cmp.Compare(a.name, b.name) })
	rng := rand.New(rand.NewSource(seed))
	rng.Int()
	order := slices.Clone(sorted)
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	demand := int64(0)
	for i := range order {
		demand += order[i].milli()
	}
	limit := ratio * float64(capacity)
	out := make([]placement.Request, 0, len(order))
	for i := range order {
		r := order[i].request
		r.Name = order[i].name
		out = append(out, r)
	}
	for copies := 1; ; copies++ {
		t := &sorted[rng.Intn(len(sorted))]
		if float64(demand+int64(t.request.Milli)) > limit {
			return out
		}
		demand += t.milli()
		r := t.request
		r.Name = t.name + "#" + strconv.Itoa(copies)
		out = append(out, r)
	}
}

// mixOf is the distribution of the tasks, which a placer knows in advance.
func mixOf(tasks []task) (*placement.Mix, error) {
	typical := make([]placement.Typical, len(tasks))
	for i := range tasks {
		typical[i] = placement.Typical{Request: tasks[i].request, Weight: 1}
	}
	return placement.NewMix(typical)
}

// Policies lists the policies that a trace is replayed under.
func Policies() []string { return slices.Clone(policyNames) }

var policyNames = []string{"random", "best-fit", "fgd", "cotenant"}

// policyOf makes a policy by name.
func policyOf(name string, mix *placement.Mix, seed int64) (placement.Policy, error) {
	switch name {
	case "random":
		return placement.Random{Seed: uint64(seed)}, nil
	case "best-fit":
		return placement.BestFit{}, nil
	case "fgd":
		return placement.NewFragmentation(mix), nil
	case "cotenant":
		return placement.NewCotenant(mix), nil
	}
	return nil, fmt.Errorf("no policy %q", name)
}
