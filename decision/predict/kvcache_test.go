package predict

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// slowCache is the KV cache without cleverness: units in a list in the order of
// their use, scanned from one end to the other.
type slowCache struct {
	total, unit, private int
	units                []slowUnit // the least recently used first
}

type slowUnit struct {
	hash uint64
	refs int
}

func (c *slowCache) at(h uint64) int {
	return slices.IndexFunc(c.units, func(u slowUnit) bool { return u.hash == h })
}

func (c *slowCache) pinned() (n int) {
	for _, u := range c.units {
		if u.refs > 0 {
			n++
		}
	}
	return n
}

func (c *slowCache) room(n int) {
	for c.total-c.private-len(c.units)*c.unit < n {
		i := slices.IndexFunc(c.units, func(u slowUnit) bool { return u.refs == 0 })
		if i < 0 {
			return
		}
		c.units = slices.Delete(c.units, i, i+1)
	}
}

func (c *slowCache) admit(prefix []uint64, private int) (hits int, ok bool) {
	for hits < len(prefix) && c.at(prefix[hits]) >= 0 {
		hits++
	}
	need := private + (len(prefix)-hits)*c.unit
	for _, h := range prefix[:hits] {
		if c.units[c.at(h)].refs == 0 {
			need += c.unit
		}
	}
	if need > c.total-c.private-c.pinned()*c.unit {
		return 0, false
	}
	for _, h := range prefix[:hits] {
		c.units[c.at(h)].refs++
	}
	for _, h := range prefix[hits:] {
		c.room(c.unit)
		c.units = append(c.units, slowUnit{h, 1})
	}
	c.room(private)
	c.private += private
	return hits, true
}

func (c *slowCache) release(prefix []uint64, private int) {
	c.private -= private
	for _, h := range slices.Backward(prefix) {
		i := c.at(h)
		u := c.units[i]
		u.refs--
		c.units = slices.Delete(c.units, i, i+1)
		c.units = append(c.units, u) // what is held does not care for its place
	}
}

// The cache with its index and list does what the slow one does, over random
// admissions, growth and ends of prompts that begin alike.
func TestKVCacheAgainstSlow(t *testing.T) {
	type live struct {
		prefix  []uint64
		private int
		pins    []int32
	}
	full, evicted := 0, int64(0)
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		blocks, unit := 20+rng.IntN(100), 1+rng.IntN(4)
		fast, slow := newKVCache(blocks, unit), &slowCache{total: blocks, unit: unit}
		var running []live
		for step := range 2000 {
			switch k := rng.IntN(3); {
			case k == 0 && len(running) > 0: // one ends
				i := rng.IntN(len(running))
				l := running[i]
				fast.release(l.pins, l.private)
				if seed%4 != 3 {
					slow.release(l.prefix, l.private)
				}
				running = slices.Delete(running, i, i+1)
			case k == 1 && len(running) > 0: // one grows
				if fast.available() > 0 {
					fast.take(1)
					slow.room(1)
					slow.private++
					running[rng.IntN(len(running))].private++
				}
			default:
				var prefix []uint64
				h := uint64(rng.IntN(3))
				for range rng.IntN(7) { // a path in a tree
					h = mix(h*5 + uint64(rng.IntN(2)))
					prefix = append(prefix, h)
				}
				if seed%4 == 3 && len(prefix) > 0 { // no path: whatever is found must still add up
					h = uint64(rng.IntN(20))
					prefix = prefix[:0]
					for range rng.IntN(7) {
						h++
						prefix = append(prefix, h)
					}
				}
				private := rng.IntN(6)
				want, wantOK := 0, false
				if seed%4 != 3 {
					want, wantOK = slow.admit(prefix, private)
				}
				pins, hits, ok := fast.admit(prefix, private, 0, nil)
				if seed%4 == 3 {
					if ok {
						running = append(running, live{prefix, private, pins})
					}
					continue
				}
				if hits != want || ok != wantOK {
					t.Fatalf("seed %d, step %d: %d hits, %v, want %d, %v", seed, step, hits, ok, want, wantOK)
				}
				if !ok {
					full++
					continue
				}
				running = append(running, live{prefix, private, pins})
			}
			if held := fast.used() + fast.idle*unit; held > blocks || fast.pinned+fast.idle != fast.indexed() {
				t.Fatalf("seed %d, step %d: %d of %d blocks, %d units of %d", seed, step, held, blocks, fast.pinned+fast.idle, fast.indexed())
			}
			if seed%4 == 3 {
				continue
			}
			if fast.used() != slow.private+slow.pinned()*unit || fast.used() > blocks || fast.pinned+fast.idle != len(slow.units) || fast.indexed() != len(slow.units) {
				t.Fatalf("seed %d, step %d: %d blocks used, %d units, want %d and %d", seed, step, fast.used(), fast.indexed(), slow.private+slow.pinned()*unit, len(slow.units))
			}
		}
		evicted += fast.evicted
		for _, l := range running {
			fast.release(l.pins, l.private)
		}
		if fast.clear(); fast.used() != 0 || fast.indexed() != 0 || fast.available() != blocks {
			t.Fatalf("seed %d: %d blocks and %d units are left", seed, fast.used(), fast.indexed())
		}
	}
	if full == 0 || evicted == 0 {
		t.Errorf("%d times full, %d evicted: nothing was tried", full, evicted)
	}
}

// Blocks are taken exactly when a sequence's tokens fill the one before.
func TestBlocksFor(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 4))
		size := 1 << rng.IntN(5)
		r := &replica{size: size, phases: make([]int, size), ticks: rng.Int64N(1000)}
		for range 1 + rng.IntN(8) {
			f := &flight{prompt: rng.IntN(200), began: r.ticks}
			r.running = append(r.running, f)
			r.phases[r.phaseOf(f)]++
		}
		r.ticks += rng.Int64N(40) // later in their lives
		before := 0
		for _, f := range r.running {
			before += r.private(f)
		}
		for steps := range int64(100) {
			later := 0
			for _, f := range r.running {
				later += blocksOf(f.prompt+int(r.ticks+steps-f.began), size)
			}
			if got := r.blocksFor(steps); got != later-before {
				t.Fatalf("seed %d: %d steps need %d blocks, want %d", seed, steps, got, later-before)
			}
		}
	}
}

// indexed counts the units that can be found by their hashes.
func (c *kvCache) indexed() (n int) {
	for i := 1; i < len(c.nodes); i++ {
		if c.nodes[i].refs >= 0 && c.lookup(c.nodes[i].hash) == int32(i) {
			n++
		}
	}
	return n
}

// Units are found by their hashes for as long as they are kept, however many come and go.
func TestLookup(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	c := newKVCache(1<<20, 1)
	want := map[uint64]int32{}
	for step := range 200_000 {
		h := rng.Uint64N(3000)
		at, known := want[h]
		if got := c.lookup(h); got != at {
			t.Fatalf("step %d: %d is at %d, want %d", step, h, got, at)
		}
		if !known {
			want[h] = c.add(h, 0)
			if again := c.add(h, 0); again != want[h] {
				t.Fatalf("step %d: %d is at %d and at %d", step, h, want[h], again)
			}
			c.release([]int32{want[h], want[h]}, 0)
			continue
		}
		c.evict(at)
		delete(want, h)
	}
	if c.indexed() != len(want) || c.idle != len(want) {
		t.Fatalf("%d units found, %d idle, want %d", c.indexed(), c.idle, len(want))
	}
}
