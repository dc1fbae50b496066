package guard

import (
	"fmt"
	"math"

	"github.com/cotenant/cotenant/telemetry"
)

// unsound returns the reason to conclude nothing of a GPU in this window; "" = none.
func (g *Guard) unsound(o *Observation, i int) string {
	seen, d := &o.GPUs[i], &g.devices[i]
	last := d.at
	d.at = max(last, seen.At)
	switch {
	case seen.Down != "":
		return "the GPU is down: " + seen.Down
	case o.At-seen.At >= g.rules.Window:
		return fmt.Sprintf("the newest reading is %v old", o.At-seen.At)
	case seen.At > o.At || seen.At < last:
		return "the readings' clock goes backwards"
	}
	util, known := seen.UtilPercent.Get()
	if known && (util < 0 || util > 100) {
		return fmt.Sprintf("a utilization of %v%%", util)
	}
	w, drawn := seen.Watts.Get()
	if drawn && known && util == 0 && w >= min(d.idleWatts.Or(math.Inf(1))+contextWatts, d.busyWatts.Or(math.Inf(1))) {
		return fmt.Sprintf("it draws %.0f W while it is said to run nothing", w)
	}
	sum := 0.0
	for k := range g.tenants {
		t := &o.Tenants[k]
		if g.tenants[k].GPU != i || t.Gone {
			continue
		}
		if t.At > o.At {
			return g.tenants[k].Name + "'s figures are of the future"
		}
		if a, ok := t.Activity.Get(); ok {
			sum += a
		}
		if _, served := t.TPOT.Get(); served && known && util == 0 && o.At-t.At < g.rules.Window {
			return g.tenants[k].Name + " serves while the GPU is said to run nothing"
		}
	}
	if known && sum-util/100 > 0.5 {
		return fmt.Sprintf("the tenants' shares add up to %.0f%% of the GPU, which is said to be busy %.0f%%", 100*sum, util)
	}
	return ""
}

// contextWatts bounds the power of a device above that of its quietest moment while nothing runs, in watts: a
// context that does nothing costs 26 to 50 W on boards with HBM (arXiv 2605.23918).
const contextWatts = 60

// idleRise bounds the mean power over a time that nobody saw, as a multiple of the idle device's, where nothing
// ran: at 75 W idle and 500 W busy, work for 2% of the time exceeds it.
const idleRise = 1.10

// see takes the device's readings, and where some were missing before, keeps
// idle times only if the energy counter shows that nothing ran meanwhile.
func (g *Guard) see(seen *GPUSeen, i int) {
	d := &g.devices[i]
	w, known := seen.Watts.Get()
	d.watts.add(orNaN(seen.Watts))
	d.util.add(orNaN(seen.UtilPercent))
	if util, ok := seen.UtilPercent.Get(); ok && util == 0 && known {
		d.idleWatts = telemetry.Some(min(w, d.idleWatts.Or(w)))
	} else if ok && known && util >= 10 {
		d.busyWatts = telemetry.Some(min(w, d.busyWatts.Or(w)))
	}
	joules, counted := seen.Joules.Get()
	if d.blind {
		before, ok := d.joules.Get()
		span := (seen.At - d.joulesAt).Seconds()
		ran := !ok || !counted || span <= 0 || joules < before || (joules-before)/span > idleRise*d.idleWatts.Or(0)
		for k := range g.tenants {
			s := &g.states[k]
			switch {
			case g.tenants[k].GPU != i:
			case ran:
				g.forget(s)
			case s.idle && s.idleSeen >= d.joulesAt: // the counter has watched since
				s.idleSeen = g.at - g.rules.Window
			}
		}
	}
	d.blind, d.joules, d.joulesAt = false, seen.Joules, seen.At
}

// forget drops what needs an unbroken observation.
func (g *Guard) forget(s *tenantState) {
	s.slow, s.clear, s.idle, s.noticed, s.tried, s.asked = 0, 0, false, false, false, false
}
