package mig

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/nightly"
)

// held checks that a packing is what the demand asks for, that every layout is
// valid and that the limits are kept.
func held(t *testing.T, demand []Count, bins []Bin, p Packing) {
	t.Helper()
	got := map[string]int{}
	gpus := map[int]int{}
	for _, g := range p.Groups {
		if err := g.Layout.Validate(); err != nil {
			t.Fatalf("%s: %v", g.Layout, err)
		}
		have := bins[g.Bin].Have
		if len(have.Instances) == 0 && len(g.Layout.Instances) == 0 {
			t.Errorf("an empty layout")
		}
		for _, c := range g.Layout.Counts() {
			got[c.Profile] += c.N * g.GPUs
		}
		for _, c := range have.Counts() {
			got[c.Profile] -= c.N * g.GPUs
		}
		gpus[g.Bin] += g.GPUs
	}
	want := map[string]int{}
	for _, c := range demand {
		want[c.Profile] += c.N
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d packed, %d wanted", name, got[name], n)
		}
	}
	total := 0
	for b, n := range gpus {
		total += n
		if limit := bins[b].Limit; limit > 0 && n > limit {
			t.Errorf("bin %d: %d GPUs, limit %d", b, n, limit)
		}
	}
	if total != p.GPUs || len(p.Layouts()) != p.GPUs {
		t.Errorf("%d GPUs in groups, %d said", total, p.GPUs)
	}
	if p.Cost < p.LowerBound || p.Optimal != (p.Cost == p.LowerBound) {
		t.Errorf("cost %d, bound %d, optimal %v", p.Cost, p.LowerBound, p.Optimal)
	}
}

// bruteGPUs returns the fewest GPUs of m for n, by trying every multiset that
// fits one GPU for the first of them, and so on.
func bruteGPUs(m *Model, n multiset, sets []multiset, memo map[multiset]int) int {
	if n == (multiset{}) {
		return 0
	}
	if v, ok := memo[n]; ok {
		return v
	}
	best := 1 << 20
	for _, s := range sets {
		left, ok := n, true
		for i := range n {
			if s[i] > n[i] {
				ok = false
				break
			}
			left[i] -= s[i]
		}
		if ok {
			best = min(best, 1+bruteGPUs(m, left, sets, memo))
		}
	}
	memo[n] = best
	return best
}

// TestPackAgainstBruteForce packs every demand of up to eight items, or of up to
// five outside the nightly run.
func TestPackAgainstBruteForce(t *testing.T) {
	for _, c := range []struct {
		gpu      string
		items    int
		profiles []string
	}{
		{"a100-80gb", 8, nil},
		{"a30", 8, nil},
		{"rtx-pro-6000-blackwell-server", 5, nil},
		{"rtx-pro-6000-blackwell-server", 8, strings.Fields("1g.24gb 1g.24gb+me 1g.24gb+me.all 1g.24gb-me 2g.48gb 2g.48gb-me 4g.96gb")},
	} {
		m := gpu(t, c.gpu)
		c.items = min(c.items, nightly.Cases(5, c.items))
		if c.profiles == nil {
			c.profiles = m.ProfileNames()
		}
		sets := m.grid.multisets()
		memo := map[multiset]int{}
		checked := 0
		var demand []Count
		var n multiset
		var grow func(i, left int)
		grow = func(i, left int) {
			if i == len(c.profiles) {
				p, err := m.Pack(demand)
				if err != nil {
					t.Fatal(err)
				}
				if want := bruteGPUs(m, n, sets, memo); p.GPUs != want || !p.Optimal {
					t.Errorf("%s %v: %d GPUs (optimal %v), brute force %d", c.gpu, demand, p.GPUs, p.Optimal, want)
				}
				if checked%50 == 0 {
					held(t, demand, []Bin{{Model: m}}, p)
				}
				checked++
				return
			}
			prof, err := m.Profile(c.profiles[i])
			if err != nil {
				t.Fatal(err)
			}
			for k := 0; k <= left; k++ {
				n[prof.index] = uint8(k)
				demand = append(demand, Count{prof.Name, k})
				grow(i+1, left-k)
				demand = demand[:len(demand)-1]
			}
			n[prof.index] = 0
		}
		grow(0, c.items)
		t.Logf("%s: %d demands", c.gpu, checked)
	}
}

// bruteCost returns the lowest cost of n on bins of one profile list, from bin b
// on, of which used GPUs are taken.
func bruteCost(bins []Bin, sets [][]multiset, b, used int, n multiset, memo map[string]int64) int64 {
	if n == (multiset{}) {
		return 0
	}
	if b == len(bins) {
		return 1 << 40
	}
	key := fmt.Sprint(b, used, n)
	if v, ok := memo[key]; ok {
		return v
	}
	best := bruteCost(bins, sets, b+1, 0, n, memo)
	if limit := bins[b].Limit; limit == 0 || used < limit {
		cost := max(bins[b].Cost, 1)
		if bins[b].Owned {
			cost = 0
		}
		for _, s := range sets[b] {
			left, ok := n, true
			for i := range n {
				ok = ok && s[i] <= n[i]
				left[i] -= s[i]
			}
			if ok {
				best = min(best, cost+bruteCost(bins, sets, b, used+1, left, memo))
			}
		}
	}
	memo[key] = best
	return best
}

// TestPackCostAgainstBruteForce packs small demands on bins of several costs,
// limits and pinned instances.
func TestPackCostAgainstBruteForce(t *testing.T) {
	m := gpu(t, "a100-80gb")
	rng := rand.New(rand.NewPCG(8, 8))
	var layouts []Layout
	all, err := m.Layouts()
	if err != nil {
		t.Fatal(err)
	}
	for l := range all {
		layouts = append(layouts, l)
	}
	for range nightly.Cases(30, 150) {
		bins := []Bin{{Model: m, Cost: 7, Limit: 1 + rng.IntN(2)}, {Model: m, Have: layouts[rng.IntN(len(layouts))], Cost: 2, Limit: 2},
			{Model: m, Have: layouts[rng.IntN(len(layouts))], Limit: 1, Owned: true}, {Model: gpu(t, "h100-80gb-sxm"), Cost: 10 + int64(rng.IntN(4))}}
		demand := randomDemand(rng, m, 1+rng.IntN(9))
		p, err := Pack(demand, bins, PackOptions{})
		if err != nil {
			t.Fatal(err)
		}
		held(t, demand, bins, p)
		d, err := m.resolve(demand)
		if err != nil {
			t.Fatal(err)
		}
		var n multiset
		for i, k := range d.instances() {
			n[i] = uint8(k)
		}
		var sets [][]multiset
		for _, b := range bins {
			st, err := b.Model.stateOf(b.Have)
			if err != nil {
				t.Fatal(err)
			}
			sets = append(sets, b.Model.multisetsFrom(st))
		}
		if want := bruteCost(bins, sets, 0, 0, n, map[string]int64{}); p.Cost != want || !p.Optimal {
			t.Errorf("%v: cost %d (optimal %v, bound %d), brute force %d", demand, p.Cost, p.Optimal, p.LowerBound, want)
		}
	}
}

// TestPackCostsProven packs larger demands where costs differ, which the
// rounded-up relaxation does not settle.
func TestPackCostsProven(t *testing.T) {
	m, h100 := gpu(t, "a100-80gb"), gpu(t, "h100-80gb-sxm")
	rng := rand.New(rand.NewPCG(9, 9))
	for range nightly.Cases(4, 20) {
		bins := []Bin{{Model: m, Cost: 7, Limit: 3 + rng.IntN(10)}, {Model: h100, Cost: 11, Limit: 20},
			{Model: m, Have: layout(t, m, "1g.10gb@1,2g.20gb@4"), Limit: 5, Cost: 2}, {Model: h100, Cost: 13}}
		demand := randomDemand(rng, m, 20+rng.IntN(100))
		p, err := Pack(demand, bins, PackOptions{})
		if err != nil {
			t.Fatal(err)
		}
		held(t, demand, bins, p)
		if !p.Optimal {
			t.Errorf("%v: cost %d, bound %d", demand, p.Cost, p.LowerBound)
		}
	}
}

func randomDemand(rng *rand.Rand, m *Model, items int) []Count {
	weights := make([]float64, len(m.Profiles))
	sum := 0.0
	for i := range weights {
		if rng.IntN(4) > 0 {
			weights[i] = rng.Float64()
		}
		sum += weights[i]
	}
	if sum == 0 {
		weights[0], sum = 1, 1
	}
	counts := make([]Count, len(m.Profiles))
	for i, p := range m.Profiles {
		counts[i].Profile = p.Name
	}
	for range items {
		x := rng.Float64() * sum
		for i, w := range weights {
			if x -= w; x < 0 || i == len(weights)-1 {
				counts[i].N++
				break
			}
		}
	}
	return counts
}

// TestPackRandom packs 1,000 random demands of 20 to 5,000 items.
func TestPackRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	models := []*Model{gpu(t, "a100-80gb"), gpu(t, "H200"), gpu(t, "a30"), gpu(t, "rtx-pro-6000-blackwell-server")}
	equal := 0
	n := nightly.Cases(200, 1000)
	for i := range n {
		m := models[i%len(models)]
		demand := randomDemand(rng, m, 20+rng.IntN(4981))
		p, err := m.Pack(demand)
		if err != nil {
			t.Fatal(err)
		}
		held(t, demand, []Bin{{Model: m}}, p)
		if !p.Optimal {
			t.Errorf("%s %v: %d GPUs, bound %d", m.Key, demand, p.GPUs, p.LowerBound)
		}
		if int64(p.GPUs) == p.LowerBound {
			equal++
		}
	}
	t.Logf("%d of %d equal their lower bound", equal, n)
}

func TestPackBins(t *testing.T) {
	a100, a30 := gpu(t, "a100-80gb"), gpu(t, "a30")
	for _, c := range []struct {
		name, demand string
		bins         []Bin
		want         string
	}{
		{"one model", "1g.10gb=40,3g.40gb=12", []Bin{{Model: a100}}, "11 GPUs, cost 11, bound 11, optimal true"},
		{"two models", "1g.10gb=7,1g.6gb=5", []Bin{{Model: a100}, {Model: a30}}, "3 GPUs, cost 3, bound 3, optimal true"},
		{"cheaper model first", "1g.10gb=14", []Bin{{Model: a100, Cost: 10}, {Model: gpu(t, "h100-80gb-sxm"), Cost: 7, Limit: 1}}, "2 GPUs, cost 17, bound 17, optimal true"},
		{"pinned and owned", "3g.40gb=3", []Bin{
			{Model: a100, Have: layout(t, a100, "3g.40gb@0!busy"), Limit: 1, Owned: true}, {Model: a100}}, "2 GPUs, cost 1, bound 1, optimal true"},
		{"pinned, both alike", "4g.40gb=2", []Bin{
			{Model: a100, Have: layout(t, a100, "3g.40gb@4"), Limit: 1, Owned: true},
			{Model: a100, Have: layout(t, a100, "3g.40gb@4"), Limit: 1, Owned: true}, {Model: a100}}, "2 GPUs, cost 0, bound 0, optimal true"},
		{"compute instances", "1c.3g.40gb=8,3g.40gb=1", []Bin{{Model: a100}}, "2 GPUs, cost 2, bound 2, optimal true"},
		{"nothing", "1g.10gb=0", []Bin{{Model: a100}}, "0 GPUs, cost 0, bound 0, optimal true"},
	} {
		p, err := Pack(counts(t, c.demand), c.bins, PackOptions{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := fmt.Sprintf("%d GPUs, cost %d, bound %d, optimal %v", p.GPUs, p.Cost, p.LowerBound, p.Optimal)
		if got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
		if c.name != "compute instances" {
			held(t, counts(t, c.demand), c.bins, p)
		}
	}
}

func TestPackErrors(t *testing.T) {
	a100 := gpu(t, "a100-80gb")
	for _, c := range []struct {
		name   string
		demand []Count
		bins   []Bin
		is     error
		want   string
	}{
		{"no bins", nil, nil, ErrInvalid, "bins: is empty"},
		{"no model", nil, []Bin{{}}, ErrInvalid, "has no GPU"},
		{"unknown profile", []Count{{"9g.99gb", 1}, {"1g.5gb", 2}}, []Bin{{Model: a100}}, ErrUnknownProfile, "demand[1]"},
		{"negative", []Count{{"1g.10gb", -1}}, []Bin{{Model: a100}}, ErrInvalid, "not a count"},
		{"overflow", []Count{{"1g.10gb", MaxCount}, {"1g.10gb", MaxCount}}, []Bin{{Model: a100}}, ErrInvalid, "at most"},
		{"limit", []Count{{"7g.80gb", 2}}, []Bin{{Model: a100, Limit: 1}}, ErrInfeasible, "does not fit"},
		{"unknown placements", []Count{{"1g.24gb", 1}}, []Bin{{Model: gpu(t, "rtx-pro-5000-blackwell-48gb")}}, ErrPlacementsUnknown, ""},
		{"bad have", []Count{{"1g.10gb", 1}}, []Bin{{Model: a100, Have: Layout{Model: a100, Instances: []Instance{{Profile: a100.Profiles[0], Placement: Placement{7, 1}}}}}}, ErrInvalid, "can't stand at"},
	} {
		p, err := Pack(c.demand, c.bins, PackOptions{})
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) || p.GPUs != 0 {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func BenchmarkPack5000(b *testing.B) {
	m := gpu(b, "a100-80gb")
	demands := make([][]Count, 64)
	rng := rand.New(rand.NewPCG(5, 5))
	for i := range demands {
		demands[i] = randomDemand(rng, m, 5000)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := m.Pack(demands[i%len(demands)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkPlaceAndValidate(b *testing.B) {
	m := gpu(b, "a100-80gb")
	want := counts(b, "3g.40gb,2g.20gb,1g.10gb=2")
	b.ReportAllocs()
	for b.Loop() {
		l, err := m.Place(want, Layout{})
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Validate(); err != nil {
			b.Fatal(err)
		}
	}
}
