package telemetry

import (
	"bufio"
	"fmt"
	"io"
	"math/bits"
	"strings"
	"sync"
	"time"

	"github.com/cotenant/cotenant/internal/atomicfile"
	"github.com/cotenant/cotenant/sharing"
)

// Latest keeps the newest figures of each device, for exposition. It is a Sink
// and is safe for concurrent use. Figures that are older than three slow
// periods are missing again.
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
	f         figures
	at        [metricEnd]time.Duration
	throttle  Optional[Throttle]
	throtAt   time.Duration
	processes []Process
	procAt    Optional[time.Duration]
	util      []Process
	utilAt    Optional[time.Duration]
	instances []Instance
	instAt    time.Duration
	lost      bool
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
	for m := MetricGPUUtilPercent; m < metricEnd; m++ {
		if v, ok := x.Get(m); ok {
			d.f.set(m, v)
			d.at[m] = x.At
		}
	}
	if !x.Throttle.IsZero() {
		d.throttle, d.throtAt = x.Throttle, x.At
	}
	if x.Groups.Has(GroupProcesses) {
		d.processes, d.procAt = x.Processes, Some(x.At)
	}
	if x.Groups.Has(GroupProcessUtil) {
		d.util, d.utilAt = x.Processes, Some(x.At)
	}
	if x.Groups.Has(GroupGPM) {
		d.instances, d.instAt = x.Instances, x.At
	}
	return nil
}

// Event counts an event and notes lost devices.
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
		case EventLost:
			l.devs[i].lost = true
		case EventBack:
			l.devs[i].lost = false
		}
	}
	return nil
}

// maxAge is how long a figure holds.
func (l *Latest) maxAge() time.Duration { return max(3*l.h.SlowPeriod, maxGap(0, l.h.Period)) }

func (l *Latest) fresh(at time.Duration) bool {
	return l.newest-at <= l.maxAge() && time.Since(l.received) <= l.maxAge()
}

// Get returns the newest figure of a device, if it is recent.
func (l *Latest) Get(device int, m Metric) (float64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.h.check(device) != nil {
		return 0, false
	}
	return l.get(device, m)
}

func (l *Latest) get(device int, m Metric) (float64, bool) {
	d := &l.devs[device]
	v, ok := d.f.get(m)
	if !ok || d.lost || !l.fresh(d.at[m]) {
		return 0, false
	}
	return v, true
}

// Lost answers whether a device is lost; unknown before its first sample.
func (l *Latest) Lost(device int) sharing.Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.h.check(device) != nil {
		return sharing.AnswerUnknown
	}
	return l.devs[device].lostAnswer()
}

func (d *latestDevice) lostAnswer() sharing.Answer {
	if !d.lost && !d.seen {
		return sharing.AnswerUnknown
	}
	return sharing.AnswerOf(d.lost)
}

// Processes returns the processes of a device and whether they were listed
// recently. The slice must not be changed.
func (l *Latest) Processes(device int) ([]Process, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.h.check(device) != nil {
		return nil, false
	}
	d := &l.devs[device]
	at, ok := d.procAt.Get()
	if !ok || d.lost || !l.fresh(at) {
		return nil, false
	}
	return d.processes, true
}

// Instances returns the MIG instances of a device with their newest figures,
// none where they are not recent. The slice must not be changed.
func (l *Latest) Instances(device int) []Instance {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.h.check(device) != nil || l.devs[device].lost || !l.fresh(l.devs[device].instAt) {
		return nil
	}
	return l.devs[device].instances
}

// promPrefix starts the name of every exposed metric.
const promPrefix = "cotenant_gpu_"

// WritePrometheus writes the newest figures in Prometheus' text format 0.0.4.
// Every line carries the device's index, its UUID and the basis of the
// figures; a missing figure has no line. MIG instances have metrics of their
// own, with the label gpu_instance. Lines come in a fixed order.
func (l *Latest) WritePrometheus(w io.Writer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &promWriter{w: bufio.NewWriter(w)}
	base := make([]string, len(l.devs))
	for i := range l.devs {
		base[i] = fmt.Sprintf(`device="%d",uuid=%s,basis="%s"`, i, promLabel(l.h.Devices[i].UUID), l.h.Info.Basis)
	}
	p.family("info", "gauge", "A GPU and the source of its figures; always 1.")
	for i, d := range l.h.Devices {
		p.line(base[i]+fmt.Sprintf(`,name=%s,mig="%s",gpm="%s",source=%s`, promLabel(d.Name), d.MIG, d.GPM, promLabel(l.h.Info.Name)), 1)
	}
	p.family("up", "gauge", "Whether the GPU answers.")
	for i := range l.devs {
		switch l.devs[i].lostAnswer() {
		case sharing.AnswerNo:
			p.line(base[i], 1)
		case sharing.AnswerYes:
			p.line(base[i], 0)
		}
	}
	for m := MetricGPUUtilPercent; m < metricEnd; m++ {
		name, kind := m.String(), "gauge"
		if m == MetricEnergyJoules {
			name, kind = name+"_total", "counter"
		}
		p.family(name, kind, m.Help())
		for i := range l.devs {
			if v, ok := l.get(i, m); ok {
				p.line(base[i], v)
			}
		}
	}
	l.writeThrottle(p, base)
	l.writeInstances(p, base)
	l.writeProcesses(p, base)
	p.family("telemetry_events_total", "counter", "What happened to the sampling.")
	for k := EventUnknown; int(k) < len(eventNames); k++ {
		for i := -1; i < len(l.devs); i++ {
			n, ok := l.events[eventKey{k, i}]
			if !ok {
				continue
			}
			labels := fmt.Sprintf(`basis="%s"`, l.h.Info.Basis)
			if i >= 0 {
				labels = base[i]
			}
			p.line(labels+fmt.Sprintf(`,kind="%s"`, k), float64(n))
		}
	}
	return p.w.Flush()
}

// SavePrometheus replaces the file at path with what WritePrometheus writes, so
// that a reader (Node exporter's textfile collector) never sees half of it.
func (l *Latest) SavePrometheus(path string) error {
	return atomicfile.WriteFunc(path, 0o644, l.WritePrometheus)
}

func (l *Latest) writeThrottle(p *promWriter, base []string) {
	p.family("throttle", "gauge", "Whether a reason holds the clocks down.")
	for i := range l.devs {
		d := &l.devs[i]
		t, ok := d.throttle.Get()
		if !ok || d.lost || !l.fresh(d.throtAt) {
			continue
		}
		for j, name := range throttleNames {
			p.line(base[i]+fmt.Sprintf(`,reason="%s"`, name), float64(bits.OnesCount64(uint64(t)&(1<<j))))
		}
	}
}

func (l *Latest) writeInstances(p *promWriter, base []string) {
	for m := MetricGPUUtilPercent; m < metricEnd; m++ {
		p.family("instance_"+m.String(), "gauge", "Of a MIG GPU instance: "+m.Help())
		for i := range l.devs {
			d := &l.devs[i]
			if d.lost || !l.fresh(d.instAt) {
				continue
			}
			for j := range d.instances {
				if v, ok := d.instances[j].Get(m); ok {
					p.line(base[i]+fmt.Sprintf(`,gpu_instance="%d"`, d.instances[j].ID), v)
				}
			}
		}
	}
}

func (l *Latest) writeProcesses(p *promWriter, base []string) {
	labels := func(i int, q *Process) string {
		s := base[i] + fmt.Sprintf(`,pid="%d",process=%s`, q.PID, promLabel(q.Name))
		if id, ok := q.GPUInstance.Get(); ok {
			s += fmt.Sprintf(`,gpu_instance="%d"`, id)
		}
		return s
	}
	recent := func(d *latestDevice, at Optional[time.Duration]) bool {
		t, ok := at.Get()
		return ok && !d.lost && l.fresh(t)
	}
	p.family("process_memory_bytes", "gauge", "Device memory that a process holds.")
	for i := range l.devs {
		if d := &l.devs[i]; recent(d, d.procAt) {
			for j := range d.processes {
				if b, ok := d.processes[j].Memory.Get(); ok {
					p.line(labels(i, &d.processes[j]), float64(b))
				}
			}
		}
	}
	p.family("process_sm_util_percent", "gauge", "Share of time in which a process's kernels ran.")
	for i := range l.devs {
		if d := &l.devs[i]; recent(d, d.utilAt) {
			for j := range d.util {
				if v, ok := d.util[j].SMUtilPercent.Get(); ok {
					p.line(labels(i, &d.util[j]), v)
				}
			}
		}
	}
}

// promWriter writes families, leaving out those without a line. Its errors come
// out of w.Flush.
type promWriter struct {
	w                *bufio.Writer
	name, kind, help string
	open             bool
}

func (p *promWriter) family(name, kind, help string) {
	p.name, p.kind, p.help, p.open = promPrefix+name, kind, help, false
}

func (p *promWriter) line(labels string, v float64) {
	if !p.open {
		fmt.Fprintf(p.w, "# HELP %s %s\n# TYPE %s %s\n", p.name, p.help, p.name, p.kind)
		p.open = true
	}
	fmt.Fprintf(p.w, "%s{%s} %s\n", p.name, labels, appendNumber(nil, v))
}

var promEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// promLabel quotes a label's value.
func promLabel(s string) string {
	return `"` + promEscape.Replace(strings.ToValidUTF8(s, "\uFFFD")) + `"`
}
