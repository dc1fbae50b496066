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
		d.idle(1-busy, w.Slots, w.Claims...)
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
		if !ok && !c.Resident { // nothing of it was there to run
			d.give(tenantOf(c), c.Pod, sharing.BasisMeasured, 0)
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
	d.idle(1-busy, w.Slots, w.Claims...)
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
	total, server, served := 0.0, 0.0, false
	for i := range w.Claims {
		c := &w.Claims[i]
		if c.Overhead {
			server, served = server+c.Busy.Or(0), true
		}
		if !c.Resident || c.Overhead {
			continue
		}
		clients = append(clients, i)
		t, ok := c.Tokens.Get()
		tokens = tokens && ok && c.known()
		total += t
	}
	d.idle(1-busy, w.Slots, w.Claims...)
	if len(clients) == 0 && served { // no client is there
		server = busy
	}
	if server = min(server, busy); server > 0 {
		d.give(AccountOverhead, container.Pod{}, sharing.BasisMeasured, server)
		busy -= server
	}
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

// byInstance divides a GPU in MIG mode by its instances. What no instance has is idle.
func (d *division) byInstance() {
	w := d.w
	all := cmp.Or(w.ComputeSlices, 7)
	given := 0
	for _, claims := range d.instances() {
		g := min(claims[0].Slices, all-given)
		given += g
		d.instance(float64(g)/float64(all), claims)
	}
	var resident []int // in instances that are not listed
	for i := range w.Claims {
		if c := &w.Claims[i]; c.Slices == 0 && c.Resident {
			resident = append(resident, i)
		}
	}
	rest := float64(all-given) / float64(all)
	switch {
	case len(resident) > 0:
		for _, i := range resident {
			c := &w.Claims[i]
			d.between(tenantOf(c), c.Pod, sharing.BasisPrior, [3]float64{0, rest / float64(len(resident)), rest})
		}
	case given == 0: // no instance is listed
		d.idle(rest, w.Slots, w.Claims...)
	case given < all:
		d.give(AccountIdle, container.Pod{}, sharing.BasisMeasured, rest)
	}
}

// instances groups the claims that name slices by their instances.
func (d *division) instances() (out [][]Claim) {
	at := map[int]int{}
	for _, c := range d.w.Claims {
		id, known := c.Instance.Get()
		k, there := at[id]
		switch {
		case c.Slices == 0:
		case known && there:
			out[k] = append(out[k], c)
		default:
			if known {
				at[id] = len(out)
			}
			out = append(out, []Claim{c})
		}
	}
	return out
}

// instance divides an instance's part of the GPU among the tenants that share it: its counters are of all of them.
func (d *division) instance(v float64, claims []Claim) {
	var resident []*Claim
	for i := range claims {
		if claims[i].Resident || claims[i].known() && len(claims) == 1 {
			resident = append(resident, &claims[i])
		}
	}
	busy, counted := claims[0].Busy.Get()
	anyResident := slices.ContainsFunc(claims, func(c Claim) bool { return c.Resident })
	if !counted && !anyResident {
		busy, counted = 0, true // nothing can run there
	}
	low, basis := busy, sharing.BasisMeasured
	if !counted {
		// Without counters it may have been used all the time, or never.
		low, busy, basis = 0, 1, sharing.BasisDerived
	}
	d.idle(v*(1-busy), 0, claims...)
	switch n := float64(len(resident)); {
	case n == 0 && busy > 0:
		d.give(AccountUnattributed, container.Pod{}, basis, v*busy)
	case n == 1:
		d.between(tenantOf(resident[0]), resident[0].Pod, basis, [3]float64{v * low, v * busy, v * busy})
	case n > 1:
		for _, c := range resident {
			d.between(tenantOf(c), c.Pod, sharing.BasisPrior, [3]float64{0, v * busy / n, v * busy})
		}
	}
}
