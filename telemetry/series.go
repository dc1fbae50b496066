package telemetry

import (
	"iter"
	"slices"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// Header describes a series: where it comes from, when it began, and what it covers.
type Header struct {
	Info ReaderInfo
	// Start is the wall clock at the series' start. Times in the series are monotonic differences to it.
	Start   time.Time
	Devices []Device
	// Period and SlowPeriod are the periods of the two clocks.
	Period, SlowPeriod time.Duration
}

// check returns an error for an index that names no device.
func (h *Header) check(device int) error {
	if device < 0 || device >= len(h.Devices) {
		return &DeviceError{Device: device, Devices: len(h.Devices)}
	}
	return nil
}

// Sink takes what a Sampler reads, in order of time. A Sampler calls one
// method at a time. An error stops the sampling.
type Sink interface {
	// Begin is called once, before anything else.
	Begin(Header) error
	// Sample takes a sample, which is valid only during the call; the
	// Processes and Instances in it may be kept but not changed.
	Sample(*Sample) error
	// Event takes an event.
	Event(Event) error
}

// Series holds samples in order of time. It stores only the figures that are there, about 12 bytes a figure. It is
// a Sink. A Series is not safe for concurrent use while it is added to.
type Series struct {
	Header
	Events []Event

	chunks []*chunk
	n      int
	last   []lastLists
	unsp   []uint64
	has    []uint64
}

type chunk struct {
	rows []row
	vals []float64
}

type row struct {
	at, tick  int64
	has       uint64
	throttle  Optional[Throttle]
	off       int32
	device    int32
	dropped   int32
	groups    Groups
	processes []Process
	instances []Instance
}

type lastLists struct {
	processes []Process
	instances []Instance
}

const chunkRows = 512

// Begin empties the series and gives it a header.
func (s *Series) Begin(h Header) error {
	h.Devices = slices.Clone(h.Devices)
	*s = Series{Header: h, last: make([]lastLists, len(h.Devices)), unsp: make([]uint64, len(h.Devices)),
		has: make([]uint64, len(h.Devices))}
	return nil
}

// Sample appends a copy of a sample. Samples of devices that the header does not list are an error.
func (s *Series) Sample(x *Sample) error {
	if err := s.check(x.Device); err != nil {
		return err
	}
	if len(s.chunks) == 0 || len(s.chunks[len(s.chunks)-1].rows) == chunkRows {
		s.chunks = append(s.chunks, &chunk{rows: make([]row, 0, chunkRows), vals: make([]float64, 0, 8*chunkRows)})
	}
	c := s.chunks[len(s.chunks)-1]
	r := row{at: int64(x.At), tick: x.Tick, has: x.has, throttle: x.Throttle, off: int32(len(c.vals)),
		device: int32(x.Device), dropped: int32(min(x.Dropped, 1<<31-1)), groups: x.Groups}
	for m := MetricGPUUtilPercent; m < metricEnd; m++ {
		if x.has&(1<<m) != 0 {
			c.vals = append(c.vals, x.v[m])
		}
	}
	last := &s.last[x.Device]
	if len(x.Processes) > 0 {
		if !slices.Equal(x.Processes, last.processes) {
			last.processes = slices.Clone(x.Processes)
		}
		r.processes = last.processes
	}
	if len(x.Instances) > 0 {
		if !slices.Equal(x.Instances, last.instances) {
			last.instances = slices.Clone(x.Instances)
		}
		r.instances = last.instances
	}
	s.unsp[x.Device] |= x.unsp
	s.has[x.Device] |= x.has
	c.rows = append(c.rows, r)
	s.n++
	return nil
}

// Event appends an event.
func (s *Series) Event(e Event) error {
	s.Events = append(s.Events, e)
	return nil
}

// Len is the number of samples.
func (s *Series) Len() int { return s.n }

// All yields the samples in order. The pointer is valid until the next step;
// the lists in a sample are the series' own and must not be changed.
func (s *Series) All() iter.Seq[*Sample] {
	return func(yield func(*Sample) bool) {
		var x Sample
		for _, c := range s.chunks {
			for i := range c.rows {
				c.load(&c.rows[i], &x)
				if !yield(&x) {
					return
				}
			}
		}
	}
}

// of yields the samples of one device as All does.
func (s *Series) of(device int) iter.Seq[*Sample] {
	return func(yield func(*Sample) bool) {
		for x := range s.All() {
			if x.Device == device && !yield(x) {
				return
			}
		}
	}
}

func (c *chunk) load(r *row, x *Sample) {
	*x = Sample{Device: int(r.device), At: time.Duration(r.at), Tick: r.tick, Groups: r.groups,
		Reading: Reading{Throttle: r.throttle, Processes: r.processes, Instances: r.instances, Dropped: int(r.dropped)}}
	x.has = r.has
	at := r.off
	for m := MetricGPUUtilPercent; m < metricEnd; m++ {
		if r.has&(1<<m) != 0 {
			x.v[m] = c.vals[at]
			at++
		}
	}
}

// Duration is the time from the series' start to its last sample.
func (s *Series) Duration() time.Duration {
	if len(s.chunks) == 0 {
		return 0
	}
	c := s.chunks[len(s.chunks)-1]
	return time.Duration(c.rows[len(c.rows)-1].at)
}

// Point is a figure at a time.
type Point struct {
	At    time.Duration
	Value float64
}

// Points returns the figures of one metric of one device, in order of time.
// Where the metric is missing there is no point.
func (s *Series) Points(device int, m Metric) []Point {
	var ps []Point
	for x := range s.of(device) {
		if v, ok := x.Get(m); ok {
			ps = append(ps, Point{x.At, v})
		}
	}
	return ps
}

// Mean is the mean of the readings of a metric, and how many there were. It is missing when there were none.
// Readings of one clock are evenly spaced, so that the mean of the readings is the mean over time where no gap was.
func (s *Series) Mean(device int, m Metric) (Optional[float64], int) {
	var sum float64
	ps := s.Points(device, m)
	for _, p := range ps {
		sum += p.Value
	}
	if len(ps) == 0 {
		return Optional[float64]{}, 0
	}
	return Some(sum / float64(len(ps))), len(ps)
}

// Supported answers whether a device can give a metric: yes when it did, no when the reader said that it cannot,
// unknown when nobody asked or every reading failed. A series read from CSV knows only yes and unknown.
func (s *Series) Supported(device int, m Metric) sharing.Answer {
	if s.check(device) != nil {
		return sharing.AnswerUnknown
	}
	f := figures{has: s.has[device], unsp: s.unsp[device]}
	return f.Supported(m)
}
