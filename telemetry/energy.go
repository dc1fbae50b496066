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
	Device int           `json:"device"`
	Basis  sharing.Basis `json:"basis"`
	// IntegratedJoules is the power integrated over the covered time by the
	// trapezoidal rule. It is missing when no two readings were near enough.
	IntegratedJoules Optional[float64] `json:"integrated_joules,omitzero"`
	// Covered is the time integrated over; Uncovered is the time between the
	// first and the last power reading that gaps took away.
	Covered   time.Duration `json:"covered_ns"`
	Uncovered time.Duration `json:"uncovered_ns"`
	// CounterJoules is the difference of the energy counter from its first to its
	// last reading, without the spans over which it is unknown (EnergyBetween): then it is a lower bound.
	CounterJoules Optional[float64] `json:"counter_joules,omitzero"`
	CounterSpan   time.Duration     `json:"counter_span_ns"`
	Restarts      int               `json:"restarts"` // spans between two readings of the counter over which it is unknown
	// DifferencePercent is the integrated figure against the counter's, over those times for which both exist.
	DifferencePercent Optional[float64] `json:"difference_percent,omitzero"`
	// Agree answers whether the two agree within the tolerance and one second
	// of the change in power, which the driver's averaging may shift.
	Agree sharing.Answer `json:"agree"`
}

// MeasureEnergy measures the energy of one device over a series.
func MeasureEnergy(s *Series, device int) (Energy, error) {
	m := NewEnergyMeter()
	if err := s.Replay(m); err != nil {
		return Energy{}, err
	}
	return m.Energy(device)
}

// EnergyMeter measures energy as samples come, in constant memory. It is a Sink. It is not safe for concurrent use.
type EnergyMeter struct {
	h    Header
	devs []meter
}

type meter struct {
	power    Optional[Point] // the last power reading
	joules   float64
	covered  time.Duration
	missed   time.Duration
	counter  Optional[Point] // the last counter reading
	begin    time.Duration   // of the first counter reading
	counted  float64
	restarts int
	mark     Optional[mark]
	cmpPower float64
	cmpCount float64
	compared bool
	cmpFirst float64
	cmpLast  float64
}

// mark is a counter reading with the integral of power up to it.
type mark struct {
	counter, joules, watts float64
	at                     time.Duration
}

// NewEnergyMeter returns a meter.
func NewEnergyMeter() *EnergyMeter { return new(EnergyMeter) }

// Begin starts the meter anew.
func (m *EnergyMeter) Begin(h Header) error {
	m.h, m.devs = h, make([]meter, len(h.Devices))
	return nil
}

// Event takes no notice of events: a gap shows in the samples.
func (m *EnergyMeter) Event(Event) error { return nil }

// Sample takes power and the energy counter from a sample.
func (m *EnergyMeter) Sample(x *Sample) error {
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

func (d *meter) count(p Point, gap time.Duration) {
	if last, ok := d.counter.Get(); !ok {
		d.begin = p.At
	} else {
		if delta, known := EnergyBetween(last, p); known {
			d.counted += delta
		} else {
			d.restarts++
		}
	}
	d.counter = Some(p)
	if w, ok := d.power.Get(); ok && p.At-w.At <= gap { // which is taken to have stayed the same since
		joules := d.joules + float64(w.Value*(p.At-w.At).Seconds())
		d.compare(mark{counter: p.Value, watts: w.Value, at: p.At, joules: joules})
	}
}

// integrate takes a reading of power. The conversions keep the compiler from
// fusing operations, which would give other last digits on other machines.
func (d *meter) integrate(p Point, gap time.Duration) {
	last, ok := d.power.Get()
	d.power = Some(p)
	dt := p.At - last.At
	if !ok {
		return
	}
	if dt > gap {
		d.missed += dt
		d.mark = Optional[mark]{}
		return
	}
	d.joules += float64((last.Value + p.Value) / 2 * dt.Seconds())
	d.covered += dt
}

// compare adds the span from the last counter reading to this one to the comparison, unless it is unknown.
func (d *meter) compare(now mark) {
	last, ok := d.mark.Get()
	d.mark = Some(now)
	if !ok {
		return
	}
	delta, known := EnergyBetween(Point{last.at, last.counter}, Point{now.at, now.counter})
	if !known {
		return
	}
	if !d.compared {
		d.compared, d.cmpFirst = true, last.watts
	}
	d.cmpLast = now.watts
	d.cmpCount += delta
	d.cmpPower += now.joules - last.joules
}

// Energy returns a device's energy so far.
func (m *EnergyMeter) Energy(device int) (Energy, error) {
	if err := m.h.check(device); err != nil {
		return Energy{}, err
	}
	d := &m.devs[device]
	e := Energy{Device: device, Basis: m.h.Info.Basis, Covered: d.covered, Uncovered: d.missed,
		Restarts: d.restarts}
	if d.covered > 0 {
		e.IntegratedJoules = Some(d.joules)
	}
	if last, ok := d.counter.Get(); ok && last.At > d.begin {
		e.CounterSpan, e.CounterJoules = last.At-d.begin, Some(d.counted)
	}
	if !d.compared || d.cmpCount <= 0 {
		return e, nil
	}
	diff := d.cmpPower - d.cmpCount
	e.DifferencePercent = Some(100 * diff / d.cmpCount)
	slack := math.Abs(d.cmpLast-d.cmpFirst) * powerLag.Seconds()
	e.Agree = sharing.AnswerOf(math.Abs(diff) <= tolerancePercent/100.*d.cmpCount+slack)
	return e, nil
}
