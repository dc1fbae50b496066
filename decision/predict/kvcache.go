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

	index hashIndex
	nodes []unit // 0 is the list's ends: next the least, prev the most recently used
	spare []int32

	evicted int64
}

type unit struct {
	hash       uint64
	prev, next int32
	refs       int32
	parent     int32 // the unit before it in its prompt, which stays as long as it does; 0 = the first
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
	if last = c.index.get(prefix[0]); last == 0 {
		return 0, 0
	}
	for lo++; lo < hi; {
		mid := int(uint(lo+hi) / 2)
		if i := c.index.get(prefix[mid]); i != 0 {
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
			if last = c.index.get(prefix[hits]); last == 0 {
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

// keep turns a request's private blocks into units that others may use, as far as
// they go; the rest are free.
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
	if known := c.index.add(hash, i); known != i {
		c.pin(known)
		return known
	}
	if k > 0 {
		c.spare = c.spare[:k-1]
		c.nodes[i] = unit{hash: hash, parent: parent, refs: 1}
	} else {
		c.nodes = append(c.nodes, unit{hash: hash, parent: parent, refs: 1})
	}
	c.pinned++
	return i
}

func (c *kvCache) evict(i int32) {
	c.unlink(i)
	c.index.remove(c.nodes[i].hash)
	c.nodes[i].refs = -1
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

// hashIndex maps hashes to positive numbers, by open addressing with linear probing:
// a million requests look up, add and remove some hundred blocks each.
type hashIndex struct {
	slots []hashSlot
	n     int
}

type hashSlot struct {
	hash uint64
	at   int32 // 0 = free
}

func (x *hashIndex) home(hash uint64) int { return int(mix(hash) & uint64(len(x.slots)-1)) }

// get returns 0 where there is none.
func (x *hashIndex) get(hash uint64) int32 {
	if x.n == 0 {
		return 0
	}
	for k := x.home(hash); ; k = (k + 1) & (len(x.slots) - 1) {
		if s := &x.slots[k]; s.hash == hash || s.at == 0 {
			return s.at
		}
	}
}

// add gives a hash a number, unless it has one, and returns the one that it has.
func (x *hashIndex) add(hash uint64, at int32) int32 {
	if 2*x.n >= len(x.slots) {
		was := x.slots
		x.slots, x.n = make([]hashSlot, max(64, 2*len(was))), 0
		for _, s := range was {
			if s.at != 0 {
				x.add(s.hash, s.at)
			}
		}
	}
	for k := x.home(hash); ; k = (k + 1) & (len(x.slots) - 1) {
		switch s := &x.slots[k]; {
		case s.at == 0:
			*s = hashSlot{hash, at}
			x.n++
			return at
		case s.hash == hash:
			return s.at
		}
	}
}

// remove takes a hash out that is there, and closes the gap.
func (x *hashIndex) remove(hash uint64) {
	mask := len(x.slots) - 1
	k := x.home(hash)
	for x.slots[k].hash != hash || x.slots[k].at == 0 {
		k = (k + 1) & mask
	}
	for next := (k + 1) & mask; x.slots[next].at != 0; next = (next + 1) & mask {
		// What lies behind the gap moves up unless its home is behind the gap too.
		if home := x.home(x.slots[next].hash); (next-home)&mask >= (next-k)&mask {
			x.slots[k] = x.slots[next]
			k = next
		}
	}
	x.slots[k] = hashSlot{}
	x.n--
}
