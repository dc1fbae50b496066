// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"math"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// tolerancePercent is the allowed difference of the integrated power from the energy counter. nvml.h gives
// an accuracy of 5% for the power reading of the boards that it gives one for.
const tolerancePercent = 5

// powerLag is the time over which the driver averages power on Ampere and later (nvml.h). Power that ends lower
// than it began was counted for that long after it was drawn.
const powerLag = time.Second

// MaxWatts is more than any board draws. Readers drop a power above it, and a counter that rose faster misreads.
const MaxWatts = 5e3

// EnergyBetween returns the joules that an energy counter counted between two readings. It is false, and the energy
// is unknown, where the counter went back (the driver was loaded anew, or it misreads) or rose faster than any board
// draws.
func EnergyBetween(before, now Point) (joules float64, ok bool) {
	joules = now.Value - before.Value
	return joules, joules >= 0 && joules <= MaxWatts*max((now.At-before.At).Seconds(), 1)
}

// bridged is the longest time between two readings of a device that is not a gap.
func bridged(period time.Duration) time.Duration { return max(3*period, time.Second) }

// Energy is a device's energy, by two ways of measuring.
type Energy struct {
	// IntegratedJoules is the power integrated by the trapezoidal rule, over the time without gaps. It is missing where no
	// two readings were near enough.
	IntegratedJoules Optional[float64] `json:"integrated_joules,omitzero"`
	// CounterJoules is the growth of the energy counter, without the spans over which that is unknown (EnergyBetween):
	// then it is a lower bound.
	CounterJoules Optional[float64] `json:"counter_joules,omitzero"`
	// Agree answers whether the two agree over the times for which both exist, within the tolerance and one second of
	// the change in power, which the driver's averaging may shift.
	Agree sharing.Answer `json:"agree"`
}

// MeasureEnergy measures the energy of one device over a series.
func MeasureEnergy(s *Series, device int) (Energy, error) {
	m := newEnergyMeter()
	if err := s.Replay(m); err != nil {
		return Energy{}, err
	}
	return m.Energy(device)
}

// energyMeter measures energy as samples come, in constant memory. It is a Sink. It is not safe for concurrent use.
type energyMeter struct {
	h    Header
	devs []meter
}

type meter struct {
	power, counter  Optional[Point]   // the last readings
	joules, counted Optional[float64] // by power and by the counter
	mark            Optional[float64] // by power at the last reading of the counter; missing after a gap
	// byPower and byCounter are over the spans for which both are known; first and last are the power at their ends.
	byPower, byCounter float64
	first              Optional[float64]
	last               float64
}

// newEnergyMeter returns a meter.
func newEnergyMeter() *energyMeter { return new(energyMeter) }

// Begin starts the meter anew.
func (m *energyMeter) Begin(h Header) error {
	m.h, m.devs = h, make([]meter, len(h.Devices))
	return nil
}

// Event takes no notice of events: a gap shows in the samples.
func (m *energyMeter) Event(Event) error { return nil }

// Sample takes power and the energy counter from a sample.
func (m *energyMeter) Sample(x *Sample) error {
	if err := m.h.check(x.Device); err != nil {
		return err
	}
	d := &m.devs[x.Device]
	if v, ok := x.Get(MetricEnergyJoules); ok {
		d.count(Point{x.At, v}, bridged(m.h.Period))
	}
	if v, ok := x.Get(MetricPowerWatts); ok {
		d.integrate(Point{x.At, v}, bridged(m.h.Period))
	}
	return nil
}

// count takes a reading of the counter. The power is taken to have stayed the same since its last reading. The
// conversions here and in integrate keep the compiler from fusing operations, which would give other last digits on
// other machines.
func (d *meter) count(p Point, gap time.Duration) {
	last, counts := d.counter.Get()
	mark, marked := d.mark.Get()
	d.counter, d.mark = Some(p), Optional[float64]{}
	w, ok := d.power.Get()
	if ok = ok && p.At-w.At <= gap; ok {
		d.mark = Some(d.joules.Or(0) + float64(w.Value*(p.At-w.At).Seconds()))
	}
	if !counts {
		return
	}
	delta, known := EnergyBetween(last, p)
	if !known {
		delta = 0
	}
	d.counted = Some(d.counted.Or(0) + delta)
	if known && marked && ok {
		d.first, d.last = Some(d.first.Or(w.Value)), w.Value
		d.byPower, d.byCounter = d.byPower+d.mark.Or(0)-mark, d.byCounter+delta
	}
}

// integrate takes a reading of power.
func (d *meter) integrate(p Point, gap time.Duration) {
	last, ok := d.power.Get()
	d.power = Some(p)
	dt := p.At - last.At
	switch {
	case !ok:
	case dt > gap:
		d.mark = Optional[float64]{}
	default:
		d.joules = Some(d.joules.Or(0) + float64((last.Value+p.Value)/2*dt.Seconds()))
	}
}

// Energy returns a device's energy so far.
func (m *energyMeter) Energy(device int) (Energy, error) {
	if err := m.h.check(device); err != nil {
		return Energy{}, err
	}
	d := &m.devs[device]
	e := Energy{IntegratedJoules: d.joules, CounterJoules: d.counted}
	if d.byCounter > 0 {
		slack := math.Abs(d.last-d.first.Or(d.last)) * powerLag.Seconds()
		e.Agree = sharing.AnswerOf(math.Abs(d.byPower-d.byCounter) <= tolerancePercent/100.*d.byCounter+slack)
	}
	return e, nil
}
