package telemetry

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// WriteTable prints a row for each device and MIG instance with its newest
// figures, of the time at. "-" is a figure that is missing.
func (d *Digest) WriteTable(w io.Writer, at time.Duration) error {
	all := d.h.Devices
	alike := !slices.ContainsFunc(all, func(dev Device) bool { return dev.Name != all[0].Name })
	above, column, name := "", "name\t", func(dev Device) string { return dev.Name + "\t" }
	if alike && len(all) > 0 { // the name is long, and stands once above the table
		above = fmt.Sprintf(", %d x %s", len(all), all[0].Name)
		column, name = "", func(Device) string { return "" }
	}
	fmt.Fprintf(w, "after %v (%s%s)\n", at, d.h.Info.Basis, above)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "GPU\t"+column+"util %\tSM %\tDRAM %\tmemory\tW\tMHz\t°C\tprocesses\tthrottle\tstate\t")
	for i, dev := range all {
		get := func(m Metric) (float64, bool) { return d.Get(i, m) }
		processes := "-"
		if list, ok := d.Processes(i); ok {
			processes = strconv.Itoa(len(list))
		}
		fmt.Fprintf(t, "%d\t%s%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", i, name(dev),
			cell(get, MetricGPUUtilPercent, 0), cell(get, MetricSMUtilPercent, 1), cell(get, MetricDRAMUtilPercent, 1),
			memoryCell(get), cell(get, MetricPowerWatts, 0), cell(get, MetricSMClockMHz, 0),
			cell(get, MetricTemperatureCelsius, 0), processes, d.Throttle(i), d.State(i))
		for _, in := range d.Instances(i) {
			fmt.Fprintf(t, "%d/%d\t%s%s\t%s\t%s\t%s\t-\t-\t-\t-\t-\tMIG, slices: %v\t\n", i, in.ID,
				strings.Repeat("\t", strings.Count(column, "\t")), cell(in.Get, MetricGraphicsUtilPercent, 0),
				cell(in.Get, MetricSMUtilPercent, 1), cell(in.Get, MetricDRAMUtilPercent, 1), memoryCell(in.Get), in.ComputeSlices)
		}
	}
	return t.Flush()
}

func cell(get func(Metric) (float64, bool), metric Metric, decimals int) string {
	v, ok := get(metric)
	if !ok {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

func memoryCell(get func(Metric) (float64, bool)) string {
	used, ok := get(MetricMemUsedBytes)
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.1f GiB", sharing.Bytes(used).GiB())
}

// WriteText prints the report for people: hours by state, a verdict on each
// device, the events, and what the policies would give back.
func (r *Report) WriteText(w io.Writer) error {
	length := time.Duration(r.DurationS * float64(time.Second)).Round(time.Millisecond)
	fmt.Fprintf(w, "What they did in %v (%s; hours)\n", length, r.Source.Basis)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "GPU\t")
	for _, s := range States() {
		fmt.Fprintf(t, "%v\t", s)
	}
	fmt.Fprintln(t, "kWh\tby counter\t")
	for _, g := range r.GPUs {
		fmt.Fprintf(t, "%d\t", g.Index)
		for _, s := range States() {
			fmt.Fprintf(t, "%.2f\t", g.HoursByState[s])
		}
		kwh := "-"
		if j, ok := g.Energy.IntegratedJoules.Get(); ok {
			kwh = fmt.Sprintf("%.2f", j/joulesPerKWh)
		}
		agree := map[sharing.Answer]string{sharing.AnswerYes: "agrees", sharing.AnswerNo: "differs"}[g.Energy.Agree]
		fmt.Fprintf(t, "%s\t%s\t\n", kwh, agree)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, g := range r.GPUs {
		fmt.Fprintf(w, "  GPU %d is %s\n", g.Index, g.Verdict)
	}
	if len(r.Events) > 0 {
		fmt.Fprintln(w, "\nWhat happened to the sampling")
	}
	for _, e := range r.Events {
		fmt.Fprintf(w, "  %v\n", e)
	}
	if len(r.Policies) > 0 {
		fmt.Fprintf(w, "\nWhat reaping would give back (GPU hours of %.1f seen)\n", r.Policies[0].Observed.Hours())
		fmt.Fprintln(t, "policy\tafter\tidle\tepisodes\treaped\trecoverable\ta GPU and day\t")
	}
	for _, p := range r.Policies {
		fmt.Fprintf(t, "%s\t%v\t%.1f\t%d\t%d\t%.1f\t%.2f\t\n", p.Policy.Name, p.Policy.ReapAfter, p.Idle.Hours(),
			p.Episodes, p.Reaped, p.Recoverable.Hours(), p.HoursPerDay.Or(0))
	}
	return t.Flush()
}
