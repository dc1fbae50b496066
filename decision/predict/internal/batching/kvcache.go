package batching

import (
	"slices"

	"github.com/cotenant/cotenant/internal/splitmix"
)

// KVCache is the KV cache of a replica: blocks that running requests hold for themselves, and units of a prompt's
// prefix that others may use again. A unit stays when nobody holds it any more until its memory is needed: the
// least recently used goes first, and of a prompt the end before the beginning, so that what is cached of a prompt
// is always its beginning. Hit rates are those of Che's approximation of LRU (H. Che, Y. Tung and Z. Wang, Hierarchical
// Web caching systems, IEEE JSAC 20(7), 2002), which a test holds.
//
// Units are the edges of a radix tree (Morrison, PATRICIA, 1968; SGLang's RadixAttention keeps its cache in one): a
// node holds a run of units that the same requests hold, and is split where a request holds a part of it or goes
// another way. A run's units were all released at the same time, so that a list of runs in the order of release,
// each evicted from its end, is the exact order of the units.
type KVCache struct {
	Total   int // blocks
	unit    int // blocks of a unit
	private int // blocks that requests hold for themselves
	pinned  int // units in use
	idle    int // units kept for later
	Most    int // blocks in use at once

	heads []int32 // of chains of nodes, by parent and first hash; 0 = none
	nodes []run   // 0 is the root, and the list's ends: next the least, prev the most recently used
	spare []int32

	Evicted int64 // units
}

// run is a node of the tree, with the units that lead to it from its parent.
type run struct {
	hashes     []uint64 // none = not in use
	prev, next int32    // of the idle, in the order of release
	refs       int32    // requests that hold it
	parent     int32
	chain      int32 // the next one under its head
}

func NewKVCache(blocks, unitBlocks int) *KVCache {
	return &KVCache{Total: blocks, unit: unitBlocks, nodes: make([]run, 1)}
}

func (c *KVCache) available() int { return c.Total - c.private - c.pinned*c.unit }

func (c *KVCache) Used() int { return c.private + c.pinned*c.unit }

// Hits returns the number of units at the beginning of a prompt that are cached.
func (c *KVCache) Hits(prefix []uint64) int {
	n, _, _ := c.find(0, prefix)
	return n
}

// find follows units from a node down: how many are cached, the last node that was reached, and how many units of
// its run were used.
func (c *KVCache) find(from int32, units []uint64) (hits int, last int32, part int) {
	last, part = from, len(c.nodes[from].hashes)
	for hits < len(units) {
		i := c.child(last, units[hits])
		if i == 0 {
			break
		}
		last, part = i, common(c.nodes[i].hashes, units[hits:])
		if hits += part; part < len(c.nodes[i].hashes) {
			break
		}
	}
	return hits, last, part
}

// common is the length of the beginning that two runs share.
func common(a, b []uint64) int {
	n := min(len(a), len(b))
	if slices.Equal(a[:n], b[:n]) {
		return n
	}
	for n = 0; a[n] == b[n]; n++ {
	}
	return n
}

// Admit pins a prompt's units, those that are not cached as new ones, and takes private blocks beside them. It
// returns the node at their end, which release takes, and says how many units were cached, or that there is no room
// when so many blocks are left for others, and nothing was done.
func (c *KVCache) Admit(prefix []uint64, private, leaving int) (end int32, hits int, ok bool) {
	hits, last, part := c.find(0, prefix)
	fresh := len(prefix) - hits
	if private+fresh*c.unit+leaving > c.available() {
		return 0, 0, false
	}
	woken, held := 0, part // idle units that the prompt pins: they no longer make room
	for i := last; i != 0 && c.nodes[i].refs == 0; i = c.nodes[i].parent {
		woken += held
		held = len(c.nodes[c.nodes[i].parent].hashes)
	}
	if private+(fresh+woken)*c.unit+leaving > c.available() {
		return 0, 0, false
	}
	end = c.pin(c.split(last, part), 0)
	c.room(fresh * c.unit)
	end = c.add(end, prefix[hits:])
	c.take(private)
	return end, hits, true
}

// take gives a running request n more blocks, which must be available.
func (c *KVCache) take(n int) {
	c.room(n)
	c.private += n
	c.Most = max(c.Most, c.Used())
}

func (c *KVCache) room(n int) {
	for c.idle > 0 && c.Total-c.private-(c.pinned+c.idle)*c.unit < n {
		missing := n - (c.Total - c.private - (c.pinned+c.idle)*c.unit)
		c.evict((missing + c.unit - 1) / c.unit)
	}
}

// keep turns a request's private blocks into units that others may use, as far as they go, and pins them; the rest
// are free. It returns the request's new end.
func (c *KVCache) keep(units []uint64, private int, end int32) int32 {
	c.private -= private
	units = units[:min(len(units), private/c.unit)]
	hits, last, part := c.find(end, units)
	if hits > 0 {
		last = c.pin(c.split(last, part), end)
	}
	return c.add(last, units[hits:])
}

// Release gives a request's blocks back and unpins its units.
func (c *KVCache) Release(end int32, private int) {
	c.private -= private
	for i := end; i != 0; i = c.nodes[i].parent {
		n := &c.nodes[i]
		if n.refs--; n.refs > 0 {
			continue
		}
		c.pinned -= len(n.hashes)
		c.idle += len(n.hashes)
		last := c.nodes[0].prev
		n.prev, n.next = last, 0
		c.nodes[last].next, c.nodes[0].prev = i, i
	}
}

// pin holds the nodes from one up to another above it, that one left out, and returns the first.
func (c *KVCache) pin(from, above int32) int32 {
	for i := from; i != above; i = c.nodes[i].parent {
		n := &c.nodes[i]
		if n.refs == 0 {
			c.unlink(i)
			c.idle -= len(n.hashes)
			c.pinned += len(n.hashes)
		}
		n.refs++
	}
	return from
}

func (c *KVCache) unlink(i int32) {
	n := &c.nodes[i]
	c.nodes[n.prev].next, c.nodes[n.next].prev = n.next, n.prev
}

// split parts a node's run after so many units and returns the upper node, or the node itself where that is all of
// it. The lower part keeps the node, by which requests know the ends of their prompts.
func (c *KVCache) split(i int32, part int) int32 {
	if part == len(c.nodes[i].hashes) {
		return i
	}
	upper := c.node()
	n := &c.nodes[i]
	c.unindex(i)
	c.nodes[upper] = run{hashes: slices.Clone(n.hashes[:part]), refs: n.refs, parent: n.parent}
	n.hashes, n.parent = n.hashes[part:], upper
	c.index(upper)
	c.index(i)
	if n.refs == 0 { // released after the lower part
		u := &c.nodes[upper]
		u.prev, u.next = i, n.next
		c.nodes[n.next].prev, n.next = upper, upper
	}
	return upper
}

// add pins a new run of units below a node and returns it, or the node where there are none.
func (c *KVCache) add(parent int32, units []uint64) int32 {
	if len(units) == 0 {
		return parent
	}
	i := c.node()
	c.nodes[i] = run{hashes: slices.Clone(units), parent: parent, refs: 1}
	c.index(i)
	c.pinned += len(units)
	return i
}

func (c *KVCache) node() int32 {
	if k := len(c.spare); k > 0 {
		i := c.spare[k-1]
		c.spare = c.spare[:k-1]
		return i
	}
	if c.nodes = append(c.nodes, run{}); 2*len(c.nodes) > len(c.heads) {
		c.heads = make([]int32, max(64, 2*len(c.heads)))
		for i := range c.nodes {
			if len(c.nodes[i].hashes) > 0 {
				c.index(int32(i))
			}
		}
	}
	return int32(len(c.nodes) - 1)
}

// evict drops at most n units of the run that was released first. Nothing hangs on it: whoever held a unit held
// those before it, and released them after it.
func (c *KVCache) evict(n int) {
	i := c.nodes[0].next
	r := &c.nodes[i]
	n = min(n, len(r.hashes))
	c.idle -= n
	c.Evicted += int64(n)
	if n < len(r.hashes) {
		r.hashes = r.hashes[:len(r.hashes)-n]
		return
	}
	c.unlink(i)
	c.unindex(i)
	c.spare, r.hashes = append(c.spare, i), nil
}

func (c *KVCache) clear() {
	for c.idle > 0 {
		c.evict(c.idle)
	}
}

func (c *KVCache) head(parent int32, hash uint64) *int32 {
	return &c.heads[splitmix.Next(hash^uint64(parent)<<32)&uint64(len(c.heads)-1)]
}

// child is the node whose run follows a node with a unit; 0 where there is none.
func (c *KVCache) child(parent int32, hash uint64) int32 {
	if len(c.heads) == 0 {
		return 0
	}
	i := *c.head(parent, hash)
	for i != 0 && (c.nodes[i].parent != parent || c.nodes[i].hashes[0] != hash) {
		i = c.nodes[i].chain
	}
	return i
}

func (c *KVCache) index(i int32) {
	n := &c.nodes[i]
	head := c.head(n.parent, n.hashes[0])
	n.chain, *head = *head, i
}

func (c *KVCache) unindex(i int32) {
	n := &c.nodes[i]
	at := c.head(n.parent, n.hashes[0])
	for *at != i {
		at = &c.nodes[*at].chain
	}
	*at = n.chain
}
