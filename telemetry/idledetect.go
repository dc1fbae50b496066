package telemetry

import (
	"cmp"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// IdleDetector finds idle time as samples come. It is a Sink. It keeps one
// interval for each change of state. It is not safe for concurrent use.
type IdleDetector struct {
	opts   IdleOptions
	maxAge time.Duration // for which a figure holds
	h      Header
	devs   []idleState
}

// idleState is the detector's knowledge of one device.
type idleState struct {
	seen      bool
	at        time.Duration // of the last sample
	values    figures
	valueAt   [metricEnd]time.Duration
	processes Optional[int]
	procAt    time.Duration
	busySince Optional[time.Duration]
	deepIdle  Optional[float64]
	intervals []StateInterval
}

// NewIdleDetector returns a detector.
func NewIdleDetector(opts IdleOptions) *IdleDetector { return &IdleDetector{opts: opts} }

// Begin starts the detector anew, and says what is wrong with its options.
func (d *IdleDetector) Begin(h Header) error {
	if err := d.opts.check(); err != nil {
		return err
	}
	d.h, d.maxAge = h, max(3*h.SlowPeriod, bridged(h.Period))
	d.devs = make([]idleState, len(h.Devices))
	for i := range d.devs {
		if d.opts.DeepIdleWatts > 0 {
			d.devs[i].deepIdle = Some(d.opts.DeepIdleWatts)
		}
	}
	return nil
}

// Event takes no notice of events: a gap shows in the samples.
func (d *IdleDetector) Event(Event) error { return nil }

// instanceMetrics are those for which the busiest MIG instance stands where the device itself has none.
var instanceMetrics = []Metric{MetricGraphicsUtilPercent, MetricSMUtilPercent, MetricDRAMUtilPercent,
	MetricTensorUtilPercent, MetricPCIeTxBytesPerS, MetricPCIeRxBytesPerS, MetricNVLinkTxBytesPerS,
	MetricNVLinkRxBytesPerS}

// Sample takes a sample. It describes the time since the device's last one. On
// a MIG GPU without figures of its own the busiest instance speaks for it.
func (d *IdleDetector) Sample(x *Sample) error {
	if err := d.h.check(x.Device); err != nil {
		return err
	}
	s := &d.devs[x.Device]
	before, hadPower := s.fresh(MetricPowerWatts, x.At, d.maxAge)
	for m := MetricGPUUtilPercent; m < metricEnd; m++ {
		if v, ok := x.Get(m); ok {
			s.values.Set(m, v)
			s.valueAt[m] = x.At
		}
	}
	for _, m := range instanceMetrics {
		if _, ok := x.Get(m); ok {
			continue
		}
		var best Optional[float64]
		for i := range x.Instances {
			if v, ok := x.Instances[i].Get(m); ok {
				best = Some(max(v, best.Or(v)))
			}
		}
		if v, ok := best.Get(); ok {
			s.values.Set(m, v)
			s.valueAt[m] = x.At
		}
	}
	if x.Groups.Has(GroupProcesses) {
		s.processes, s.procAt = Some(len(x.Processes)), x.At
	}
	last, seen := s.at, s.seen
	s.at, s.seen = x.At, true
	if !seen || x.At <= last {
		return nil
	}
	next := StateInterval{From: last, To: x.At}
	if x.At-last <= bridged(d.h.Period) {
		next.State, next.Powered = d.classify(s, x.At)
		if now, ok := s.fresh(MetricPowerWatts, x.At, d.maxAge); ok && hadPower {
			next.Joules = Some((before + now) / 2 * (x.At - last).Seconds())
		}
	}
	s.intervals = appendInterval(s.intervals, next)
	return nil
}

// appendInterval joins next to the last interval when they tell the same.
func appendInterval(list []StateInterval, next StateInterval) []StateInterval {
	if n := len(list); n > 0 && list[n-1].State == next.State && list[n-1].Powered == next.Powered &&
		list[n-1].To == next.From {
		l := &list[n-1]
		l.To = next.To
		a, okA := l.Joules.Get()
		b, okB := next.Joules.Get()
		l.Joules = Optional[float64]{}
		if okA && okB {
			l.Joules = Some(a + b)
		}
		return list
	}
	return append(list, next)
}

func (s *idleState) fresh(m Metric, now, maxAge time.Duration) (float64, bool) {
	v, ok := s.values.Get(m)
	if !ok || now-s.valueAt[m] > maxAge {
		return 0, false
	}
	return v, true
}

// classify says what the device does by what is known at now.
func (d *IdleDetector) classify(s *idleState, now time.Duration) (State, sharing.Answer) {
	atLeast := func(threshold float64, ms ...Metric) sharing.Answer {
		answer := sharing.AnswerUnknown
		for _, m := range ms {
			if v, ok := s.fresh(m, now, d.maxAge); ok {
				if v >= threshold {
					return sharing.AnswerYes
				}
				answer = sharing.AnswerNo
			}
		}
		return answer
	}
	busy := atLeast(activePercent, MetricGPUUtilPercent, MetricGraphicsUtilPercent)
	working := atLeast(workingPercent, MetricSMUtilPercent, MetricDRAMUtilPercent, MetricTensorUtilPercent)
	traffic := atLeast(activeBytesPerS, MetricPCIeTxBytesPerS, MetricPCIeRxBytesPerS, MetricNVLinkTxBytesPerS,
		MetricNVLinkRxBytesPerS)
	if busy != sharing.AnswerYes {
		s.busySince = Optional[time.Duration]{}
	} else if s.busySince.IsZero() {
		s.busySince = Some(now)
	}
	// A GPM figure describes the slow period before it: one that began before
	// the device was busy says nothing about what it is busy with.
	gpm := max(s.valueAt[MetricSMUtilPercent], s.valueAt[MetricDRAMUtilPercent], s.valueAt[MetricTensorUtilPercent])
	covers := gpm-d.h.SlowPeriod >= s.busySince.Or(now)
	switch {
	case working == sharing.AnswerYes || traffic == sharing.AnswerYes:
		return StateActive, sharing.AnswerUnknown
	case working == sharing.AnswerNo && busy == sharing.AnswerYes && covers:
		return StateStalled, sharing.AnswerUnknown
	case busy == sharing.AnswerYes:
		return StateActive, sharing.AnswerUnknown
	case busy == sharing.AnswerUnknown && working == sharing.AnswerUnknown:
		return StateUnknown, sharing.AnswerUnknown
	}
	watts, powerKnown := s.fresh(MetricPowerWatts, now, d.maxAge)
	switch d.resident(s, now) {
	case sharing.AnswerUnknown:
		return StateUnknown, sharing.AnswerUnknown
	case sharing.AnswerNo:
		if powerKnown && d.opts.DeepIdleWatts == 0 && watts < s.deepIdle.Or(watts+1) {
			s.deepIdle = Some(watts)
		}
		return StateDeepIdle, sharing.AnswerUnknown
	}
	base, baseKnown := s.deepIdle.Get()
	if !powerKnown || !baseKnown {
		return StateExecutionIdle, sharing.AnswerUnknown
	}
	if watts < base+poweredWatts {
		return StateResidentIdle, sharing.AnswerNo
	}
	return StateExecutionIdle, sharing.AnswerYes
}

// resident answers whether a program holds the device.
func (d *IdleDetector) resident(s *idleState, now time.Duration) sharing.Answer {
	n, listed := s.processes.Get()
	listed = listed && now-s.procAt <= d.maxAge
	used, known := s.fresh(MetricMemUsedBytes, now, d.maxAge)
	switch {
	case listed && n > 0, known && used >= float64(residentMemory):
		return sharing.AnswerYes
	case listed:
		return sharing.AnswerNo
	}
	return sharing.AnswerUnknown
}

// Report says what a device did so far.
func (d *IdleDetector) Report(device int) (IdleReport, error) {
	if err := d.h.check(device); err != nil {
		return IdleReport{}, err
	}
	s := &d.devs[device]
	r := IdleReport{Device: device, Basis: d.h.Info.Basis, DeepIdleWatts: s.deepIdle}
	for i := 0; i < len(s.intervals); {
		j := i
		for j < len(s.intervals) && s.intervals[j].State.Idle() {
			j++
		}
		if j == i {
			r.Intervals = appendInterval(r.Intervals, s.intervals[i])
			i++
			continue
		}
		short := s.intervals[j-1].To-s.intervals[i].From < cmp.Or(d.opts.Sustain, DefaultSustain)
		for _, in := range s.intervals[i:j] {
			if short {
				r.Pauses += in.Length()
				in.State, in.Powered = StateActive, sharing.AnswerUnknown
			}
			r.Intervals = appendInterval(r.Intervals, in)
		}
		i = j
	}
	return r, nil
}
