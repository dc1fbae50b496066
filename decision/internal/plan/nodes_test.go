// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// TestNodesAreCountedAsTheyAreFilled: random GPUs of all mechanisms, those of replicas with several and of spot ones
// among them, take as many nodes as are counted, and as many that may be lost.
func TestNodesAreCountedAsTheyAreFilled(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 72))
	price, _ := cost.FromMicros(2_000_000, "USD")
	cheap, _ := cost.FromMicros(1_000_000, "USD")
	different := 0
	for i := range nightly.Cases(2000, 50_000) {
		p := fleet.Pool{Name: "p", GPU: "A100-SXM4-80GB", Count: 10_000, GPUsPerNode: sharing.Some(1 + rng.IntN(8)),
			PricePerGPUHour: sharing.Some(price), Delivery: []sharing.Delivery{sharing.DeliveryBare,
				sharing.DeliveryGPUOperator, sharing.DeliveryDRA, sharing.DeliveryHAMi}[rng.IntN(4)]}
		if rng.IntN(2) == 0 {
			p.Spot = &fleet.Pricing{PricePerGPUHour: cheap}
		}
		f := &fleet.Fleet{Version: "v1", Pools: []fleet.Pool{p}}
		for w := range 8 {
			f.Workloads = append(f.Workloads, fleet.Workload{Name: string(rune('a' + w)), Kind: "training",
				GPUs: 1 + rng.IntN(p.GPUsPerNode.Or(1)), Spot: rng.IntN(2) == 0, Tenant: string(rune('s' + w/5))})
		}
		pl, err := NewPlan(f, Options{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		pl.Groups, pl.Trust = map[GroupKey][]GPU{}, classify(pl.Workloads, f.Trust)
		var l load
		s := &search{pl: pl}
		for _, m := range []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismTimeSlicing,
			sharing.MechanismMPS, sharing.MechanismMIG, sharing.MechanismHAMi} {
			key := GroupKey{0, m}
			h := s.newShared(key)
			h.spans = h.class == classLimited || pl.sites[0].apart[m] && pl.sites[0].each > 1
			s.spans = s.spans[:0]
			spot := int32(0)
			for k := range rng.IntN(12) {
				w, n := rng.IntN(8), 1+rng.IntN(10)
				cw := pl.Workloads[w].Workload()
				g := GPU{bin: bin{[]Member{{w, 1}}, n, 0, max(2, n+rng.IntN(6))}, GroupKey: key, Size: 1, Spot: p.Spot != nil && cw.Spot}
				g.domain = pl.domain(&pl.sites[0], m, g.Members)
				switch m {
				case sharing.MechanismExclusive:
					g.Size = cw.GPUCount()
					l = s.withWhole(&l, w, 0, 1)
				case sharing.MechanismMIG:
					g.Layout.Instances = make([]mig.Instance, 1)
				}
				if s.spans = append(s.spans, g.span(k)); g.Spot {
					spot++
				}
				pl.Groups[key] = append(pl.Groups[key], g)
			}
			if m != sharing.MechanismExclusive {
				part := s.partOf(h, int32(len(s.spans))-spot, spot)
				l = l.swapped(&load{}, &part)
			}
		}
		nodes, spot := pl.sites[0].count(&l)
		filled := pl.onNodes(0)
		lost := 0
		for _, n := range filled {
			if n.spot {
				lost++
			}
			checkPlace(t, &pl.sites[0], n)
		}
		if len(filled) != nodes || lost != spot {
			t.Fatalf("case %d: %d nodes, %d of them spot, and %d and %d are counted: %+v", i, len(filled), lost, nodes, spot, l)
		}
		if nodes > (int(l.gpus)+pl.sites[0].each-1)/pl.sites[0].each {
			different++
		}
	}
	if different < 100 {
		t.Errorf("in %d cases more nodes are needed than GPUs fill", different)
	}
}

// TestOneNumberOfSlots: where a pool does not say how many GPUs a node has, those that share by one mode have one
// number of slots, as long as the memory limit that goes with it is enough for all.
func TestOneNumberOfSlots(t *testing.T) {
	for name, c := range map[string]struct {
		mechanism sharing.Mechanism
		limit     int
		want      []int16
	}{
		"turns":         {sharing.MechanismTimeSlicing, 2, []int16{4, 4}},
		"limits":        {sharing.MechanismMPS, 4, []int16{4, 4}},
		"a tight limit": {sharing.MechanismMPS, 3, []int16{2, 4}},
	} {
		f := &fleet.Fleet{Version: "v1", Pools: []fleet.Pool{{Name: "p", GPU: "L40S", Count: 2}},
			Workloads: []fleet.Workload{{Name: "w", Kind: "batch", Replicas: fleet.Replicas{Min: 6, Max: 6}}}}
		pl, err := NewPlan(f, Options{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		key := GroupKey{0, c.mechanism}
		pl.Groups, pl.Trust = map[GroupKey][]GPU{key: {{bin: bin{[]Member{{0, 2}}, 2, 0, c.limit}, GroupKey: key, Size: 1},
			{bin: bin{[]Member{{0, 4}}, 4, 0, 4}, GroupKey: key, Size: 1}}}, classify(pl.Workloads, f.Trust)
		l, problems := pl.Layout()
		var got []int16
		for n := range l.Nodes() {
			got = append(got, n.Devices[0].Slots)
		}
		if slices.Sort(got); !slices.Equal(got, c.want) || len(problems) > 0 {
			t.Errorf("%s: %v slots, want %v: %v", name, got, c.want, problems)
		}
	}
}

// checkPlace compares the GPUs of a node with its rules.
func checkPlace(t *testing.T, s *sites, n *node) {
	t.Helper()
	for _, g := range n.gpus {
		class := s.class[g.Mechanism]
		fill := g.Layout.Instances != nil && n.own != sharing.MechanismNone && s.class[n.own] == classTimeSliced
		if open := class == classOpen && (n.own == sharing.MechanismNone || fill); !open && g.Mechanism != n.own {
			t.Errorf("%v on a node of %v", g.Mechanism, n.own)
		}
	}
	if n.free < 0 {
		t.Errorf("%d GPUs free", n.free)
	}
}

// TestFewestNodesByLimit: nodes that have one memory limit each are as few as any division of the GPUs among them.
func TestFewestNodesByLimit(t *testing.T) {
	rng := rand.New(rand.NewPCG(73, 74))
	for range nightly.Cases(300, 5000) {
		s := &sites{each: 1 + rng.IntN(3)}
		spans := make([]span, 1+rng.IntN(7))
		for i := range spans {
			spans[i].low = int32(2 + rng.IntN(6))
			spans[i].high = spans[i].low + int32(rng.IntN(4))
			spans[i].at = int32(i)
		}
		got := 0
		s.cover(slices.Clone(spans), func(node []span) {
			low, high := int32(0), int32(99)
			for _, one := range node {
				low, high = max(low, one.low), min(high, one.high)
			}
			if got++; len(node) > s.each || low > high {
				t.Errorf("a node of %v", node)
			}
		})
		if want := fewestNodes(spans, s.each, nil); got != want {
			t.Errorf("%v on nodes of %d: %d nodes, and %d would do", spans, s.each, got, want)
		}
	}
}

// fewestNodes tries every division.
func fewestNodes(left []span, each int, nodes [][]span) int {
	if len(left) == 0 {
		return len(nodes)
	}
	best := fewestNodes(left[1:], each, append(slices.Clone(nodes), []span{left[0]}))
	for i, node := range nodes {
		low, high := left[0].low, left[0].high
		for _, o := range node {
			low, high = max(low, o.low), min(high, o.high)
		}
		if len(node) < each && low <= high {
			next := slices.Clone(nodes)
			next[i] = append(slices.Clone(node), left[0])
			best = min(best, fewestNodes(left[1:], each, next))
		}
	}
	return best
}
