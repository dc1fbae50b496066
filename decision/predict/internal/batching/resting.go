package batching

import (
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/costs"
)

// rest says whether a replica is awake. Times are in ms.
type rest struct {
	Asleep   bool
	wanted   bool // waits for memory to wake
	Memory   float64
	Left     float64 // bytes that stay on the GPU while it sleeps
	Since    float64 // it is awake
	asked    float64 // when the last request came
	turnOver bool    // others wait for its memory: it takes no more requests
	Wakes    int
}

func (r *rest) admits() bool { return !r.Asleep && !r.turnOver }

func (g *GPU) free() float64 {
	f := g.Memory
	for _, r := range g.Replicas {
		if r.Rest.Asleep && r.Act.Kind != waking {
			f -= r.Rest.Left
		} else {
			f -= r.Rest.Memory
		}
	}
	return f
}

// awake says whether the replica can work, and begins to wake it where it cannot and somebody asks for it.
func (g *GPU) awake(r *Replica, now float64) bool {
	if !r.Rest.Asleep {
		if len(g.wanted) > 0 && now-r.Rest.Since >= InMillis(r.Sleep.LongestTurn()) && r.Sleep.Level != costs.SleepNever {
			r.Rest.turnOver = true
		}
		return true
	}
	if r.Waiting.Len() == 0 || r.Rest.wanted {
		return false
	}
	r.Rest.wanted = true
	g.wanted = append(g.wanted, r)
	g.makeMemory(now)
	return false
}

// makeMemory wakes those that wait for memory, in order, and puts idle neighbours
// to sleep for the first that finds none.
func (g *GPU) makeMemory(now float64) {
	for len(g.wanted) > 0 {
		r := g.wanted[0]
		lacks := r.Rest.Memory - r.Rest.Left - g.free()
		if lacks <= 0 {
			g.wanted = slices.Delete(g.wanted, 0, 1)
			r.Rest.wanted = false
			r.begin(now, Activity{Kind: waking, Host: r.Rates.wake, units: 1})
			continue
		}
		for _, o := range g.Replicas {
			if o.Act.Kind == fallingAsleep {
				lacks -= o.Rest.Memory - o.Rest.Left
			}
		}
		for lacks > 0 {
			var victim *Replica
			for _, o := range g.Replicas {
				resting := o.Act.Kind == idle || o.Act.Kind == dozing
				if resting && !o.Rest.Asleep && o.Sleep.Level != costs.SleepNever && len(o.Running)+len(o.Entered) == 0 &&
					(o.Waiting.Len() == 0 || o.Rest.turnOver) && (victim == nil || o.Rest.asked < victim.Rest.asked) {
					victim = o
				}
			}
			if victim == nil {
				return
			}
			victim.begin(now, Activity{Kind: fallingAsleep, Host: victim.Rates.fallAsleep, units: 1})
			lacks -= victim.Rest.Memory - victim.Rest.Left
		}
		return
	}
}

func (g *GPU) rested(r *Replica, now float64) {
	if len(g.wanted) > 0 {
		g.makeMemory(now)
	}
	if s := r.Sleep; r.Act.Kind == idle && !r.Rest.Asleep && s.Level != costs.SleepNever && s.Idle > 0 {
		r.begin(now, Activity{Kind: dozing, Host: InMillis(s.Idle), units: 1})
	}
}

func (g *GPU) slept(r *Replica, what phase, now float64) {
	if what == waking {
		r.Rest.Asleep, r.Rest.turnOver, r.Rest.Since = false, false, now
		r.Rest.Wakes++
		return
	}
	r.Rest.Asleep, r.Rest.turnOver = true, false
	r.KV.clear()
	r.LoRA.drop()
	g.makeMemory(now)
}

// SettleDown decides who is awake at first: as many as fit, in order.
func (g *GPU) SettleDown() {
	defer func() {
		for _, r := range g.Replicas {
			g.rested(r, 0)
		}
		g.Retime()
	}()
	if g.Memory == 0 {
		return
	}
	left := g.Memory
	for _, r := range g.Replicas {
		left -= r.Rest.Left
	}
	for _, r := range g.Replicas {
		if more := r.Rest.Memory - r.Rest.Left; more <= left {
			left -= more
		} else {
			r.Rest.Asleep = true
			r.Rest.Since = math.Inf(-1)
		}
	}
}
