package batching

import "github.com/cotenant/cotenant/decision/predict/costs"

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

// need is how long a request for the adapter must wait for it, in ms; it is on
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

// drop forgets what was on the GPU.
func (s *adapterSlots) drop() { s.OnGPU = newRecency() }
