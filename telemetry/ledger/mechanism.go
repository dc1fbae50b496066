// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"math"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// Divide divides a window. The parts' times add up to Length exactly; time of unknown use is unattributed. Every claim
// of a known pod has a part, possibly of no time.
//
// Busy time goes to the tenants that ran. Under time-slicing each has the driver's figure for its processes. If they
// add up to more than the figure for the GPU, they are scaled down; of a shortfall up to SwitchShare is overhead if two
// or more ran, and the rest is unattributed. Under MPS the driver cannot distinguish clients: the server's own time is
// overhead, and the rest is divided by tokens served, or equally, between bounds. Under MIG each instance has its own
// counters; without them its time goes to the resident tenants, between nothing and all.
//
// Idle time goes to its holders, whether or not they use the GPU, and without a holder to the account idle: opening a
// context without work does not change any part's time.
func Divide(w Window) ([]Part, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	d := &division{w: &w, holders: w.Slots > 0}
	reserved, resident := false, false
	for _, c := range w.Claims {
		d.holders = d.holders || c.Held > 0
		reserved = reserved || c.Held > 0 && c.reserves()
		resident = resident || c.Resident && c.known()
	}
	if reserved && resident { // reserved for the residents, in unknown parts
		d.holders = false
	}
	switch w.Mechanism {
	case sharing.MechanismMIG, sharing.MechanismMIGWithMPS:
		d.byInstance()
	case sharing.MechanismMPS, sharing.MechanismHAMiWithMPS:
		d.together()
	default:
		d.inTurn()
	}
	return d.parts(), nil
}

// tenantOf is the account of a claim's busy time.
func tenantOf(c *Claim) Account {
	switch {
	case c.Overhead:
		return accountOverhead
	case c.known():
		return accountTenant
	}
	return accountUnattributed
}

// residentsOf returns the claims with a context.
func residentsOf(claims []Claim) (out []*Claim) {
	for i := range claims {
		if claims[i].Resident {
			out = append(out, &claims[i])
		}
	}
	return out
}

// equally divides busy time of unknown tenants, of at least low: all is the only claim's, or equal
// parts of it are each one's, which is no more than a bound.
func (d *division) equally(low, busy float64, basis sharing.Basis, claims []*Claim) {
	switch n := float64(len(claims)); {
	case n == 0 && busy > 0:
		d.give(accountUnattributed, container.Pod{}, basis, busy)
	case n == 1:
		d.between(tenantOf(claims[0]), claims[0].Pod, basis, [3]float64{low, busy, busy})
	default:
		for _, c := range claims {
			d.between(tenantOf(c), c.Pod, sharing.BasisPrior, [3]float64{0, busy / n, busy})
		}
	}
}

// inTurn divides where one context runs at a time.
func (d *division) inTurn() {
	w := d.w
	sum, active, measured := 0.0, 0, false
	for _, c := range w.Claims {
		if u, ok := c.Busy.Get(); ok {
			measured = true
			sum += u
			if u > 0 {
				active++
			}
		}
	}
	busy, known := w.Busy.Get()
	if !known && !measured {
		return // its use is not known
	}
	if !known {
		busy = min(sum, 1)
	}
	defer func() { d.idle(1-busy, w.Slots, w.Claims) }()
	resident := residentsOf(w.Claims)
	if !measured && busy > 0 {
		d.equally(busy, busy, sharing.BasisMeasured, resident)
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
		switch {
		case !ok && !c.known():
		case !ok && !c.Resident: // nothing of it was there to run
			d.give(tenantOf(c), c.Pod, sharing.BasisMeasured, 0)
		default:
			e := halfPoint
			if len(resident) > 1 {
				e += w.drawn(u, busy)
			}
			d.between(tenantOf(c), c.Pod, sharing.BasisMeasured,
				[3]float64{max(0, u-excess-e), u * scale, min(busy, u+rest+e)})
		}
	}
	if active > 1 {
		over := min(rest, w.SwitchShare)
		if over > 0 {
			d.between(accountOverhead, container.Pod{}, sharing.BasisDerived, [3]float64{0, over, rest})
		}
		rest -= over
	}
	if rest > tiny {
		d.give(accountUnattributed, container.Pod{}, sharing.BasisMeasured, rest)
	}
}

// halfPoint is the rounding of the driver's whole percentages.
const halfPoint = 0.005

// drawn is twice the standard deviation of a share estimated from Samples samples of the running process; for a process
// in none of them it is three in Samples, the upper bound at 95% (rule of three).
func (w *Window) drawn(u, busy float64) float64 {
	switch {
	case w.Samples == 0:
		return 0
	case u <= 0:
		return busy * min(1, 3/w.Samples)
	}
	return 2 * math.Sqrt(u*max(0, busy-u)/w.Samples)
}

// together divides where the driver sees one server in place of its clients.
func (d *division) together() {
	w := d.w
	busy, known := w.Busy.Get()
	if !known {
		return
	}
	var clients []*Claim
	tokens := true
	total, server, served := 0.0, 0.0, false
	for i := range w.Claims {
		c := &w.Claims[i]
		switch {
		case c.Overhead:
			server, served = server+c.Busy.Or(0), true
		case c.Resident:
			clients = append(clients, c)
			tokens = tokens && !c.Tokens.IsZero() && c.known()
			total += c.Tokens.Or(0)
		}
	}
	d.idle(1-busy, w.Slots, w.Claims)
	if len(clients) == 0 && served { // no client is there
		server = busy
	}
	if server = min(server, busy); server > 0 {
		d.give(accountOverhead, container.Pod{}, sharing.BasisMeasured, server)
		busy -= server
	}
	if busy <= 0 {
		return
	}
	if len(clients) < 2 || !tokens || total <= 0 {
		d.equally(busy, busy, sharing.BasisMeasured, clients)
		return
	}
	for _, c := range clients {
		// Its tokens took an eighth of the others' time to eight times as much.
		t := c.Tokens.Or(0)
		low, high := t/(t+spread*(total-t)), spread*t/(spread*t+total-t)
		d.between(tenantOf(c), c.Pod, sharing.BasisDerived, [3]float64{busy * low, busy * t / total, busy * high})
	}
}

// byInstance divides a GPU in MIG mode by its instances. What no instance has is idle.
func (d *division) byInstance() {
	all, given := cmp.Or(d.w.ComputeSlices, 7), 0
	instances, unlisted := d.instances()
	for _, claims := range instances {
		g := min(claims[0].Slices, all-given)
		given += g
		d.instance(float64(g)/float64(all), claims)
	}
	rest := float64(all-given) / float64(all)
	switch resident := residentsOf(unlisted); {
	case len(resident) > 0:
		d.equally(0, rest, sharing.BasisPrior, resident)
	case given == 0: // no instance is listed
		d.idle(rest, d.w.Slots, d.w.Claims)
	case given < all:
		d.give(accountIdle, container.Pod{}, sharing.BasisMeasured, rest)
	}
}

// instances groups the claims that name slices by their instances, and returns the others.
func (d *division) instances() (out [][]Claim, unlisted []Claim) {
	at := map[int]int{}
	for _, c := range d.w.Claims {
		id, known := c.Instance.Get()
		k, there := at[id]
		switch {
		case c.Slices == 0:
			unlisted = append(unlisted, c)
		case known && there:
			out[k] = append(out[k], c)
		default:
			if known {
				at[id] = len(out)
			}
			out = append(out, []Claim{c})
		}
	}
	return out, unlisted
}

// instance divides an instance's part of the GPU among the tenants that share it: its counters are of all of them.
func (d *division) instance(v float64, claims []Claim) {
	resident := residentsOf(claims)
	busy, counted := claims[0].Busy.Get()
	low, basis := busy, sharing.BasisMeasured
	if !counted && len(resident) > 0 {
		// Without counters it may have been used all the time, or never.
		low, busy, basis = 0, 1, sharing.BasisDerived
	}
	if len(resident) == 0 && len(claims) == 1 && claims[0].known() {
		resident = append(resident, &claims[0]) // its process came and went
	}
	d.idle(v*(1-busy), 0, claims)
	d.equally(v*low, v*busy, basis, resident)
}
