package predict

// kvCache is the KV cache of a replica: blocks that running requests hold for
// themselves, and units of a prompt's prefix that others may use again. A unit
// stays when nobody holds it any more until its memory is needed: the least
// recently used goes first, and of a prompt the end before the beginning, so
// that what is cached of a prompt is always its beginning.
type kvCache struct {
	total   int // blocks
	unit    int // blocks of a unit
	private int // blocks that requests hold for themselves
	pinned  int // units in use
	idle    int // units kept for later
	most    int // blocks in use at once

	index map[uint64]int32
	nodes []unit // 0 is the list's ends: next the least, prev the most recently used
	spare []int32

	evicted int64
}

type unit struct {
	hash       uint64
	prev, next int32
	refs       int32
}

func newKVCache(blocks, unitBlocks int) *kvCache {
	return &kvCache{total: blocks, unit: unitBlocks, index: map[uint64]int32{}, nodes: make([]unit, 1)}
}

// available is how many blocks a request could get.
func (c *kvCache) available() int { return c.total - c.private - c.pinned*c.unit }

func (c *kvCache) used() int { return c.private + c.pinned*c.unit }

// hits is how many units at the beginning of a prompt are cached. A prompt's units
// are cached from the beginning on, so that the end is found by halving.
func (c *kvCache) hits(prefix []uint64) int {
	lo, hi := 0, len(prefix)
	if hi == 0 {
		return 0
	}
	if _, ok := c.index[prefix[0]]; !ok {
		return 0
	}
	for lo++; lo < hi; {
		mid := int(uint(lo+hi) / 2)
		if _, ok := c.index[prefix[mid]]; ok {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// admit pins a prompt's units, those that are not cached as new ones, and takes
// private blocks beside them. It says how many units were cached, or that there
// is no room, leaving blocks for others, and nothing was done. pins is appended to.
func (c *kvCache) admit(prefix []uint64, private, leaving int, pins []int32) (_ []int32, hits int, ok bool) {
	hits = c.hits(prefix)
	fresh := len(prefix) - hits
	woken := 0 // idle units that the prompt pins: they no longer make room
	for _, h := range prefix[:hits] {
		if c.nodes[c.index[h]].refs == 0 {
			woken++
		}
	}
	if private+(fresh+woken)*c.unit+leaving > c.available() {
		return pins, 0, false
	}
	for _, h := range prefix[:hits] {
		i := c.index[h]
		c.pin(i)
		pins = append(pins, i)
	}
	for _, h := range prefix[hits:] {
		i, known := c.index[h]
		if !known {
			c.room(c.unit)
			i = c.insert(h)
		}
		c.pin(i)
		pins = append(pins, i)
	}
	c.take(private)
	return pins, hits, true
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

// insert adds an idle unit, as the most recently used.
func (c *kvCache) insert(hash uint64) int32 {
	var i int32
	if k := len(c.spare); k > 0 {
		i, c.spare = c.spare[k-1], c.spare[:k-1]
	} else {
		i = int32(len(c.nodes))
		c.nodes = append(c.nodes, unit{})
	}
	last := c.nodes[0].prev
	c.nodes[i] = unit{hash: hash, prev: last}
	c.nodes[last].next, c.nodes[0].prev = i, i
	c.index[hash] = i
	c.idle++
	return i
}

func (c *kvCache) evict(i int32) {
	c.unlink(i)
	delete(c.index, c.nodes[i].hash)
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
