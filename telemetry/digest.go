package telemetry

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// Digest sums up a sampling as it goes, in memory that grows with the changes of state only. It is a Sink. Its
// own methods are not safe for use beside the sampling; those of Latest are.
type Digest struct {
	*Latest
	idle   *IdleDetector
	energy *EnergyMeter
	devs   []digestDevice
	events []Event
	last   time.Duration
	begun  bool
}

type digestDevice struct {
	sum      [metricEnd]float64
	n        [metricEnd]int
	throttle Optional[Throttle]
	ever     Throttle
}

// NewDigest returns a Digest that detects idleness by opts.
func NewDigest(opts IdleOptions) *Digest {
	return &Digest{Latest: new(Latest), idle: NewIdleDetector(opts), energy: NewEnergyMeter()}
}

// Begin starts the digest anew. The error names options of NewDigest that cannot be.
func (d *Digest) Begin(h Header) error {
	d.devs, d.events, d.last, d.begun = make([]digestDevice, len(h.Devices)), nil, 0, true
	return errors.Join(d.Latest.Begin(h), d.idle.Begin(h), d.energy.Begin(h))
}

// Sample adds a sample.
func (d *Digest) Sample(x *Sample) error {
	if err := errors.Join(d.Latest.Sample(x), d.idle.Sample(x), d.energy.Sample(x)); err != nil {
		return err
	}
	dev := &d.devs[x.Device]
	for m, v := range x.all() {
		dev.sum[m] += v
		dev.n[m]++
	}
	if t, ok := x.Throttle.Get(); ok {
		dev.throttle = x.Throttle
		dev.ever |= t
	}
	d.last = x.At
	return nil
}

// Bounds of the events that a Digest keeps: those that take a device down or bring it back, and all.
const (
	maxDownEvents  = 1000
	maxOtherEvents = 100
)

// Event keeps an event.
func (d *Digest) Event(e Event) error {
	limit := maxOtherEvents
	if e.Kind.changesUp() {
		limit = maxDownEvents
	}
	if len(d.events) < limit {
		d.events = append(d.events, e)
	}
	return d.Latest.Event(e)
}

// changesUp reports whether events of the kind take a device down or bring it back.
func (k EventKind) changesUp() bool {
	return k == EventLost || k == EventHung || k == EventFailing || k == EventBack
}

// Throttle returns the newest reasons that hold a device's clocks down.
func (d *Digest) Throttle(device int) (t Optional[Throttle]) {
	if device >= 0 && device < len(d.devs) {
		t = d.devs[device].throttle
	}
	return t
}

// State returns for people what a device does and for how long it has: "active
// 20s", "HUNG", or "-" before its first sample.
func (d *Digest) State(device int) string {
	if e, ok := d.Down(device).Get(); ok {
		return strings.ToUpper(e.Kind.String())
	}
	r, err := d.idle.Report(device)
	if err != nil || len(r.Intervals) == 0 {
		return "-"
	}
	in := r.Intervals[len(r.Intervals)-1]
	if in.State == StateActive && in.Length() == r.Pauses { // nothing was done yet
		return "idle so far, " + shortDuration(in.Length())
	}
	return in.State.String() + " " + shortDuration(in.Length())
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

// Report sums up a sampling.
type Report struct {
	Source    ReaderInfo     `json:"source"`
	Start     time.Time      `json:"start"`
	DurationS float64        `json:"duration_s"`
	GPUs      []DeviceReport `json:"gpus"`
	// Policies holds, for each policy that was asked about, the time that it would give back.
	Policies []Recovery        `json:"policies"`
	Events   []Event           `json:"events,omitempty"`
	Sources  sharing.Citations `json:"sources,omitzero"` // of the policies
}

// DeviceReport sums up one device.
type DeviceReport struct {
	Index  int    `json:"index"`
	Device Device `json:"device"`
	// Means are those of the readings, by metric; counters are left out.
	Means        map[Metric]float64 `json:"means"`
	HoursByState map[State]float64  `json:"hours_by_state"`
	KWhByState   map[State]float64  `json:"kwh_by_state"`
	Verdict      string             `json:"verdict"` // IdleReport.Verdict
	Energy       Energy             `json:"energy"`
	Throttled    Throttle           `json:"throttled"` // every reason that was seen
}

const joulesPerKWh = 3.6e6

// Report returns the report of what was sampled so far, or ErrNotBegun.
func (d *Digest) Report(policies ...ReapPolicy) (*Report, error) {
	if !d.begun {
		return nil, ErrNotBegun
	}
	rep := &Report{
		Source: d.h.Info, Start: d.h.Start.UTC(), DurationS: d.last.Seconds(),
		Events: d.events, Policies: []Recovery{},
	}
	var idle []IdleReport
	for i, dev := range d.h.Devices {
		r, errIdle := d.idle.Report(i)
		e, errEnergy := d.energy.Energy(i)
		if err := errors.Join(errIdle, errEnergy); err != nil {
			return nil, err
		}
		idle = append(idle, r)
		g := DeviceReport{
			Index: i, Device: dev, Verdict: r.Verdict(), Energy: e, Throttled: d.devs[i].ever,
			Means: map[Metric]float64{}, HoursByState: map[State]float64{}, KWhByState: map[State]float64{},
		}
		for m, n := range d.devs[i].n {
			if metric := Metric(m); n > 0 && metric != MetricEnergyJoules {
				g.Means[metric] = d.devs[i].sum[m] / float64(n)
			}
		}
		for _, s := range States() {
			if t := r.Total(s); t > 0 {
				g.HoursByState[s] = t.Hours()
			}
			if j, ok := r.Joules(s).Get(); ok {
				g.KWhByState[s] = j / joulesPerKWh
			}
		}
		rep.GPUs = append(rep.GPUs, g)
	}
	for _, p := range policies {
		r, err := p.Recoverable(idle)
		if err != nil {
			return nil, err
		}
		rep.Policies = append(rep.Policies, r)
		rep.Sources.AddKnown(string(p.Source))
	}
	return rep, nil
}

// Shares of the observed time, and the length of one idle time, from which
// IdleReport.Verdict says more than "in use". They are ours.
const (
	verdictMostly   = 0.5
	verdictNotable  = 0.1
	verdictLongIdle = time.Hour
)

// Verdict returns in a few words what to do about a device.
func (r *IdleReport) Verdict() string {
	seen := r.Observed()
	if seen == 0 {
		return "not seen"
	}
	share := func(s State) float64 { return r.Total(s).Hours() / seen.Hours() }
	wasted := share(StateExecutionIdle) + share(StateResidentIdle)
	longest, serving := time.Duration(0), time.Duration(0)
	for _, in := range r.Intervals {
		if in.State.held() && !in.Server {
			longest = max(longest, in.Length())
		}
		if in.Server {
			serving += in.Length()
		}
	}
	switch {
	case share(StateUnknown) > verdictMostly:
		return "unknown most of the time"
	case share(StateStalled) > verdictNotable:
		return "STALLED: busy without working; look for a hang"
	case wasted > verdictMostly && 2*serving > seen:
		return "WAITING: a model server without requests; a candidate for sharing"
	case wasted > verdictMostly && longest >= verdictLongIdle:
		return "HELD IDLE: a candidate for reaping"
	case wasted > verdictNotable:
		return "SHORT GAPS: a candidate for sharing"
	case share(StateDeepIdle) > verdictMostly:
		return "FREE"
	case r.Pauses.Hours()/seen.Hours() > verdictMostly:
		return "idle most of the time, too briefly each time to count"
	}
	return "in use"
}

// String writes the event for people, on one line.
func (e Event) String() string {
	text := "all GPUs"
	if d, ok := e.Device.Get(); ok {
		text = fmt.Sprintf("GPU %d", d)
	}
	text = fmt.Sprintf("%v  %s: %v", e.At.Round(time.Millisecond), text, e.Kind)
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
		fmt.Fprintln(t, "policy\tafter\tidle\tepisodes\treaped\trecoverable\ta GPU and day\tservers' own\t")
	}
	for _, p := range r.Policies {
		fmt.Fprintf(t, "%s\t%v\t%.1f\t%d\t%d\t%.1f\t%.2f\t%.1f\t\n", p.Policy.Name, p.Policy.ReapAfter, p.Idle.Hours(),
			p.Episodes, p.Reaped, p.Recoverable.Hours(), p.HoursPerDay.Or(0), p.Servers.Hours())
	}
	return t.Flush()
}
