// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// Header describes a series: its source, start, devices and periods.
type Header struct {
	Info ReaderInfo
	// Start is the wall clock at the series' start. Times in the series are monotonic differences from it.
	Start   time.Time
	Devices []Device
	// Period and SlowPeriod are the periods of the two clocks.
	Period, SlowPeriod time.Duration
}

// maxAge is the time for which a figure holds.
func (h *Header) maxAge() time.Duration { return max(3*h.SlowPeriod, bridged(h.Period)) }

// bridged is the longest time between two readings of a device that is not a gap.
func bridged(period time.Duration) time.Duration { return max(3*period, time.Second) }

// check returns an error for an index that names no device.
func (h *Header) check(device int) error {
	if device < 0 || device >= len(h.Devices) {
		return fmt.Errorf("%w: %d; the series has %d, counted from 0", ErrNoDevice, device, len(h.Devices))
	}
	return nil
}

// Sink takes the samples of a Sampler in order of time. A Sampler calls one method at a time. An error stops the
// sampling.
type Sink interface {
	// Begin is called once, before anything else.
	Begin(Header) error
	// Sample takes a sample, which is valid only during the call; the
	// Processes and Instances in it may be kept but not changed.
	Sample(*Sample) error
	// Event takes an event.
	Event(Event) error
}

// Series holds samples in order of time. It is a Sink. A Series is not safe for concurrent use while samples are added.
type Series struct {
	Header
	Events  []Event
	samples []Sample
}

// Begin empties the series and gives it a header.
func (s *Series) Begin(h Header) error {
	h.Devices = slices.Clone(h.Devices)
	*s = Series{Header: h}
	return nil
}

// Sample appends a copy of a sample. Samples of devices that the header does not list are an error.
func (s *Series) Sample(x *Sample) error {
	if err := s.check(x.Device); err != nil {
		return err
	}
	s.samples = append(s.samples, *x)
	return nil
}

// Event appends an event.
func (s *Series) Event(e Event) error {
	s.Events = append(s.Events, e)
	return nil
}

// all yields the samples in order. The lists in a sample must not be changed.
func (s *Series) all() iter.Seq[*Sample] {
	return func(yield func(*Sample) bool) {
		for i := range s.samples {
			if !yield(&s.samples[i]) {
				return
			}
		}
	}
}

// Duration is the time from the series' start to its last sample.
func (s *Series) Duration() time.Duration {
	if len(s.samples) == 0 {
		return 0
	}
	return s.samples[len(s.samples)-1].At
}

// Point is a figure at a time.
type Point struct {
	At    time.Duration
	Value float64
}

// Points returns the figures of one metric of one device, in order of time. Samples without the metric give no point.
func (s *Series) Points(device int, m Metric) []Point {
	var ps []Point
	for x := range s.all() {
		if v, ok := x.Get(m); ok && x.Device == device {
			ps = append(ps, Point{x.At, v})
		}
	}
	return ps
}

// Mean returns the mean of the readings of a metric, missing without readings, and their number. Readings of one clock
// are evenly spaced, so that without gaps it is the mean over time.
func (s *Series) Mean(device int, m Metric) (mean sharing.Optional[float64], readings int) {
	ps, sum := s.Points(device, m), 0.0
	for _, p := range ps {
		sum += p.Value
	}
	if len(ps) > 0 {
		mean = sharing.Some(sum / float64(len(ps)))
	}
	return mean, len(ps)
}

// EventKind is the kind of an event of the sampling.
type EventKind string

// The kinds of events.
const (
	eventGap       EventKind = "gap"        // ticks of a device were missed; Length is from the last tick to the next
	EventLost      EventKind = "lost"       // a device was lost
	EventBack      EventKind = "back"       // a device that was down (lost, hung or failing) answers again
	eventReadError EventKind = "read-error" // a reading failed; repeats are reported at 10, 100, ... times
	eventDropped   EventKind = "dropped"    // impossible values were dropped; repeats as for read-error
	EventHung      EventKind = "hung"       // a reading of a device has not returned for Length
	EventFailing   EventKind = "failing"    // every reading of a device fails
)

// Event is an incident of the sampling that affects its figures.
type Event struct {
	Kind EventKind     `json:"kind"`
	At   time.Duration `json:"at_ns"` // the time since the series' start
	// Device is the device's index.
	Device int           `json:"device"`
	Length time.Duration `json:"length_ns,omitempty"` // of a gap, or of a reading that has not returned
	Count  int           `json:"count,omitempty"`     // the number of ticks missed, of values dropped, or of errors so far
	Detail string        `json:"detail,omitempty"`    // for people
}

// errNoDevices is returned for a reader that lists no devices.
var errNoDevices = errors.New("telemetry: the reader has no GPUs")

// errNotBegun is returned by a sink that gets samples before a header.
var errNotBegun = errors.New("telemetry: the sink has no header yet; call Begin first")

// ErrUnsupported is returned for a device without figures of a group. A Reader wraps it in the error of Read where
// missing metrics do not show it: an empty list of processes would mean that there are none. A Sampler ignores it.
var ErrUnsupported = errors.New("telemetry: the GPU does not support it")

// ErrNoDevice is returned for an index without a device in a series or reader.
var ErrNoDevice = errors.New("telemetry: no such device")
