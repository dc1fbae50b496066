package predict

import (
	"math"
	"slices"
)

// rest is whether a replica is awake. Times are in ms.
type rest struct {
	asleep   bool
	wanted   bool // waits for memory to wake
	memory   float64
	left     float64 // bytes that stay on the GPU while it sleeps
	since    float64 // it is awake
	asked    float64 // when the last request came
	turnOver bool    // others wait for its memory: it takes no more requests
	wakes    int
}

// admits says whether the replica takes requests in.
func (r *rest) admits() bool { return !r.asleep && !r.turnOver }

// free is the memory that no replica holds.
func (g *gpuState) free() float64 {
	f := g.memory
	for _, r := range g.replicas {
		if r.rest.asleep && r.act.kind != waking {
			f -= r.rest.left
		} else {
			f -= r.rest.memory
		}
	}
	return f
}

// awake says whether the replica can work, and begins to wake it where it cannot and somebody asks for it.
func (g *gpuState) awake(r *replica, now float64) bool {
	if !r.rest.asleep {
		if len(g.wanted) > 0 && now-r.rest.since >= inMillis(r.sleep.turn()) && r.sleep.Level != SleepNever {
			r.rest.turnOver = true
		}
		return true
	}
	if r.waiting.len() == 0 || r.rest.wanted {
		return false
	}
	r.rest.wanted = true
	g.wanted = append(g.wanted, r)
	g.makeMemory(now)
	return false
}

// makeMemory wakes those that wait for memory, in order, and puts idle neighbours
// to sleep for the first that finds none.
func (g *gpuState) makeMemory(now float64) {
	for len(g.wanted) > 0 {
		r := g.wanted[0]
		lacks := r.rest.memory - r.rest.left - g.free()
		if lacks <= 0 {
			g.wanted = slices.Delete(g.wanted, 0, 1)
			r.rest.wanted = false
			r.begin(now, activity{kind: waking, host: r.c.wake, units: 1})
			continue
		}
		for _, o := range g.replicas {
			if o.act.kind == fallingAsleep {
				lacks -= o.rest.memory - o.rest.left
			}
		}
		for lacks > 0 {
			var victim *replica
			for _, o := range g.replicas {
				resting := o.act.kind == idle || o.act.kind == dozing
				if resting && !o.rest.asleep && o.sleep.Level != SleepNever && len(o.running)+len(o.entered) == 0 &&
					(o.waiting.len() == 0 || o.rest.turnOver) && (victim == nil || o.rest.asked < victim.rest.asked) {
					victim = o
				}
			}
			if victim == nil {
				return
			}
			victim.begin(now, activity{kind: fallingAsleep, host: victim.c.fallAsleep, units: 1})
			lacks -= victim.rest.memory - victim.rest.left
		}
		return
	}
}

// rested says that a replica has nothing to do.
func (g *gpuState) rested(r *replica, now float64) {
	if len(g.wanted) > 0 {
		g.makeMemory(now)
	}
	if s := r.sleep; r.act.kind == idle && !r.rest.asleep && s.Level != SleepNever && s.Idle > 0 {
		r.begin(now, activity{kind: dozing, host: inMillis(s.Idle), units: 1})
	}
}

// slept ends a replica's falling asleep or waking.
func (g *gpuState) slept(r *replica, what phase, now float64) {
	if what == waking {
		r.rest.asleep, r.rest.turnOver, r.rest.since = false, false, now
		r.rest.wakes++
		return
	}
	r.rest.asleep, r.rest.turnOver = true, false
	r.kv.clear()
	r.lora.drop()
	g.makeMemory(now)
}

// settleDown decides who is awake at first: as many as fit, in order.
func (g *gpuState) settleDown() {
	defer func() {
		for _, r := range g.replicas {
			g.rested(r, 0)
		}
		g.retime()
	}()
	if g.memory == 0 {
		return
	}
	left := g.memory
	for _, r := range g.replicas {
		left -= r.rest.left
	}
	for _, r := range g.replicas {
		if more := r.rest.memory - r.rest.left; more <= left {
			left -= more
		} else {
			r.rest.asleep = true
			r.rest.since = math.Inf(-1)
		}
	}
}
