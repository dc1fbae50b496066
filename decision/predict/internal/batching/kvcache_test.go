package batching

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/internal/splitmix"
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

// keep returns the units that private blocks became.
func (c *slowCache) keep(units []uint64, private int) []uint64 {
	c.private -= private
	units = units[:min(len(units), private/c.unit)]
	for _, h := range units {
		if i := c.at(h); i >= 0 {
			c.units[i].refs++
		} else {
			c.units = append(c.units, slowUnit{h, 1})
		}
	}
	return units
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
		end     int32
	}
	full, evicted := 0, int64(0)
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		blocks, unit := 20+rng.IntN(100), 1+rng.IntN(4)
		fast, slow := NewKVCache(blocks, unit), &slowCache{total: blocks, unit: unit}
		var running []live
		for step := range 2000 {
			switch k := rng.IntN(3); {
			case k == 0 && len(running) > 0: // one ends
				i := rng.IntN(len(running))
				l := running[i]
				var answer []uint64 // that the prompt's blocks become part of
				h := uint64(len(l.prefix))
				if n := len(l.prefix); n > 0 {
					h = l.prefix[n-1]
				}
				for range rng.IntN(4) {
					h = splitmix.Next(h*5 + uint64(rng.IntN(2)))
					answer = append(answer, h)
				}
				fast.Release(fast.keep(answer, l.private, l.end), 0)
				if seed%4 != 3 {
					slow.release(append(l.prefix, slow.keep(answer, l.private)...), 0)
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
					h = splitmix.Next(h*5 + uint64(rng.IntN(2)))
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
				end, hits, ok := fast.Admit(prefix, private, 0)
				if seed%4 == 3 {
					if ok {
						running = append(running, live{prefix, private, end})
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
				running = append(running, live{prefix, private, end})
			}
			if held := fast.Used() + fast.idle*unit; held > blocks || fast.pinned+fast.idle != fast.indexed() {
				t.Fatalf("seed %d, step %d: %d of %d blocks, %d units of %d", seed, step, held, blocks, fast.pinned+fast.idle, fast.indexed())
			}
			if seed%4 == 3 {
				continue
			}
			if fast.Used() != slow.private+slow.pinned()*unit || fast.Used() > blocks || fast.pinned+fast.idle != len(slow.units) || fast.indexed() != len(slow.units) {
				t.Fatalf("seed %d, step %d: %d blocks used, %d units, want %d and %d", seed, step, fast.Used(), fast.indexed(), slow.private+slow.pinned()*unit, len(slow.units))
			}
		}
		evicted += fast.Evicted
		for _, l := range running {
			fast.Release(l.end, l.private)
		}
		if fast.clear(); fast.Used() != 0 || fast.indexed() != 0 || fast.available() != blocks {
			t.Fatalf("seed %d: %d blocks and %d units are left", seed, fast.Used(), fast.indexed())
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
		r := &Replica{Size: size, Phases: make([]int, size), ticks: rng.Int64N(1000)}
		for range 1 + rng.IntN(8) {
			f := &Flight{Prompt: rng.IntN(200), began: r.ticks}
			r.Running = append(r.Running, f)
			r.Phases[r.phaseOf(f)]++
		}
		r.ticks += rng.Int64N(40) // later in their lives
		before := 0
		for _, f := range r.Running {
			before += r.private(f)
		}
		for steps := range int64(100) {
			later := 0
			for _, f := range r.Running {
				later += blocksOf(f.Prompt+int(r.ticks+steps-f.began), size)
			}
			if got := r.blocksFor(steps); got != later-before {
				t.Fatalf("seed %d: %d steps need %d blocks, want %d", seed, steps, got, later-before)
			}
		}
	}
}

// indexed counts the units of the runs that can be found by their parents and first hashes.
func (c *KVCache) indexed() (n int) {
	for i := 1; i < len(c.nodes); i++ {
		if h := c.nodes[i].hashes; len(h) > 0 && c.child(c.nodes[i].parent, h[0]) == int32(i) {
			n += len(h)
		}
	}
	return n
}

// Prompts of hundreds of units that end and part anywhere are cached as one by one.
func TestLongRuns(t *testing.T) {
	c, slow := NewKVCache(900, 1), &slowCache{total: 900, unit: 1}
	rng := rand.New(rand.NewPCG(1, 5))
	prompts := make([][]uint64, 6)
	for i := range prompts {
		if i > 0 {
			prompts[i] = append(prompts[i], prompts[rng.IntN(i)][:rng.IntN(300)]...)
		}
		for len(prompts[i]) < 300 {
			prompts[i] = append(prompts[i], rng.Uint64())
		}
	}
	for step := range 300 {
		p := prompts[rng.IntN(len(prompts))][:rng.IntN(300)]
		end, hits, ok := c.Admit(p, 1, 0)
		want, wantOK := slow.admit(p, 1)
		if hits != want || ok != wantOK || !ok {
			t.Fatalf("step %d: %d hits, %v, want %d, %v", step, hits, ok, want, wantOK)
		}
		c.Release(end, 1)
		slow.release(p, 1)
	}
	if c.Evicted == 0 || len(c.nodes) > 300 {
		t.Errorf("%d units evicted, %d nodes for 900 units", c.Evicted, len(c.nodes))
	}
}
