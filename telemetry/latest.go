package telemetry

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/cotenant/cotenant/internal/atomicfile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// promPrefix starts the name of every exposed metric.
const promPrefix = "cotenant_gpu_"

// promUnits turn the unit at the end of a metric's name into Prometheus' base unit, of which one is times/over of it.
var promUnits = []struct {
	suffix, unit string
	times, over  float64
}{
	{"_percent", "_ratio", 1, 100},
	{"_mhz", "_hertz", 1e6, 1},
	{"_per_s", "_per_second", 1, 1},
}

// promName is a metric's name without the prefix, and how its figures are written.
func promName(m Metric) (name string, base func(float64) float64) {
	name = m.String()
	for _, u := range promUnits {
		if stem, ok := strings.CutSuffix(name, u.suffix); ok {
			return stem + u.unit, func(v float64) float64 { return v * u.times / u.over }
		}
	}
	return name, func(v float64) float64 { return v }
}

// WritePrometheus writes the newest figures in Prometheus' text format 0.0.4. Names are those of Metric.String with
// Prometheus' base units: ratios of 0 to 1 in place of percentages, hertz in place of MHz, "per_second". Where the
// GPU is down, cotenant_gpu_up is 0 and cotenant_gpu_down names the reason. Every line carries the device's index,
// its UUID and the basis of the figures; a missing figure has no line. MIG instances have metrics of their own,
// with the label gpu_instance. Lines come in a fixed order.
func (l *Latest) WritePrometheus(w io.Writer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &promWriter{w: bufio.NewWriter(w), l: l}
	for i, d := range l.h.Devices {
		p.base = append(p.base, fmt.Sprintf(`device="%d",uuid=%s,basis="%s"`, i, promLabel(d.UUID), l.h.Info.Basis))
	}
	p.family("info", "gauge", "A GPU and the source of its figures; always 1.")
	for i, d := range l.h.Devices {
		p.line(i, fmt.Sprintf(`,name=%s,mig="%s",gpm="%s",source=%s`, promLabel(d.Name), d.MIG, d.GPM,
			promLabel(l.h.Info.Name)), 1)
	}
	p.family("up", "gauge", "Whether the GPU answers.")
	for i := range l.devs {
		switch l.devs[i].lost() {
		case sharing.AnswerNo:
			p.line(i, "", 1)
		case sharing.AnswerYes:
			p.line(i, "", 0)
		}
	}
	p.family("down", "gauge", "Why the GPU does not answer: 1 for the reason.")
	for i := range l.devs {
		if e, ok := l.devs[i].down.Get(); ok {
			p.line(i, fmt.Sprintf(`,reason="%s"`, e.Kind), 1)
		}
	}
	for m := MetricGPUUtilPercent; m < metricEnd; m++ {
		name, base := promName(m)
		kind := "gauge"
		if m == MetricEnergyJoules {
			name, kind = name+"_total", "counter"
		}
		p.family(name, kind, m.Help())
		p.each(func(i int, d *latestDevice) {
			if v, ok := l.figure(d, m); ok {
				p.line(i, "", base(v))
			}
		})
	}
	p.family("throttle", "gauge", "Whether a reason holds the clocks down.")
	p.each(func(i int, d *latestDevice) {
		if t, ok := d.throttle.Get(); ok && l.fresh(d.throtAt) {
			for j, name := range throttleNames {
				p.line(i, fmt.Sprintf(`,reason="%s"`, name), float64(t>>j&1))
			}
		}
	})
	for m := MetricGPUUtilPercent; m < metricEnd; m++ {
		name, base := promName(m)
		p.family("instance_"+name, "gauge", "Of a MIG GPU instance: "+m.Help())
		p.each(func(i int, d *latestDevice) {
			for j := range d.instances {
				if v, ok := d.instances[j].Get(m); ok && l.fresh(d.instAt) {
					p.line(i, fmt.Sprintf(`,gpu_instance="%d"`, d.instances[j].ID), base(v))
				}
			}
		})
	}
	p.family("process_memory_bytes", "gauge", "Device memory that a process holds.")
	p.each(func(i int, d *latestDevice) {
		for j := range d.processes {
			if b, ok := d.processes[j].Memory.Get(); ok && l.recent(d.procAt) {
				p.line(i, processLabels(&d.processes[j]), float64(b))
			}
		}
	})
	p.family("process_sm_util_ratio", "gauge", "Share of time in which a process's kernels ran.")
	p.each(func(i int, d *latestDevice) {
		for j := range d.util {
			if v, ok := d.util[j].SMUtilPercent.Get(); ok && l.recent(d.utilAt) {
				p.line(i, processLabels(&d.util[j]), v/100)
			}
		}
	})
	p.family("telemetry_events_total", "counter", "What happened to the sampling.")
	for _, k := range eventNames.Values() {
		for i := -1; i < len(l.devs); i++ {
			if n, ok := l.events[eventKey{k, i}]; ok {
				p.line(i, fmt.Sprintf(`,kind="%s"`, k), float64(n))
			}
		}
	}
	return p.w.Flush()
}

func processLabels(q *Process) string {
	s := fmt.Sprintf(`,pid="%d",process=%s`, q.PID, promLabel(q.Name))
	if id, ok := q.GPUInstance.Get(); ok {
		s += fmt.Sprintf(`,gpu_instance="%d"`, id)
	}
	return s
}

// promWriter writes families, leaving out those without a line. Its errors come out of w.Flush.
type promWriter struct {
	w                *bufio.Writer
	l                *Latest
	base             []string // the labels of each device
	name, kind, help string
	open             bool
}

// each calls f with every device that is not down.
func (p *promWriter) each(f func(i int, d *latestDevice)) {
	for i := range p.l.devs {
		if p.l.devs[i].down.IsZero() {
			f(i, &p.l.devs[i])
		}
	}
}

func (p *promWriter) family(name, kind, help string) {
	p.name, p.kind, p.help, p.open = promPrefix+name, kind, help, false
}

// line writes a line of a device, or of none with -1.
func (p *promWriter) line(device int, labels string, v float64) {
	if !p.open {
		fmt.Fprintf(p.w, "# HELP %s %s\n# TYPE %s %s\n", p.name, p.help, p.name, p.kind)
		p.open = true
	}
	base := fmt.Sprintf(`basis="%s"`, p.l.h.Info.Basis)
	if device >= 0 {
		base = p.base[device]
	}
	fmt.Fprintf(p.w, "%s{%s%s} %s\n", p.name, base, labels, appendNumber(nil, v))
}

var promEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func promLabel(s string) string {
	return `"` + promEscape.Replace(strings.ToValidUTF8(s, "\uFFFD")) + `"`
}

// Every is a Sink that calls a function from time to time: with the first sample after each period of the series'
// time, so that sinks before it have everything up to then.
type Every struct {
	Period time.Duration // above 0
	// Do is called with the time since the series' start at which the period ended. Its error stops the sampling.
	Do   func(at time.Duration) error
	next time.Duration
}

// Begin starts the first period, and says what is wrong with the fields.
func (e *Every) Begin(Header) error {
	e.next = e.Period
	var probs problem.List
	probs.If(e.Period <= 0, "period", "use one above 0", "telemetry: a period of %v", e.Period)
	probs.If(e.Do == nil, "do", "set the function to call", "telemetry: nothing to do")
	return probs.Err()
}

// Sample calls Do when it is time.
func (e *Every) Sample(x *Sample) error {
	if x.At <= e.next {
		return nil
	}
	at := e.next
	e.next += (x.At - e.next + e.Period - 1) / e.Period * e.Period
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

// Latest keeps the newest figures of each device, for exposition. It is a Sink and is safe for concurrent use.
// Figures that are older than three slow periods are missing again.
type Latest struct {
	mu       sync.Mutex
	h        Header
	devs     []latestDevice
	events   map[eventKey]int
	newest   time.Duration // of all samples
	received time.Time     // when that sample came
}

type eventKey struct {
	kind   EventKind
	device int // -1 for all
}

type latestDevice struct {
	aged
	throttle  Optional[Throttle]
	throtAt   time.Duration
	processes []Process
	procAt    Optional[time.Duration]
	util      []Process
	utilAt    Optional[time.Duration]
	instances []Instance
	instAt    time.Duration
	down      Optional[Event] // why the device does not answer
	seen      bool
}

// Begin forgets everything and takes a header.
func (l *Latest) Begin(h Header) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.h, l.devs, l.events = h, make([]latestDevice, len(h.Devices)), map[eventKey]int{}
	l.newest, l.received = 0, time.Now()
	return nil
}

// Sample takes the figures of a sample.
func (l *Latest) Sample(x *Sample) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.h.check(x.Device); err != nil {
		return err
	}
	l.newest, l.received = max(l.newest, x.At), time.Now()
	d := &l.devs[x.Device]
	d.seen = true
	d.take(x.At, &x.figures)
	if !x.Throttle.IsZero() {
		d.throttle, d.throtAt = x.Throttle, x.At
	}
	if x.Groups.Has(GroupProcesses) {
		d.processes, d.procAt = eachOnce(x.Processes), Some(x.At)
	}
	if x.Groups.Has(GroupProcessUtil) {
		d.util, d.utilAt = eachOnce(x.Processes), Some(x.At)
	}
	if x.Groups.Has(GroupGPM) {
		d.instances, d.instAt = eachInstanceOnce(x.Instances), x.At
	}
	return nil
}

// Event counts an event and notes which devices are down.
func (l *Latest) Event(e Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events == nil {
		return ErrNotBegun
	}
	i, ok := e.Device.Get()
	if !ok {
		i = -1
	}
	l.events[eventKey{e.Kind, i}]++
	if l.h.check(i) == nil {
		switch e.Kind {
		case EventLost, EventHung, EventFailing:
			l.devs[i].down = Some(e)
		case EventBack:
			l.devs[i].down = Optional[Event]{}
		}
	}
	return nil
}

func (l *Latest) fresh(at time.Duration) bool {
	return l.newest-at <= l.h.maxAge() && time.Since(l.received) <= l.h.maxAge()
}

// recent says whether there was such a reading, and it still holds.
func (l *Latest) recent(at Optional[time.Duration]) bool {
	t, ok := at.Get()
	return ok && l.fresh(t)
}

// live calls f with a device that is known and not down.
func (l *Latest) live(device int, f func(*latestDevice)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.h.check(device) == nil && l.devs[device].down.IsZero() {
		f(&l.devs[device])
	}
}

// Get returns the newest figure of a device, if it is recent.
func (l *Latest) Get(device int, m Metric) (v float64, ok bool) {
	l.live(device, func(d *latestDevice) { v, ok = l.figure(d, m) })
	return v, ok
}

func (l *Latest) figure(d *latestDevice, m Metric) (float64, bool) {
	v, ok := d.Get(m)
	if !ok || !l.fresh(d.at[m]) {
		return 0, false
	}
	return v, true
}

// Down returns the event that took a device down, where it is: EventLost,
// EventHung or EventFailing, with the reason as its detail.
func (l *Latest) Down(device int) Optional[Event] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.h.check(device) != nil {
		return Optional[Event]{}
	}
	return l.devs[device].down
}

func (d *latestDevice) lost() sharing.Answer {
	if d.down.IsZero() && !d.seen {
		return sharing.AnswerUnknown
	}
	return sharing.AnswerOf(!d.down.IsZero())
}

// Processes returns the processes of a device and whether they were listed recently. The slice must not be changed.
func (l *Latest) Processes(device int) (list []Process, ok bool) {
	l.live(device, func(d *latestDevice) {
		if ok = l.recent(d.procAt); ok {
			list = d.processes
		}
	})
	return list, ok
}

// Instances returns the MIG instances of a device with their newest figures,
// none where they are not recent. The slice must not be changed.
func (l *Latest) Instances(device int) (list []Instance) {
	l.live(device, func(d *latestDevice) {
		if l.fresh(d.instAt) {
			list = d.instances
		}
	})
	return list
}
