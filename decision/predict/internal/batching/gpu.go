package batching

import "math"

// GPU is a GPU with the replicas on it. Times are in ms.
type GPU struct {
	Beside   func(*GPU) // sets how long units take beside each other
	Replicas []*Replica
	paced    bool    // the units are those of the activities that there are
	Next     float64 // when the next activity ends
}

// Retime works out how long the units of all activities, which are up to now, take beside each other from now on.
func (g *GPU) Retime() {
	if len(g.Replicas) > 1 && !g.paced {
		busy := 0
		for _, r := range g.Replicas {
			if r.Act.Kind.Works() {
				busy++
			}
		}
		if busy > 1 {
			g.Beside(g)
		} else {
			for _, r := range g.Replicas {
				r.Act.Unit = r.Act.Alone()
			}
		}
		g.paced = true
	}
	g.Next = math.Inf(1)
	for _, r := range g.Replicas {
		g.Next = min(g.Next, r.Act.due())
	}
}

// Fire ends what is due at the GPU's next event.
func (g *GPU) Fire() {
	now := g.Next
	for _, r := range g.Replicas {
		r.Act.advance(now)
	}
	for _, r := range g.Replicas {
		if r.Act.Kind.Works() && r.Act.due() <= now+1e-9 {
			r.Act.done = r.Act.units
			g.paced = false
			r.Finish(now)
		}
	}
	g.Retime()
}

// Arrive hands a request to a replica of the GPU.
func (g *GPU) Arrive(r *Replica, f *Flight, now float64) {
	units := r.Act.units
	if r.arrive(f, now); g.paced && r.Act.units == units {
		return // it waits
	}
	if !g.paced {
		for _, o := range g.Replicas {
			o.Act.advance(now)
		}
	}
	g.Retime()
}
