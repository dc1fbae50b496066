package ledger

import (
	"cmp"
	"math"
	"slices"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// tenantOf is the account of a claim's busy time.
func tenantOf(c *Claim) Account {
	switch {
	case c.Overhead:
		return AccountOverhead
	case c.known():
		return AccountTenant
	}
	return AccountUnattributed
}

// inTurn divides where one context runs at a time.
func (d *division) inTurn() {
	w := d.w
	sum, active, measured := 0.0, 0, false
	var resident []int
	for i := range w.Claims {
		c := &w.Claims[i]
		if c.Resident {
			resident = append(resident, i)
		}
		if u, ok := c.Busy.Get(); ok {
			measured = true
			sum += u
			if u > 0 {
				active++
			}
		}
	}
	busy, known := w.Busy.Get()
	switch {
	case !known && !measured:
		return // nothing shows what it did
	case !known:
		busy = min(sum, 1)
	case !measured && busy > 0:
		d.unmeasured(busy, resident)
		d.idle(1-busy, w.Slots, w.Claims)
		return
	}
	scale := 1.0
	if sum > busy {
		scale = busy / sum
	}
	excess, rest := max(0, sum-busy), max(0, busy-sum)
	for i := range w.Claims {
		c := &w.Claims[i]
		u, ok := c.Busy.Get()
		if !ok && !c.known() {
			continue
		}
		e := halfPoint
		if len(resident) > 1 {
			e += w.drawn(u, busy)
		}
		d.between(tenantOf(c), c.Pod, sharing.BasisMeasured, [3]float64{max(0, u-excess-e), u * scale, min(busy, u+rest+e)})
	}
	if active > 1 {
		over := min(rest, w.SwitchShare)
		if over > 0 {
			d.between(AccountOverhead, container.Pod{}, sharing.BasisDerived, [3]float64{0, over, rest})
		}
		rest -= over
	}
	if rest > tiny {
		d.give(AccountUnattributed, container.Pod{}, sharing.BasisMeasured, rest)
	}
	d.idle(1-busy, w.Slots, w.Claims)
}

// halfPoint is the rounding of the driver's whole percentages.
const halfPoint = 0.005

// drawn is twice the standard deviation of a share that rests on Samples draws of who ran; for a process that was
// never drawn, three in Samples, which is what 95% of the time it ran less than.
func (w *Window) drawn(u, busy float64) float64 {
	switch {
	case w.Samples == 0:
		return 0
	case u <= 0:
		return busy * min(1, 3/w.Samples)
	}
	return 2 * math.Sqrt(u*max(0, busy-u)/w.Samples)
}

// unmeasured divides busy time where the driver says nothing of processes: all is the only resident's, or equal
// parts of it are each one's, which is no more than a bound.
func (d *division) unmeasured(busy float64, resident []int) {
	switch len(resident) {
	case 0:
		d.give(AccountUnattributed, container.Pod{}, sharing.BasisMeasured, busy)
		return
	case 1:
		c := &d.w.Claims[resident[0]]
		d.give(tenantOf(c), c.Pod, sharing.BasisMeasured, busy)
		return
	}
	for _, i := range resident {
		c := &d.w.Claims[i]
		d.between(tenantOf(c), c.Pod, sharing.BasisPrior, [3]float64{0, busy / float64(len(resident)), busy})
	}
}

// together divides where the driver sees one server in place of its clients.
func (d *division) together() {
	w := d.w
	busy, known := w.Busy.Get()
	if !known {
		return
	}
	var clients []int
	tokens := true
	total := 0.0
	for i := range w.Claims {
		c := &w.Claims[i]
		if !c.Resident || c.Overhead {
			continue
		}
		clients = append(clients, i)
		t, ok := c.Tokens.Get()
		tokens = tokens && ok && c.known()
		total += t
	}
	d.idle(1-busy, w.Slots, w.Claims)
	if busy <= 0 {
		return
	}
	if len(clients) < 2 {
		d.unmeasured(busy, clients)
		return
	}
	basis := sharing.BasisPrior
	if tokens = tokens && total > 0; tokens {
		basis = sharing.BasisDerived
	}
	for _, i := range clients {
		c := &w.Claims[i]
		part, low, high := 1/float64(len(clients)), 0.0, 1.0
		if tokens {
			// Its tokens took an eighth of the others' time to eight times as much.
			t := c.Tokens.Or(0)
			part = t / total
			low = t / (t + spread*(total-t))
			high = spread * t / (spread*t + total - t)
		}
		d.between(tenantOf(c), c.Pod, basis, [3]float64{busy * low, busy * part, busy * high})
	}
}

// byInstance divides a GPU in MIG mode: claims name the slices of their instances, several claims of one instance
// being one claim each with a part of its slices. What no instance has is idle.
func (d *division) byInstance() {
	w := d.w
	all := cmp.Or(w.ComputeSlices, 7)
	given := 0
	for i := range w.Claims {
		c := &w.Claims[i]
		if c.Slices == 0 {
			continue
		}
		g := min(c.Slices, all-given)
		given += g
		v := float64(g) / float64(all)
		u, ok := c.Busy.Get()
		switch {
		case ok:
			if u > 0 || c.known() {
				d.give(tenantOf(c), c.Pod, sharing.BasisMeasured, v*u)
			}
			d.idle(v*(1-u), 0, []Claim{*c})
		case c.known() && (c.Resident || c.Held > 0):
			// The instance is the tenant's alone, busy or not.
			d.between(AccountTenant, c.Pod, sharing.BasisDerived, [3]float64{0, v, v})
		default:
			d.give(AccountUnattributed, container.Pod{}, sharing.BasisUnknown, v)
		}
	}
	if given < all && !slices.ContainsFunc(w.Claims, func(c Claim) bool { return c.Slices == 0 && c.Resident }) {
		d.give(AccountIdle, container.Pod{}, sharing.BasisMeasured, float64(all-given)/float64(all))
	}
}
