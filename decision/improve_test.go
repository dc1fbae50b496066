package decision

import (
	"math/rand/v2"
	"testing"

	"github.com/cotenant/cotenant/internal/nightly"
)

// planned is a fleet's planner with everything arranged.
func planned(t *testing.T, f *Fleet) *planner {
	t.Helper()
	pl, err := planFleet(f, Options{Confidence: DefaultConfidence, Headroom: &DefaultHeadroom, MaxPoolsListed: 16}, rounds)
	if err != nil {
		t.Fatal(err)
	}
	return pl
}

// TestSearchFindsWhatIsBest: from nothing, the search places as many replicas for
// as little as comparing all arrangements does, and never more.
func TestSearchFindsWhatIsBest(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(41, 42))
	short := 0
	for i := range nightly.Cases(10, 40) {
		f := smallFleet(rng)
		if i%2 == 1 {
			runShort(rng, f)
		}
		pl := planned(t, f)
		if pl.search != SearchAll {
			continue
		}
		exact := pl.newSearch().present()
		if len(pl.lacking()) > 0 {
			short++
		}
		pl.clear()
		if err := pl.improve(); err != nil {
			t.Fatal(err)
		}
		found := pl.newSearch().present()
		if found.compare(exact) != 0 {
			t.Errorf("%d replicas for %.3f, found %d for %.3f", exact.replicas, exact.cost, found.replicas, found.cost)
		}
		for p := range pl.pools {
			if used, _ := pl.used(p); used > pl.pools[p].pool.Count {
				t.Errorf("%d GPUs of %d in use", used, pl.pools[p].pool.Count)
			}
		}
	}
	if short < nightly.Cases(2, 8) {
		t.Errorf("GPUs ran short in %d fleets", short)
	}
}
