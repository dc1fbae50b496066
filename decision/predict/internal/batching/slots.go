package batching

import (
	"container/list"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/costs"
)

// adapterSlots are the adapters on a replica's GPU and in its host's memory.
type adapterSlots struct {
	slots, host int
	held        map[int32]int // requests with it that run
	inUse       int           // adapters that are held
	OnGPU, ram  recency
}

func NewAdapterSlots(a *costs.Adapters) adapterSlots {
	return adapterSlots{slots: a.Slots, host: a.HostSlots, held: map[int32]int{}, OnGPU: newRecency(), ram: newRecency()}
}

// need returns the time that a request for the adapter must wait for it, in ms; it is on
// its way then. Below 0, every slot is in use.
func (s *adapterSlots) need(adapter int32, c *Rates) float64 {
	id := uint64(adapter)
	if s.OnGPU.touch(id) {
		s.ram.touch(id)
		return 0
	}
	if s.OnGPU.len() >= s.slots {
		victim, ok := s.OnGPU.oldest(func(id uint64) bool { return s.held[int32(id)] == 0 })
		if !ok {
			return -1
		}
		s.OnGPU.remove(victim)
	}
	ms := c.loraLoad
	if !s.ram.touch(id) {
		ms += c.loraFetch
		s.ram.add(id)
		for s.host > 0 && s.ram.len() > s.host {
			victim, _ := s.ram.oldest(func(id uint64) bool { return !s.OnGPU.Has(id) })
			s.ram.remove(victim)
		}
	}
	s.OnGPU.add(id)
	return max(ms, 1e-6)
}

func (s *adapterSlots) hold(adapter int32) {
	if adapter == 0 {
		return
	}
	if s.held[adapter]++; s.held[adapter] == 1 {
		s.inUse++
	}
}

func (s *adapterSlots) release(adapter int32) {
	if adapter == 0 {
		return
	}
	if s.held[adapter]--; s.held[adapter] == 0 {
		delete(s.held, adapter)
		s.inUse--
	}
}

func (s *adapterSlots) drop() { s.OnGPU = newRecency() }

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
type queue []*Flight

func (q *queue) Len() int { return len(*q) }

func (q *queue) at(i int) *Flight { return (*q)[i] }

func (q *queue) Push(f *Flight) { *q = append(*q, f) }

func (q *queue) pushFront(f *Flight) { *q = slices.Insert(*q, 0, f) }

// remove takes the i-th out. Those before it move up where many wait, else those behind it down: so the queue's memory
// is used again.
func (q *queue) remove(i int) {
	if len(*q) < 64 {
		*q = slices.Delete(*q, i, i+1)
		return
	}
	copy((*q)[1:], (*q)[:i])
	(*q)[0] = nil
	*q = (*q)[1:]
}
