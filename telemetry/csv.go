package telemetry

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

const csvVersion = 1 // the version of the CSV form

// The kinds of CSV rows.
const (
	rowSeries   = "series"
	rowGPU      = "gpu"
	rowSample   = "sample"
	rowProcess  = "process"
	rowInstance = "instance"
	rowEvent    = "event"
)

// The columns beside the metrics.
const (
	colKind     = "kind"
	colAt       = "at_s"
	colTime     = "time"
	colBasis    = "basis"
	colDevice   = "device"
	colTick     = "tick"
	colGroups   = "groups"
	colID       = "id"
	colThrottle = "throttle"
	colProcSM   = "process_sm_util_percent"
	colInstance = "gpu_instance"
	colSlices   = "compute_slices"
	colDropped  = "dropped"
	colDetail   = "detail"
)

var csvColumns = func() []string {
	cols := []string{colKind, colAt, colTime, colBasis, colDevice, colTick, colGroups, colID}
	for _, m := range Metrics() {
		cols = append(cols, m.String())
	}
	return append(cols, colThrottle, colProcSM, colInstance, colSlices, colDropped, colDetail)
}()

// csvHeader is the detail of the series row.
type csvHeader struct {
	Version      int    `json:"version"`
	Source       string `json:"source"`
	SourceDetail string `json:"source_detail,omitempty"`
	PeriodNS     int64  `json:"period_ns"`
	SlowPeriodNS int64  `json:"slow_period_ns"`
}

// CSVWriter writes samples as CSV as they come. It is a Sink. Call Flush at
// the end, and as often as the file should be complete before.
//
// The form has one header line and rows of six kinds, told apart by the column kind: one series row (its start;
// what the reader is), one gpu row for each device, and then sample, process, instance and event rows in order of
// time; process and instance rows belong to the sample row before them. A missing figure is an empty cell. at_s is
// the time since the start by the monotonic clock in seconds, time the start plus at_s. Every row carries the
// basis. The detail column holds JSON in series, gpu and event rows and a process's name in process rows. An
// instance's metrics are percent of the instance.
type CSVWriter struct {
	w     io.Writer
	buf   []byte
	err   error
	start time.Time
	basis string
}

// NewCSVWriter returns a writer to w. It buffers.
func NewCSVWriter(w io.Writer) *CSVWriter { return &CSVWriter{w: w} }

const csvBuffer = 64 << 10 // the size of one write, in bytes

// Begin writes the header line, the series row and the gpu rows.
func (c *CSVWriter) Begin(h Header) error {
	c.start = h.Start.Round(0).UTC()
	basis, err := h.Info.Basis.MarshalText()
	if err != nil {
		return err
	}
	c.basis = string(basis)
	c.buf = append(append(c.buf, strings.Join(csvColumns, ",")...), '\n')
	if err := c.detailRow(rowSeries, 0, -1, csvHeader{csvVersion, h.Info.Name, h.Info.Detail, int64(h.Period),
		int64(h.SlowPeriod)}); err != nil {
		return err
	}
	for i, d := range h.Devices {
		if err := c.detailRow(rowGPU, 0, i, d); err != nil {
			return err
		}
	}
	return c.spill()
}

// Event writes an event row.
func (c *CSVWriter) Event(e Event) error {
	if c.basis == "" {
		return ErrNotBegun
	}
	if err := c.detailRow(rowEvent, e.At, e.Device.Or(-1), e); err != nil {
		return err
	}
	return c.spill()
}

// csvRow is a row: the cells beside the five that every row has.
type csvRow struct {
	tick, id                  Optional[int64]
	instance, slices, dropped Optional[int]
	groups, throttle, detail  string
	processSM                 Optional[float64]
	figures                   *figures // nil for none
}

// detailRow writes a row whose detail is JSON; device -1 is none.
func (c *CSVWriter) detailRow(kind string, at time.Duration, device int, detail any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(detail); err != nil {
		return err
	}
	c.row(kind, at, device, &csvRow{detail: strings.TrimSuffix(b.String(), "\n")})
	return nil
}

// row writes a row, its cells in the order of csvColumns.
func (c *CSVWriter) row(kind string, at time.Duration, device int, r *csvRow) {
	c.buf = append(append(c.buf, kind...), ',')
	c.buf = appendSeconds(c.buf, at)
	c.buf = append(c.buf, ',')
	c.buf = c.start.Add(at).AppendFormat(c.buf, time.RFC3339Nano)
	c.buf = append(append(append(c.buf, ','), c.basis...), ',')
	if device >= 0 {
		c.buf = strconv.AppendInt(c.buf, int64(device), 10)
	}
	integer(c, r.tick)
	c.text(r.groups)
	integer(c, r.id)
	for m := MetricGPUUtilPercent; m < metricEnd; m++ {
		if r.figures == nil {
			c.buf = append(c.buf, ',')
		} else {
			c.number(r.figures.Get(m))
		}
	}
	c.text(r.throttle)
	c.number(r.processSM.Get())
	integer(c, r.instance)
	integer(c, r.slices)
	integer(c, r.dropped)
	c.text(r.detail)
	c.buf = append(c.buf, '\n')
}

// number writes a comma, and a number if there is one; integer and text do likewise.
func (c *CSVWriter) number(v float64, ok bool) {
	c.buf = append(c.buf, ',')
	if ok {
		c.buf = appendNumber(c.buf, v)
	}
}

func integer[T int | int64](c *CSVWriter, o Optional[T]) {
	c.buf = append(c.buf, ',')
	if v, ok := o.Get(); ok {
		c.buf = strconv.AppendInt(c.buf, int64(v), 10)
	}
}

func (c *CSVWriter) text(s string) {
	c.buf = append(c.buf, ',')
	if strings.ContainsAny(s, "\",\r\n") || strings.TrimSpace(s) != s {
		s = `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	c.buf = append(c.buf, s...)
}

// Sample writes a sample row, and a row for each process and instance in it.
func (c *CSVWriter) Sample(x *Sample) error {
	if c.basis == "" {
		return ErrNotBegun
	}
	groups, err := x.Groups.MarshalText()
	if err != nil {
		return err
	}
	r := csvRow{tick: Some(x.Tick), groups: string(groups), figures: &x.figures}
	if t, ok := x.Throttle.Get(); ok {
		text, err := t.MarshalText()
		if err != nil {
			return err
		}
		r.throttle = string(text)
	}
	if x.Dropped > 0 {
		r.dropped = Some(x.Dropped)
	}
	c.row(rowSample, x.At, x.Device, &r)
	for i := range x.Processes {
		p := &x.Processes[i]
		r := csvRow{id: Some(int64(p.PID)), processSM: p.SMUtilPercent, instance: p.GPUInstance,
			detail: strings.ReplaceAll(p.Name, "\r", "")}
		if b, ok := p.Memory.Get(); ok {
			r.figures = new(figures)
			r.figures.Set(MetricMemUsedBytes, float64(b))
		}
		c.row(rowProcess, x.At, x.Device, &r)
	}
	for i := range x.Instances {
		in := &x.Instances[i]
		c.row(rowInstance, x.At, x.Device, &csvRow{id: Some(int64(in.ID)), figures: &in.figures, slices: in.ComputeSlices})
	}
	return c.spill()
}

func (c *CSVWriter) spill() error {
	if len(c.buf) < csvBuffer {
		return c.err
	}
	return c.Flush()
}

// Flush writes what is buffered. After an error it returns that error.
func (c *CSVWriter) Flush() error {
	if c.err == nil && len(c.buf) > 0 {
		_, c.err = c.w.Write(c.buf)
	}
	c.buf = c.buf[:0]
	return c.err
}

// appendNumber writes the shortest text that reads back as v, without an exponent where that is readable.
func appendNumber(b []byte, v float64) []byte {
	format := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'g'
	}
	return strconv.AppendFloat(b, v, format, -1, 64)
}

// appendSeconds writes a duration of 0 or more exactly, with nine decimals.
func appendSeconds(b []byte, d time.Duration) []byte {
	b = strconv.AppendInt(b, int64(d/time.Second), 10)
	frac := strconv.Itoa(int(d%time.Second) + 1e9)
	return append(append(b, '.'), frac[1:]...)
}

// WriteCSV writes the series in the form that CSVWriter describes. Equal series give equal bytes.
func (s *Series) WriteCSV(w io.Writer) error {
	c := NewCSVWriter(w)
	if err := s.Replay(c); err != nil {
		return err
	}
	return c.Flush()
}

// Replay gives the series to a sink: its header, then its samples and events in
// order of time, events before samples of the same time.
func (s *Series) Replay(sink Sink) error {
	if err := sink.Begin(s.Header); err != nil {
		return err
	}
	events := s.Events
	upTo := func(at time.Duration) error {
		for len(events) > 0 && events[0].At <= at {
			if err := sink.Event(events[0]); err != nil {
				return err
			}
			events = events[1:]
		}
		return nil
	}
	for x := range s.All() {
		if err := upTo(x.At); err != nil {
			return err
		}
		if err := sink.Sample(x); err != nil {
			return err
		}
	}
	return upTo(1<<63 - 1)
}
