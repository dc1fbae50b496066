package batching

import "container/list"

// recency is a set in the order of use.
type recency struct {
	order *list.List // of uint64, the least recently used first
	index map[uint64]*list.Element
}

func newRecency() recency { return recency{list.New(), map[uint64]*list.Element{}} }

func (r *recency) len() int { return r.order.Len() }

func (r *recency) Has(id uint64) bool { return r.index[id] != nil }

// touch makes id the most recently used and says whether it was in the set.
func (r *recency) touch(id uint64) bool {
	e := r.index[id]
	if e != nil {
		r.order.MoveToBack(e)
	}
	return e != nil
}

func (r *recency) add(id uint64) {
	if !r.touch(id) {
		r.index[id] = r.order.PushBack(id)
	}
}

func (r *recency) remove(id uint64) {
	if e := r.index[id]; e != nil {
		r.order.Remove(e)
		delete(r.index, id)
	}
}

// oldest is the least recently used that fits.
func (r *recency) oldest(fits func(id uint64) bool) (uint64, bool) {
	for e := r.order.Front(); e != nil; e = e.Next() {
		if id := e.Value.(uint64); fits(id) {
			return id, true
		}
	}
	return 0, false
}

// queue is a first-in, first-out queue that also takes at the front.
type queue struct {
	ring []*Flight
	head int
	n    int
}

func (q *queue) Len() int { return q.n }

func (q *queue) at(i int) *Flight { return q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *queue) grow() {
	if q.n < len(q.ring) {
		return
	}
	ring := make([]*Flight, max(16, 2*len(q.ring)))
	for i := range q.n {
		ring[i] = q.at(i)
	}
	q.ring, q.head = ring, 0
}

func (q *queue) Push(f *Flight) {
	q.grow()
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = f
	q.n++
}

func (q *queue) pushFront(f *Flight) {
	q.grow()
	q.head = (q.head - 1) & (len(q.ring) - 1)
	q.ring[q.head] = f
	q.n++
}

// remove takes the i-th out; those before it move up.
func (q *queue) remove(i int) {
	mask := len(q.ring) - 1
	for ; i > 0; i-- {
		q.ring[(q.head+i)&mask] = q.ring[(q.head+i-1)&mask]
	}
	q.ring[q.head] = nil
	q.head = (q.head + 1) & mask
	q.n--
}
