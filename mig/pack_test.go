// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/nightly"
)

// held checks that a packing meets the demand and that every layout is valid.
func held(t *testing.T, demand []Count, p Packing) {
	t.Helper()
	got, total := map[string]int{}, 0
	for _, g := range p.Groups {
		if err := g.Layout.Validate(); err != nil {
			t.Fatalf("%s: %v", g.Layout, err)
		}
		if len(g.Layout.Instances) == 0 {
			t.Errorf("an empty layout")
		}
		for _, in := range g.Layout.Instances {
			got[in.Profile.Name] += g.GPUs
		}
		total += g.GPUs
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
	if total != p.GPUs || len(p.Layouts()) != p.GPUs {
		t.Errorf("%d GPUs in groups, %d in all", total, p.GPUs)
	}
	if int64(p.GPUs) < p.LowerBound || p.Optimal != (int64(p.GPUs) == p.LowerBound) {
		t.Errorf("%d GPUs, bound %d, optimal %v", p.GPUs, p.LowerBound, p.Optimal)
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

// TestPackAgainstBruteForce packs every demand of up to eight items, or of up to five outside the nightly run.
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
				p := must.Get(m.Pack(demand))(t)
				if want := bruteGPUs(m, n, sets, memo); p.GPUs != want || !p.Optimal {
					t.Errorf("%s %v: %d GPUs (optimal %v), brute force %d", c.gpu, demand, p.GPUs, p.Optimal, want)
				}
				if checked%50 == 0 {
					held(t, demand, p)
				}
				checked++
				return
			}
			prof := must.Get(m.Profile(c.profiles[i]))(t)
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
		p := must.Get(m.Pack(demand))(t)
		held(t, demand, p)
		if !p.Optimal {
			t.Errorf("%s %v: %d GPUs, bound %d", m.Key, demand, p.GPUs, p.LowerBound)
		}
		if int64(p.GPUs) == p.LowerBound {
			equal++
		}
	}
	t.Logf("%d of %d equal their lower bound", equal, n)
}

func TestPack(t *testing.T) {
	a100 := gpu(t, "a100-80gb")
	for demand, want := range map[string]string{
		"1g.10gb=40,3g.40gb=12": "11 GPUs, bound 11, optimal true", "1g.10gb=0": "0 GPUs, bound 0, optimal true",
	} {
		p, err := a100.Pack(counts(t, demand))
		if got := fmt.Sprintf("%d GPUs, bound %d, optimal %v", p.GPUs, p.LowerBound, p.Optimal); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", demand, got, err, want)
		}
	}
}

func TestPackErrors(t *testing.T) {
	a100 := gpu(t, "a100-80gb")
	for _, c := range []struct {
		name   string
		model  *Model
		demand []Count
		is     error
		want   string
	}{
		{"unknown profile", a100, []Count{{"9g.99gb", 1}, {"1g.5gb", 2}}, ErrInvalid, "demand[1]"},
		{"negative", a100, []Count{{"1g.10gb", -1}}, ErrInvalid, "not a count"},
		{"overflow", a100, []Count{{"1g.10gb", MaxCount}, {"1g.10gb", MaxCount}}, ErrInvalid, "at most"},
		{"unknown placements", gpu(t, "rtx-pro-5000-blackwell-48gb"), []Count{{"1g.24gb", 1}}, ErrPlacementsUnknown, ""},
	} {
		p, err := c.model.Pack(c.demand)
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
		must.Get(m.Pack(demands[i%len(demands)]))(b)
		i++
	}
}

func BenchmarkPlaceAndValidate(b *testing.B) {
	m := gpu(b, "a100-80gb")
	want := counts(b, "3g.40gb,2g.20gb,1g.10gb=2")
	b.ReportAllocs()
	for b.Loop() {
		l := must.Get(m.Place(want, Layout{}))(b)
		must.Do(b, l.Validate())
	}
}
