package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// monitor is a sink that prints a table from time to time. It stands after the
// other sinks, so that they have the sample already.
type monitor struct {
	c      *config
	out    io.Writer
	h      telemetry.Header
	begun  bool
	next   time.Duration // of the next table
	last   time.Duration // of the last sample
	latest *telemetry.Latest
	idle   *telemetry.IdleDetector
	energy *telemetry.EnergyMeter
	means  *means
	csv    *telemetry.CSVWriter
	expose func() error
	events []telemetry.Event
}

func newMonitor(c *config, out io.Writer) *monitor {
	return &monitor{c: c, out: out, latest: new(telemetry.Latest), idle: telemetry.NewIdleDetector(c.idle),
		energy: telemetry.NewEnergyMeter(telemetry.EnergyOptions{}), means: new(means)}
}

func (m *monitor) sinks() []telemetry.Sink {
	return []telemetry.Sink{m.latest, m.idle, m.energy, m.means}
}

func (m *monitor) started() bool { return m.begun }

// Begin prints what is looked at.
func (m *monitor) Begin(h telemetry.Header) error {
	m.h, m.begun, m.next = h, true, m.c.every
	if m.c.json {
		return nil
	}
	_, err := fmt.Fprintf(m.out, "%d GPUs, %s by %s, from %s\n", len(h.Devices), h.Info.Basis, h.Info.Name, h.Start.UTC().Format(time.DateTime))
	return err
}

// maxEvents is how many events are kept to be shown, and maxDown how many where
// a device goes down or comes back.
const maxEvents, maxDown = 100, 1000

// Event keeps an event for the report. One that takes a device down or brings it
// back is exposed at once: a device that hangs gives no sample to wait for.
func (m *monitor) Event(e telemetry.Event) error {
	limit := maxEvents
	switch e.Kind {
	case telemetry.EventLost, telemetry.EventHung, telemetry.EventFailing, telemetry.EventBack:
		limit = maxDown
	}
	if len(m.events) < limit {
		m.events = append(m.events, e)
	}
	if limit == maxDown && m.expose != nil {
		return m.expose()
	}
	return nil
}

// Sample prints a table when it is time: with the first sample after that, so
// that the table has everything up to it.
func (m *monitor) Sample(x *telemetry.Sample) error {
	m.last = x.At
	if x.At <= m.next {
		return nil
	}
	at := m.next
	for m.next < x.At {
		m.next += m.c.every
	}
	return m.frame(at)
}

// frame brings the outputs up to date: the table, the CSV file, the exposition.
func (m *monitor) frame(at time.Duration) error {
	var errs []error
	if m.csv != nil {
		errs = append(errs, m.csv.Flush())
	}
	if m.expose != nil {
		errs = append(errs, m.expose())
	}
	if !m.c.json {
		errs = append(errs, m.table(at))
	}
	return errors.Join(errs...)
}

func (m *monitor) table(at time.Duration) error {
	// One name for all stands above the table; it is long.
	name := func(d telemetry.Device) string { return d.Name + "\t" }
	above, column := "", "name\t"
	if all := m.h.Devices; len(all) > 0 && !slices.ContainsFunc(all, func(d telemetry.Device) bool { return d.Name != all[0].Name }) {
		name = func(telemetry.Device) string { return "" }
		above, column = fmt.Sprintf(", %d x %s", len(all), all[0].Name), ""
	}
	fmt.Fprintf(m.out, "\nafter %v (%s%s)\n", at, m.h.Info.Basis, above)
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "GPU\t"+column+"util %\tSM %\tDRAM %\tmemory\tW\tMHz\t°C\tprocesses\tthrottle\tstate\t")
	for d, dev := range m.h.Devices {
		get := func(metric telemetry.Metric) (float64, bool) { return m.latest.Get(d, metric) }
		processes := "-"
		if list, ok := m.latest.Processes(d); ok {
			processes = strconv.Itoa(len(list))
		}
		fmt.Fprintf(w, "%d\t%s%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", d, name(dev), cell(get, telemetry.MetricGPUUtilPercent, 0), cell(get, telemetry.MetricSMUtilPercent, 1),
			cell(get, telemetry.MetricDRAMUtilPercent, 1), memory(get), cell(get, telemetry.MetricPowerWatts, 0), cell(get, telemetry.MetricSMClockMHz, 0),
			cell(get, telemetry.MetricTemperatureCelsius, 0), processes, m.means.throttle(d), m.state(d))
		for _, in := range m.latest.Instances(d) {
			fmt.Fprintf(w, "%d/%d\t%s%s\t%s\t%s\t%s\t-\t-\t-\t-\t-\tMIG, slices: %v\t\n", d, in.ID, strings.Repeat("\t", strings.Count(column, "\t")), cell(in.Get, telemetry.MetricGraphicsUtilPercent, 0),
				cell(in.Get, telemetry.MetricSMUtilPercent, 1), cell(in.Get, telemetry.MetricDRAMUtilPercent, 1), memory(in.Get), in.ComputeSlices)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(m.out, page.Fold(text.String()))
	return err
}

// cell formats a figure, or "-" when it is missing.
func cell(get func(telemetry.Metric) (float64, bool), metric telemetry.Metric, decimals int) string {
	v, ok := get(metric)
	if !ok {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

func memory(get func(telemetry.Metric) (float64, bool)) string {
	used, ok := get(telemetry.MetricMemUsedBytes)
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.1f GiB", sharing.Bytes(used).GiB())
}

// state is what a device does now, and for how long.
func (m *monitor) state(d int) string {
	if e, ok := m.latest.Down(d).Get(); ok {
		return strings.ToUpper(e.Kind.String())
	}
	r, err := m.idle.Report(d)
	if err != nil || len(r.Intervals) == 0 {
		return "-"
	}
	in := r.Intervals[len(r.Intervals)-1]
	if in.State == telemetry.StateActive && in.Length() == r.Pauses { // nothing was done yet
		return fmt.Sprintf("idle so far, %v", rounded(in.Length()))
	}
	return fmt.Sprintf("%v %v", in.State, rounded(in.Length()))
}

// rounded is a length without the units that are 0 at its end.
func rounded(d time.Duration) string {
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// means is a sink that averages the readings of every metric, and keeps the
// last throttle reasons.
type means struct {
	sum       []map[telemetry.Metric]float64
	n         []map[telemetry.Metric]int
	reasons   []telemetry.Optional[telemetry.Throttle]
	throttled []telemetry.Throttle
}

// Begin forgets everything.
func (s *means) Begin(h telemetry.Header) error {
	n := len(h.Devices)
	s.sum, s.n = make([]map[telemetry.Metric]float64, n), make([]map[telemetry.Metric]int, n)
	s.reasons, s.throttled = make([]telemetry.Optional[telemetry.Throttle], n), make([]telemetry.Throttle, n)
	for i := range n {
		s.sum[i], s.n[i] = map[telemetry.Metric]float64{}, map[telemetry.Metric]int{}
	}
	return nil
}

// Event takes no notice.
func (s *means) Event(telemetry.Event) error { return nil }

// Sample adds a sample.
func (s *means) Sample(x *telemetry.Sample) error {
	for _, m := range telemetry.Metrics() {
		if v, ok := x.Get(m); ok {
			s.sum[x.Device][m] += v
			s.n[x.Device][m]++
		}
	}
	if t, ok := x.Throttle.Get(); ok {
		s.reasons[x.Device] = x.Throttle
		s.throttled[x.Device] |= t
	}
	return nil
}

func (s *means) throttle(d int) string { return s.reasons[d].String() }

func (s *means) mean(d int, m telemetry.Metric) telemetry.Optional[float64] {
	if s.n[d][m] == 0 {
		return telemetry.Optional[float64]{}
	}
	return telemetry.Some(s.sum[d][m] / float64(s.n[d][m]))
}
