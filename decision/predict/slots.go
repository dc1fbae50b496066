package predict

// adapterSlots are the adapters on a replica's GPU and in its host's memory.
type adapterSlots struct {
	slots, host int
	held        map[int32]int // requests with it that run
	inUse       int           // adapters that are held
	gpu, ram    recency
}

func newAdapterSlots(a *Adapters) adapterSlots {
	return adapterSlots{slots: a.Slots, host: a.HostSlots, held: map[int32]int{}, gpu: newRecency(), ram: newRecency()}
}

// need is how long a request for the adapter must wait for it, in ms; it is on
// its way then. Below 0, every slot is in use.
func (s *adapterSlots) need(adapter int32, c *rates) float64 {
	id := uint64(adapter)
	if s.gpu.touch(id) {
		s.ram.touch(id)
		return 0
	}
	if s.gpu.len() >= s.slots {
		victim, ok := s.gpu.oldest(func(id uint64) bool { return s.held[int32(id)] == 0 })
		if !ok {
			return -1
		}
		s.gpu.remove(victim)
	}
	ms := c.loraLoad
	if !s.ram.touch(id) {
		ms += c.loraFetch
		s.ram.add(id)
		for s.host > 0 && s.ram.len() > s.host {
			victim, _ := s.ram.oldest(func(id uint64) bool { return !s.gpu.has(id) })
			s.ram.remove(victim)
		}
	}
	s.gpu.add(id)
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
func (s *adapterSlots) drop() { s.gpu = newRecency() }
