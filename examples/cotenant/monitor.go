// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

type monitorConfig struct {
	real, json      bool
	library         string
	duration, every time.Duration
	opts            telemetry.SamplerOptions
	idle            telemetry.IdleOptions
	csv             string
	price           cost.Money // zero without -price
	policies        []telemetry.ReapPolicy
	seed            uint64
}

// parseMonitor reads the flags. The error names every problem.
func parseMonitor(fl *call, std stdio) (*monitorConfig, error) {
	c := &monitorConfig{}
	fl.BoolVar(&c.real, "real", false, "read this machine's GPUs through NVML instead of the simulated node")
	fl.StringVar(&c.library, "nvml", "", "path of libnvidia-ml.so.1 (default: as the linker finds it)")
	fl.DurationVar(&c.duration, "duration", 0, "length of the sampling (default: simulated 24h, real until Ctrl-C)")
	fl.DurationVar(&c.every, "every", 0, "time between tables (default: simulated 6h, real 1s)")
	fl.DurationVar(&c.opts.Period, "period", 0, "time between cheap readings (default: simulated 10s, real 100ms)")
	fl.DurationVar(&c.opts.SlowPeriod, "slow-period", 0, "time between costly readings (default: simulated 10s, real 1s)")
	fl.DurationVar(&c.idle.Sustain, "sustain", 0, "shortest idle time that counts (default: simulated 1m, real 10s)")
	servers := fl.String("servers", "", "prefixes of the `NAMES` of further model servers, in addition to vLLM and the "+
		"like: their idle time is not reaped")
	fl.StringVar(&c.csv, "csv", "", "write every reading to this new `FILE`")
	fl.BoolVar(&c.json, "json", false, "print one JSON report at the end instead of tables")
	price := fl.String("price", "", "`PRICE` of a GPU hour, such as 3.50 or 3.50 EUR (default: no money is shown)")
	policies := fl.String("policy", "idlebot,princeton,kubeflow",
		"reaping policies: `names` (idlebot, princeton, kubeflow) or durations such as 45m")
	fl.Uint64Var(&c.seed, "seed", 1, "source of the simulated noise")
	if err := fl.parse(0, std); err != nil {
		return nil, err
	}
	if *servers != "" {
		c.idle.Servers = strings.Split(*servers, ",")
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	check := func(err error, flag string) {
		if err != nil {
			bad("%s: %w", flag, err)
		}
	}
	fl.Visit(func(f *flag.Flag) {
		if d, ok := f.Value.(flag.Getter).Get().(time.Duration); ok && d <= 0 {
			bad("-%s: %v (use a duration above 0, or leave it out)", f.Name, d)
		}
	})
	if *price != "" && !strings.Contains(*price, " ") {
		*price += " USD"
	}
	if *price != "" {
		var err error
		c.price, err = cost.ParsePrice(*price)
		check(err, "-price")
	}
	for name := range strings.SplitSeq(*policies, ",") {
		p, err := telemetry.ParseReapPolicy(strings.TrimSpace(name))
		check(err, "-policy")
		c.policies = append(c.policies, p)
	}
	if c.real { // Sampler and idle detection have defaults of their own for a real node
		c.every = cmp.Or(c.every, time.Second)
	} else {
		c.duration, c.every = cmp.Or(c.duration, 24*time.Hour), cmp.Or(c.every, 6*time.Hour)
		c.opts.Period, c.idle.Sustain = cmp.Or(c.opts.Period, 10*time.Second), cmp.Or(c.idle.Sustain, time.Minute)
		c.opts.SlowPeriod = cmp.Or(c.opts.SlowPeriod, max(10*time.Second, c.opts.Period))
	}
	return c, badInput(errors.Join(errs...))
}

func runMonitor(ctx context.Context, fl *call, std stdio) error {
	c, err := parseMonitor(fl, std)
	if err != nil {
		return err
	}
	src, done, err := c.open()
	if err != nil {
		return err
	}
	defer done()
	sampler, err := telemetry.NewSampler(src, c.opts)
	if err != nil {
		return badInput(err)
	}
	digest := telemetry.NewDigest(c.idle)
	sinks := []telemetry.Sink{digest}
	flush := func() error { return nil }
	if c.csv != "" {
		f, err := os.OpenFile(c.csv, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return badInput(fmt.Errorf("-csv: %w (name a new file)", err))
		}
		defer f.Close()
		var w telemetry.Sink
		w, flush = telemetry.NewCSVWriter(f)
		sinks = append(sinks, w)
	}
	sinks = append(sinks, &every{period: c.every, do: func(at time.Duration) error {
		if c.json {
			return flush()
		}
		var table strings.Builder
		err := writeTable(&table, digest, at)
		return errors.Join(err, flush(), printText(std.out, page.Fold(table.String())+"\n"))
	}})
	// The figures are kept, however the sampling ends.
	err = errors.Join(c.sample(ctx, sampler, sinks), flush())
	if rep, repErr := digest.Report(c.policies...); repErr == nil {
		err = errors.Join(err, c.print(rep, std))
	}
	if err == nil && (!c.real || c.duration > 0) {
		err = ctx.Err()
	}
	return err
}

// every is a sink that calls a function with the first sample after each period of the series' time, so that sinks
// before it have everything up to then.
type every struct {
	period, next time.Duration
	do           func(at time.Duration) error
}

func (e *every) Begin(telemetry.Header) error { e.next = e.period; return nil }

func (e *every) Sample(x *telemetry.Sample) error {
	if x.At <= e.next {
		return nil
	}
	at := e.next
	e.next += (x.At - e.next + e.period - 1) / e.period * e.period
	return e.do(at)
}

func (e *every) Event(telemetry.Event) error { return nil }

// print prints the report, with the money that each policy would give back.
func (c *monitorConfig) print(rep *telemetry.Report, std stdio) error {
	worth := map[string]cost.Money{}
	var text strings.Builder
	err := writeReport(&text, rep)
	for _, p := range rep.Policies {
		if c.price.Sign() > 0 {
			money, mulErr := c.price.MulFrac(int64(p.Recoverable), int64(time.Hour))
			err = errors.Join(err, mulErr)
			worth[p.Policy.Name] = money
			fmt.Fprintf(&text, "  at %s an hour %s recovers %s\n", c.price, p.Policy.Name, money.Round(2))
		}
	}
	if !c.real {
		text.WriteString("\nAll figures are simulated. With -real this machine's GPUs are read.\n")
	}
	return errors.Join(err, answer(std.out, c.json, struct {
		*telemetry.Report
		Worth map[string]cost.Money `json:"worth,omitempty"`
	}{rep, worth}, text.String()))
}

// open opens NVML or the simulated node.
func (c *monitorConfig) open() (telemetry.Reader, func(), error) {
	if !c.real {
		src, err := newNode(c.seed)
		return src, func() {}, err
	}
	src, err := telemetrynvml.Open(telemetrynvml.Options{LibraryPath: c.library})
	if err != nil {
		return nil, nil, refuseReal(err)
	}
	return src, func() { _ = src.Close() }, nil // the process ends
}

// monitorStart is the start of the simulated day.
var monitorStart = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

func (c *monitorConfig) sample(ctx context.Context, s *telemetry.Sampler, sinks []telemetry.Sink) error {
	if !c.real {
		return s.Simulate(ctx, monitorStart, c.duration, sinks...)
	}
	if c.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.duration)
		defer cancel()
	}
	return s.Stream(ctx, sinks...)
}

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
		for _, joules := range []sharing.Optional[float64]{g.Energy.IntegratedJoules, g.Energy.CounterJoules} {
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

// stateText returns the state of a device and its duration: "active 20s", "HUNG", or "-" before its first sample.
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
