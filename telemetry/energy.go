// SPDX-License-Identifier: Apache-2.0

package telemetry

import "github.com/cotenant/cotenant/sharing"

// MaxWatts is above the power of any board. Readers drop higher values.
const MaxWatts = 5e3

// EnergyBetween returns the joules that an energy counter counted between two readings. ok is false, and the energy
// unknown, if the counter went back (after a reload of the driver, or a misreading) or rose faster than MaxWatts.
func EnergyBetween(before, now Point) (joules float64, ok bool) {
	joules = now.Value - before.Value
	return joules, joules >= 0 && joules <= MaxWatts*max((now.At-before.At).Seconds(), 1)
}

// Energy is a device's energy, measured in two ways. They differ by gaps and by the accuracy of the power reading,
// which is 5% where nvml.h gives it.
type Energy struct {
	// IntegratedJoules is the power integrated by the trapezoidal rule, over the time without gaps. It is missing if no
	// two readings were close enough.
	IntegratedJoules sharing.Optional[float64] `json:"integrated_joules,omitzero"`
	// CounterJoules is the growth of the energy counter. Spans with unknown growth (EnergyBetween) are left out and make
	// it a lower bound.
	CounterJoules sharing.Optional[float64] `json:"counter_joules,omitzero"`
}

// MeasureEnergy measures the energy of one device over a series.
func MeasureEnergy(s *Series, device int) (Energy, error) {
	m := new(energyMeter)
	if err := s.replay(m); err != nil {
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
	power, counter  sharing.Optional[Point]   // the last readings
	joules, counted sharing.Optional[float64] // by power and by the counter
}

// Begin starts the meter anew.
func (m *energyMeter) Begin(h Header) error {
	m.h, m.devs = h, make([]meter, len(h.Devices))
	return nil
}

// Event takes no notice of events: a gap shows in the samples.
func (m *energyMeter) Event(Event) error { return nil }

// Sample takes power and the energy counter from a sample. The conversion keeps the compiler from fusing operations,
// which would give other last digits on other machines.
func (m *energyMeter) Sample(x *Sample) error {
	if err := m.h.check(x.Device); err != nil {
		return err
	}
	d := &m.devs[x.Device]
	if v, ok := x.Get(MetricEnergyJoules); ok {
		now := Point{x.At, v}
		if last, counts := d.counter.Get(); counts {
			delta, known := EnergyBetween(last, now)
			if !known {
				delta = 0
			}
			d.counted = sharing.Some(d.counted.Or(0) + delta)
		}
		d.counter = sharing.Some(now)
	}
	if v, ok := x.Get(MetricPowerWatts); ok {
		if last, ok := d.power.Get(); ok && x.At-last.At <= bridged(m.h.Period) {
			d.joules = sharing.Some(d.joules.Or(0) + float64((last.Value+v)/2*(x.At-last.At).Seconds()))
		}
		d.power = sharing.Some(Point{x.At, v})
	}
	return nil
}

// Energy returns a device's energy so far.
func (m *energyMeter) Energy(device int) (Energy, error) {
	if err := m.h.check(device); err != nil {
		return Energy{}, err
	}
	return Energy{IntegratedJoules: m.devs[device].joules, CounterJoules: m.devs[device].counted}, nil
}
