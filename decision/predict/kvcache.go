package predict

// kvCache is the KV cache of a replica: blocks that running requests hold for themselves, and units of a prompt's
// prefix that others may use again. A unit stays when nobody holds it any more until its memory is needed: the
// least recently used goes first, and of a prompt the end before the beginning, so that what is cached of a prompt
// is always its beginning.
type kvCache struct {
	total   int // blocks
	unit    int // blocks of a unit
	private int // blocks that requests hold for themselves
	pinned  int // units in use
	idle    int // units kept for later
	most    int // blocks in use at once

	heads []int32 // of chains of units, by hash; 0 = none
	nodes []unit  // 0 is the list's ends: next the least, prev the most recently used
	spare []int32

	evicted int64
}

type unit struct {
	hash       uint64
	prev, next int32
	refs       int32
	parent     int32 // the unit before it in its prompt, which stays as long as it does; 0 = the first
	chain      int32 // the next one under its head
}

func newKVCache(blocks, unitBlocks int) *kvCache {
	return &kvCache{total: blocks, unit: unitBlocks, nodes: make([]unit, 1)}
}

// available is how many blocks a request could get.
func (c *kvCache) available() int { return c.total - c.private - c.pinned*c.unit }

func (c *kvCache) used() int { return c.private + c.pinned*c.unit }

// hits is how many units at the beginning of a prompt are cached.
func (c *kvCache) hits(prefix []uint64) int {
	n, _ := c.find(prefix)
	return n
}

// find is how many units at the beginning of a prompt are cached, and the last of
// them. They are cached from the beginning on, so that it is found by halving.
func (c *kvCache) find(prefix []uint64) (hits int, last int32) {
	lo, hi := 0, len(prefix)
	if hi == 0 {
		return 0, 0
	}
	if last = c.lookup(prefix[0]); last == 0 {
		return 0, 0
	}
	for lo++; lo < hi; {
		mid := int(uint(lo+hi) / 2)
		if i := c.lookup(prefix[mid]); i != 0 {
			lo, last = mid+1, i
		} else {
			hi = mid
		}
	}
	return lo, last
}

// admit pins a prompt's units, those that are not cached as new ones, and takes
// private blocks beside them. It says how many units were cached, or that there
// is no room, leaving blocks for others, and nothing was done. pins is appended to.
func (c *kvCache) admit(prefix []uint64, private, leaving int, pins []int32) (_ []int32, hits int, ok bool) {
	hits, last := c.find(prefix)
	fresh := len(prefix) - hits
	if private+fresh*c.unit+leaving > c.available() {
		return pins, 0, false
	}
	from := len(pins)
	if pins = append(pins, make([]int32, hits)...); !c.trace(prefix[:hits], last, pins[from:]) {
		// The hashes do not depend on what comes before them: one after the other.
		pins, hits = pins[:from], 0
		for hits < len(prefix) {
			if last = c.lookup(prefix[hits]); last == 0 {
				break
			}
			pins = append(pins, last)
			hits++
		}
		fresh = len(prefix) - hits
	}
	woken := 0 // idle units that the prompt pins: they no longer make room
	for _, i := range pins[from:] {
		if c.nodes[i].refs == 0 {
			woken++
		}
	}
	if private+(fresh+woken)*c.unit+leaving > c.available() {
		return pins[:from], 0, false
	}
	for _, i := range pins[from:] {
		c.pin(i)
	}
	c.room(fresh * c.unit)
	for _, h := range prefix[hits:] {
		last = c.add(h, last)
		pins = append(pins, last)
	}
	c.take(private)
	return pins, hits, true
}

// trace follows a cached beginning from its last unit to its first.
func (c *kvCache) trace(prefix []uint64, i int32, units []int32) bool {
	for k := len(prefix) - 1; k >= 0; k, i = k-1, c.nodes[i].parent {
		if n := &c.nodes[i]; i == 0 || n.hash != prefix[k] || n.refs < 0 {
			return false
		}
		units[k] = i
	}
	return true
}

// take gives a running request n more blocks, which must be available.
func (c *kvCache) take(n int) {
	c.room(n)
	c.private += n
	c.most = max(c.most, c.used())
}

// room makes n blocks free.
func (c *kvCache) room(n int) {
	for c.idle > 0 && c.total-c.private-(c.pinned+c.idle)*c.unit < n {
		c.evict(c.nodes[0].next)
	}
}

// keep turns a request's private blocks into units that others may use, as far as they go; the rest are free.
func (c *kvCache) keep(units []uint64, private int, pins []int32) []int32 {
	c.private -= private
	last := int32(0)
	if n := len(pins); n > 0 {
		last = pins[n-1]
	}
	for _, h := range units {
		if private -= c.unit; private < 0 {
			break
		}
		last = c.add(h, last)
		pins = append(pins, last)
	}
	return pins
}

// release gives a request's blocks back and unpins its units.
func (c *kvCache) release(pins []int32, private int) {
	c.private -= private
	for k := len(pins) - 1; k >= 0; k-- {
		i := pins[k]
		n := &c.nodes[i]
		if n.refs--; n.refs > 0 {
			continue
		}
		c.pinned--
		c.idle++
		last := c.nodes[0].prev
		n.prev, n.next = last, 0
		c.nodes[last].next, c.nodes[0].prev = i, i
	}
}

func (c *kvCache) pin(i int32) {
	n := &c.nodes[i]
	if n.refs == 0 {
		c.unlink(i)
		c.idle--
		c.pinned++
	}
	n.refs++
}

func (c *kvCache) unlink(i int32) {
	n := &c.nodes[i]
	c.nodes[n.prev].next, c.nodes[n.next].prev = n.next, n.prev
}

// add pins a unit that is most likely new.
func (c *kvCache) add(hash uint64, parent int32) int32 {
	i := int32(len(c.nodes))
	k := len(c.spare)
	if k > 0 {
		i = c.spare[k-1]
	}
	if known := c.lookup(hash); known != 0 {
		c.pin(known)
		return known
	}
	if k > 0 {
		c.spare = c.spare[:k-1]
	} else if c.nodes = append(c.nodes, unit{}); 2*len(c.nodes) > len(c.heads) {
		c.rehash()
	}
	head := c.head(hash)
	c.nodes[i] = unit{hash: hash, parent: parent, refs: 1, chain: *head}
	*head = i
	c.pinned++
	return i
}

func (c *kvCache) evict(i int32) {
	c.unlink(i)
	n := &c.nodes[i]
	at := c.head(n.hash)
	for *at != i {
		at = &c.nodes[*at].chain
	}
	*at, n.refs = n.chain, -1
	c.spare = append(c.spare, i)
	c.idle--
	c.evicted++
}

// clear drops what nobody holds.
func (c *kvCache) clear() {
	for c.idle > 0 {
		c.evict(c.nodes[0].next)
	}
}

// head is where the chain of a hash begins. A million requests look up, add and remove
// some hundred blocks each: heads of four bytes stay in the processor's caches.
func (c *kvCache) head(hash uint64) *int32 { return &c.heads[mix(hash)&uint64(len(c.heads)-1)] }

// lookup returns 0 where there is none.
func (c *kvCache) lookup(hash uint64) int32 {
	if len(c.heads) == 0 {
		return 0
	}
	i := *c.head(hash)
	for i != 0 && c.nodes[i].hash != hash {
		i = c.nodes[i].chain
	}
	return i
}

// rehash doubles the heads, of which there are at least two for a unit. The last node is not in use yet.
func (c *kvCache) rehash() {
	c.heads = make([]int32, max(64, 2*len(c.heads)))
	for i := 1; i < len(c.nodes)-1; i++ {
		if n := &c.nodes[i]; n.refs >= 0 {
			head := c.head(n.hash)
			n.chain, *head = *head, int32(i)
		}
	}
}
