// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// The columns other than the metrics.
const (
	colAt       = "at_s"
	colTime     = "time"
	colPeriod   = "period_s"
	colBasis    = "basis"
	colDevice   = "device"
	colUUID     = "uuid"
	colName     = "name"
	colInstance = "gpu_instance"
	colSlices   = "compute_slices"
	colThrottle = "throttle"
	colPrograms = "programs"
)

var csvColumns = func() []string {
	cols := []string{colAt, colTime, colPeriod, colBasis, colDevice, colUUID, colName, colInstance, colSlices}
	for _, m := range Metrics() {
		cols = append(cols, m.String())
	}
	return append(cols, colThrottle, colPrograms)
}()

// NewCSVWriter returns a sink that writes samples to w as CSV, and flush, which writes the buffered rows: call it at
// the end, and whenever the file must be complete. After an error flush returns that error.
//
// There is a header line, and a row for each sample, followed by one for each MIG instance in it, with its number in
// gpu_instance. at_s is the time since the start by the monotonic clock in seconds, time the start plus at_s, period_s
// the time to the next reading of the same kind, device the number of the GPU from 0, with its uuid and name. Then come
// the metrics, of an instance in percent of the instance; a missing figure is an empty cell. programs has the names of
// the programs on the GPU, separated by semicolons: ? for a program without a name, - for no program, empty if they
// were not listed. Processes' ids and memory, and events, are not written.
func NewCSVWriter(w io.Writer) (sink Sink, flush func() error) {
	c := &csvWriter{w: csv.NewWriter(bufio.NewWriterSize(w, csvBuffer))}
	return c, c.flush
}

type csvWriter struct {
	w     *csv.Writer
	cells []string // of a row
	h     Header
}

const csvBuffer = 64 << 10 // the size of one write, in bytes

// Begin writes the header line.
func (c *csvWriter) Begin(h Header) error {
	if _, err := h.Info.Basis.MarshalText(); err != nil {
		return err
	}
	c.h = h
	c.h.Devices = slices.Clone(h.Devices)
	return c.w.Write(csvColumns)
}

// Event takes no notice of events.
func (c *csvWriter) Event(Event) error { return nil }

// row writes a row of a device or of an instance of it.
func (c *csvWriter) row(x *Sample, f *figures, instance, slices sharing.Optional[int], throttle,
	programs string) error {
	d := &c.h.Devices[x.Device]
	period := c.h.SlowPeriod
	if x.Groups&GroupsFast != 0 {
		period = c.h.Period
	}
	c.cells = append(c.cells[:0], formatSeconds(x.At), c.h.Start.Round(0).UTC().Add(x.At).Format(time.RFC3339Nano),
		formatSeconds(period), c.h.Info.Basis.String(), strconv.Itoa(x.Device), d.UUID, d.Name)
	for _, n := range []sharing.Optional[int]{instance, slices} {
		c.cells = append(c.cells, formatNumber(float64(n.Or(0)), !n.IsZero()))
	}
	for m := MetricGPUUtilPercent; m < metricEnd; m++ {
		c.cells = append(c.cells, formatNumber(f.Get(m)))
	}
	return c.w.Write(append(c.cells, throttle, programs))
}

// Sample writes the rows of a sample.
func (c *csvWriter) Sample(x *Sample) error {
	if err := c.h.check(x.Device); err != nil {
		return errNotBegun
	}
	programs := ""
	if x.Groups.Has(GroupProcesses) {
		programs = programsText(x.Processes)
	}
	none := sharing.Optional[int]{}
	err := c.row(x, &x.figures, none, none, string(x.Throttle.Or("")), programs)
	for i := 0; i < len(x.Instances) && err == nil; i++ {
		in := &x.Instances[i]
		err = c.row(x, &in.figures, sharing.Some(in.ID), in.ComputeSlices, "", "")
	}
	return err
}

// programsText writes the names of programs as one cell.
func programsText(list []Process) string {
	if len(list) == 0 {
		return "-"
	}
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = strings.Map(func(r rune) rune {
			if r == ';' || r < ' ' {
				return ' '
			}
			return r
		}, strings.TrimSpace(p.Name))
		if names[i] == "" {
			names[i] = "?"
		}
	}
	return strings.Join(names, ";")
}

func (c *csvWriter) flush() error {
	c.w.Flush()
	return c.w.Error()
}

// formatNumber writes the shortest text that reads back as v, without an exponent where that is readable; nothing for a
// missing figure.
func formatNumber(v float64, ok bool) string {
	if !ok {
		return ""
	}
	format := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'g'
	}
	return strconv.FormatFloat(v, format, -1, 64)
}

// formatSeconds writes a duration of 0 or more exactly, with nine decimals.
func formatSeconds(d time.Duration) string {
	return fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
}

// WriteCSV writes the series in the form that NewCSVWriter describes. Equal series give equal bytes.
func (s *Series) WriteCSV(w io.Writer) error {
	sink, flush := NewCSVWriter(w)
	return cmp.Or(s.replay(sink), flush())
}

// replay gives the series to a sink: its header, then its samples and events in
// order of time, events before samples of the same time.
func (s *Series) replay(sink Sink) error {
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
	for x := range s.all() {
		if err := upTo(x.At); err != nil {
			return err
		}
		if err := sink.Sample(x); err != nil {
			return err
		}
	}
	return upTo(1<<63 - 1)
}
