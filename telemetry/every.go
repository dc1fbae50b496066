package telemetry

import (
	"time"

	"github.com/cotenant/cotenant/internal/atomicfile"
)

// Every is a Sink that calls a function from time to time: with the first sample after each period of the series'
// time, so that sinks before it have everything up to then.
type Every struct {
	Period time.Duration
	// Do is called with the time since the series' start at which the period ended. Its error stops the sampling.
	Do   func(at time.Duration) error
	next time.Duration
}

// Begin starts the first period.
func (e *Every) Begin(Header) error {
	e.next = e.Period
	return nil
}

// Sample calls Do when it is time.
func (e *Every) Sample(x *Sample) error {
	if x.At <= e.next {
		return nil
	}
	at := e.next
	for e.next < x.At {
		e.next += e.Period
	}
	return e.Do(at)
}

// Event takes no notice.
func (e *Every) Event(Event) error { return nil }

// PrometheusFile is a Sink that keeps a file up to date with what Latest has: once
// a period, and at once when a device goes down or comes back, since a device that
// hangs gives no sample to wait for. It stands after Latest among the sinks.
type PrometheusFile struct {
	Every
	latest *Latest
	path   string
	failed bool
}

// NewPrometheusFile returns the sink that writes path.
func NewPrometheusFile(path string, l *Latest, period time.Duration) *PrometheusFile {
	f := &PrometheusFile{latest: l, path: path}
	f.Every = Every{Period: period, Do: func(time.Duration) error { return f.Save() }}
	return f
}

// Event saves the file when a device went down or came back.
func (f *PrometheusFile) Event(e Event) error {
	if e.Kind.changesUp() {
		return f.Save()
	}
	return nil
}

// Save writes the file now, so that a reader (Node exporter's textfile collector) never sees half of it. The first
// error is returned once; after it nothing is written.
func (f *PrometheusFile) Save() error {
	if f.failed {
		return nil
	}
	err := atomicfile.WriteFunc(f.path, 0o644, f.latest.WritePrometheus)
	f.failed = err != nil
	return err
}
