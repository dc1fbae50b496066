// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// writeTable prints a row for each device and MIG instance with its newest
// figures, of the time at. "-" is a figure that is missing.
func writeTable(w io.Writer, d *telemetry.Digest, at time.Duration) error {
	rep, err := d.Report()
	if err != nil {
		return err
	}
	all := rep.GPUs
	alike := !slices.ContainsFunc(all, func(g telemetry.DeviceReport) bool { return g.Device.Name != all[0].Device.Name })
	above, column, name := "", "name\t", func(g telemetry.DeviceReport) string { return g.Device.Name + "\t" }
	if alike && len(all) > 0 { // the name is long: once, above the table
		above = fmt.Sprintf(", %d x %s", len(all), all[0].Device.Name)
		column, name = "", func(telemetry.DeviceReport) string { return "" }
	}
	fmt.Fprintf(w, "after %v (%s%s)\n", shortDuration(at), rep.Source.Basis, above)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "GPU\t"+column+"util %\tSM %\tDRAM %\tmemory\tW\tMHz\t°C\tprocesses\tthrottle\tstate\t")
	for i, g := range all {
		get := func(m telemetry.Metric) (float64, bool) { return d.Get(i, m) }
		processes := "-"
		if list, ok := d.Processes(i); ok {
			processes = strconv.Itoa(len(list))
		}
		fmt.Fprintf(t, "%d\t%s%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", i, name(g),
			cell(get, telemetry.MetricGPUUtilPercent, 0), cell(get, telemetry.MetricSMUtilPercent, 1),
			cell(get, telemetry.MetricDRAMUtilPercent, 1),
			memoryCell(get), cell(get, telemetry.MetricPowerWatts, 0), cell(get, telemetry.MetricSMClockMHz, 0),
			cell(get, telemetry.MetricTemperatureCelsius, 0), processes, d.Throttle(i), stateText(d, i))
		for _, in := range d.Instances(i) {
			fmt.Fprintf(t, "%d/%d\t%s%s\t%s\t%s\t%s\t-\t-\t-\t-\t-\tMIG, slices: %v\t\n", i, in.ID,
				strings.Repeat("\t", strings.Count(column, "\t")), cell(in.Get, telemetry.MetricGraphicsUtilPercent, 0),
				cell(in.Get, telemetry.MetricSMUtilPercent, 1), cell(in.Get, telemetry.MetricDRAMUtilPercent, 1),
				memoryCell(in.Get), in.ComputeSlices)
		}
	}
	return t.Flush()
}

func cell(get func(telemetry.Metric) (float64, bool), metric telemetry.Metric, decimals int) string {
	v, ok := get(metric)
	if !ok {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

func memoryCell(get func(telemetry.Metric) (float64, bool)) string {
	used, ok := get(telemetry.MetricMemUsedBytes)
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.1f GiB", sharing.Bytes(used).GiB())
}

// writeReport prints the report: hours by state, a verdict on each
// device, the events, and the savings of the policies.
func writeReport(w io.Writer, r *telemetry.Report) error {
	length := time.Duration(r.DurationS * float64(time.Second))
	fmt.Fprintf(w, "Hours in each state, of %s (%s)\n", shortDuration(length), r.Source.Basis)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "GPU\t")
	for _, s := range telemetry.States() {
		fmt.Fprintf(t, "%v\t", s)
	}
	fmt.Fprintln(t, "kWh\tby counter\t")
	for _, g := range r.GPUs {
		fmt.Fprintf(t, "%d\t", g.Index)
		for _, s := range telemetry.States() {
			fmt.Fprintf(t, "%.2f\t", g.HoursByState[s])
		}
		for _, joules := range []telemetry.Optional[float64]{g.Energy.IntegratedJoules, g.Energy.CounterJoules} {
			kwh := "-"
			if j, ok := joules.Get(); ok {
				kwh = fmt.Sprintf("%.2f", j/3.6e6)
			}
			fmt.Fprintf(t, "%s\t", kwh)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, g := range r.GPUs {
		fmt.Fprintf(w, "  GPU %d: %s\n", g.Index, g.Verdict)
	}
	if len(r.Events) > 0 {
		fmt.Fprintln(w, "\nEvents of the sampling")
	}
	for _, e := range r.Events {
		fmt.Fprintf(w, "  %s\n", eventText(e))
	}
	if len(r.Policies) > 0 {
		fmt.Fprintf(w, "\nGPU hours that reaping would recover, of %.1f observed\n", r.Policies[0].Observed.Hours())
		fmt.Fprintln(t, "policy\tafter\tidle\tepisodes\treaped\trecovered\ta GPU and day\tin servers\t")
	}
	for _, p := range r.Policies {
		fmt.Fprintf(t, "%s\t%v\t%.1f\t%d\t%d\t%.1f\t%.2f\t%.1f\t\n", p.Policy.Name,
			shortDuration(p.Policy.ReapAfter), p.Idle.Hours(), p.Episodes, p.Reaped, p.Recoverable.Hours(),
			p.HoursPerDay.Or(0), p.Servers.Hours())
	}
	return t.Flush()
}

// eventText writes an event on one line.
func eventText(e telemetry.Event) string {
	text := fmt.Sprintf("%v  GPU %d: %v", e.At.Round(time.Millisecond), e.Device, e.Kind)
	if e.Count > 0 {
		text += fmt.Sprintf(" x%d", e.Count)
	}
	if e.Length != 0 {
		text += fmt.Sprintf(" of %v", e.Length.Round(time.Millisecond))
	}
	if e.Detail != "" {
		text += fmt.Sprintf(" (%s)", e.Detail)
	}
	return text
}

// stateText returns the state of a device and its duration: "active
// 20s", "HUNG", or "-" before its first sample.
func stateText(d *telemetry.Digest, device int) string {
	if e, ok := d.Down(device).Get(); ok {
		return strings.ToUpper(string(e.Kind))
	}
	r, err := d.Idle(device)
	if err != nil || len(r.Intervals) == 0 {
		return "-"
	}
	in := r.Intervals[len(r.Intervals)-1]
	if in.State == telemetry.StateActive && in.Length() == r.Pauses { // nothing was done yet
		return "idle so far, " + shortDuration(in.Length())
	}
	return string(in.State) + " " + shortDuration(in.Length())
}

// shortDuration leaves out the units that are 0 at a duration's end.
func shortDuration(d time.Duration) string {
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
