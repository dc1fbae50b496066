// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// idleDetector finds idle time as samples come. It is a Sink. It keeps an interval for each change of state, of
// idleness only once that is long enough to count. It is not safe for concurrent use.
type idleDetector struct {
	opts IdleOptions
	h    Header
	devs []idleState
}

// idleState is the detector's knowledge of one device.
type idleState struct {
	aged
	last      sharing.Optional[time.Duration] // of the samples
	processes sharing.Optional[int]
	serves    bool // a model server is among them
	procAt    time.Duration
	busySince sharing.Optional[time.Duration]
	deepIdle  sharing.Optional[float64]
	intervals []StateInterval // up to the present idleness
	pauses    time.Duration   // in them
	idle      []StateInterval // the present idleness
}

// Begin starts the detector anew. The error names invalid options.
func (d *idleDetector) Begin(h Header) error {
	if err := d.opts.check(); err != nil {
		return err
	}
	d.h, d.devs = h, make([]idleState, len(h.Devices))
	for i := range d.devs {
		if d.opts.DeepIdleWatts > 0 {
			d.devs[i].deepIdle = sharing.Some(d.opts.DeepIdleWatts)
		}
	}
	return nil
}

// Event takes no notice of events: a gap shows in the samples.
func (d *idleDetector) Event(Event) error { return nil }

// instanceMetrics are taken from the busiest MIG instance where the device itself has none.
var instanceMetrics = []Metric{MetricGraphicsUtilPercent, MetricSMUtilPercent, MetricDRAMUtilPercent,
	MetricTensorUtilPercent, MetricPCIeTxBytesPerS, MetricPCIeRxBytesPerS, MetricNVLinkTxBytesPerS,
	MetricNVLinkRxBytesPerS}

// Sample takes a sample. It describes the time since the device's last one. On
// a MIG GPU without figures of its own the busiest instance speaks for it.
func (d *idleDetector) Sample(x *Sample) error {
	if err := d.h.check(x.Device); err != nil {
		return err
	}
	s := &d.devs[x.Device]
	before, hadPower := s.fresh(MetricPowerWatts, x.At, d.h.maxAge())
	s.take(x.At, &x.figures)
	var busiest figures
	for _, m := range instanceMetrics {
		if _, ok := x.Get(m); ok {
			continue
		}
		for i := range x.Instances {
			v, ok := x.Instances[i].Get(m)
			if best, had := busiest.Get(m); ok && (!had || v > best) {
				busiest.Set(m, v)
			}
		}
	}
	s.take(x.At, &busiest)
	if x.Groups.Has(GroupProcesses) {
		s.processes, s.procAt = sharing.Some(len(x.Processes)), x.At
		s.serves = slices.ContainsFunc(x.Processes, func(p Process) bool { return d.opts.serves(p.Name) })
	}
	last, seen := s.last.Get()
	s.last = sharing.Some(x.At)
	if !seen || x.At <= last {
		return nil
	}
	next := StateInterval{From: last, To: x.At, State: stateUnknown}
	if x.At-last <= bridged(d.h.Period) {
		next.State = d.classify(s, x.At)
		next.Server = s.serves && next.State.held()
		if now, ok := s.fresh(MetricPowerWatts, x.At, d.h.maxAge()); ok && hadPower {
			next.Joules = sharing.Some((before + now) / 2 * (x.At - last).Seconds())
		}
	}
	if next.State.idle() {
		s.idle = appendInterval(s.idle, next)
		return nil
	}
	s.intervals, s.pauses = d.close(s, s.intervals)
	s.idle = s.idle[:0]
	s.intervals = appendInterval(s.intervals, next)
	return nil
}

// close adds a device's present idleness to a list of its intervals, as active where it is too short to count, and
// returns all pauses.
func (d *idleDetector) close(s *idleState, list []StateInterval) ([]StateInterval, time.Duration) {
	pauses, n := s.pauses, len(s.idle)
	short := n > 0 && s.idle[n-1].To-s.idle[0].From < cmp.Or(d.opts.Sustain, defaultSustain)
	for _, in := range s.idle {
		if short {
			pauses += in.Length()
			in.State, in.Server = StateActive, false
		}
		list = appendInterval(list, in)
	}
	return list, pauses
}

// appendInterval joins next to the last interval where both have the same state.
func appendInterval(list []StateInterval, next StateInterval) []StateInterval {
	if n := len(list); n > 0 && list[n-1].State == next.State && list[n-1].Server == next.Server &&
		list[n-1].To == next.From {
		l := &list[n-1]
		l.To = next.To
		a, okA := l.Joules.Get()
		b, okB := next.Joules.Get()
		l.Joules = sharing.Optional[float64]{}
		if okA && okB {
			l.Joules = sharing.Some(a + b)
		}
		return list
	}
	return append(list, next)
}

// classify returns the state of the device by the figures known at now.
func (d *idleDetector) classify(s *idleState, now time.Duration) State {
	atLeast := func(threshold float64, ms ...Metric) sharing.Answer {
		answer := sharing.AnswerUnknown
		for _, m := range ms {
			if v, ok := s.fresh(m, now, d.h.maxAge()); ok {
				if v >= threshold {
					return sharing.AnswerYes
				}
				answer = sharing.AnswerNo
			}
		}
		return answer
	}
	busy := atLeast(activePercent, MetricGPUUtilPercent, MetricGraphicsUtilPercent)
	working := atLeast(workingPercent, MetricSMUtilPercent, MetricDRAMUtilPercent, MetricTensorUtilPercent)
	sm, ok := s.fresh(MetricSMUtilPercent, now, d.h.maxAge())
	if working == sharing.AnswerNo && busy == sharing.AnswerYes && (!ok || sm == 0) {
		working = sharing.AnswerUnknown // a kernel of one thread reads more: the counter was not filled
	}
	traffic := atLeast(activeBytesPerS, MetricPCIeTxBytesPerS, MetricPCIeRxBytesPerS, MetricNVLinkTxBytesPerS,
		MetricNVLinkRxBytesPerS)
	if busy != sharing.AnswerYes {
		s.busySince = sharing.Optional[time.Duration]{}
	} else if s.busySince.IsZero() {
		s.busySince = sharing.Some(now)
	}
	// A GPM figure describes the slow period before it: one that began before
	// the device was busy does not describe its present work.
	gpm := max(s.at[MetricSMUtilPercent], s.at[MetricDRAMUtilPercent], s.at[MetricTensorUtilPercent])
	covers := gpm-d.h.SlowPeriod >= s.busySince.Or(now)
	switch {
	case working == sharing.AnswerNo && traffic != sharing.AnswerYes && busy == sharing.AnswerYes && covers:
		return stateStalled
	case working == sharing.AnswerYes, traffic == sharing.AnswerYes, busy == sharing.AnswerYes:
		return StateActive
	case busy == sharing.AnswerUnknown && working == sharing.AnswerUnknown:
		return stateUnknown
	}
	watts, powerKnown := s.fresh(MetricPowerWatts, now, d.h.maxAge())
	switch d.resident(s, now) {
	case sharing.AnswerUnknown:
		return stateUnknown
	case sharing.AnswerNo:
		if powerKnown && d.opts.DeepIdleWatts == 0 && watts < s.deepIdle.Or(watts+1) {
			s.deepIdle = sharing.Some(watts)
		}
		return StateDeepIdle
	}
	base, baseKnown := s.deepIdle.Get()
	if powerKnown && baseKnown && watts < base+poweredWatts {
		return StateResidentIdle
	}
	return StateExecutionIdle
}

// resident answers whether a program holds the device.
func (d *idleDetector) resident(s *idleState, now time.Duration) sharing.Answer {
	n, listed := s.processes.Get()
	listed = listed && now-s.procAt <= d.h.maxAge()
	used, known := s.fresh(MetricMemUsedBytes, now, d.h.maxAge())
	switch {
	case listed && n > 0, known && used >= float64(residentMemory):
		return sharing.AnswerYes
	case listed:
		return sharing.AnswerNo
	}
	return sharing.AnswerUnknown
}

// Report returns the intervals of a device so far.
func (d *idleDetector) Report(device int) (IdleReport, error) {
	if err := d.h.check(device); err != nil {
		return IdleReport{}, err
	}
	s := &d.devs[device]
	r := IdleReport{Device: device, Basis: d.h.Info.Basis, DeepIdleWatts: s.deepIdle}
	r.Intervals, r.Pauses = d.close(s, slices.Clone(s.intervals))
	return r, nil
}

// State is a device's activity, judged by its figures. "" also means "unknown".
type State string

// The states.
const (
	// The figures that decide it are missing, or there is a gap.
	stateUnknown State = "unknown"
	// StateActive: the device works, or was idle for less than the sustain time.
	StateActive State = "active"
	// The device reports busy, but next to no SM, memory or link works: a spinning kernel, a hung collective. Only GPM can
	// show it, and an SM utilization of exactly 0 next to it is one that was not filled.
	stateStalled State = "stalled"
	// StateExecutionIdle: a program is resident and draws power above deep idle, as far as is known, but does nothing.
	StateExecutionIdle State = "execution-idle"
	// StateResidentIdle: a program is resident and does nothing, and the device draws no more than in deep idle.
	StateResidentIdle State = "resident-idle"
	// StateDeepIdle: nothing is resident and nothing runs.
	StateDeepIdle State = "deep-idle"
)

// States lists the states, from unknown and active to the least busy.
func States() []State {
	return []State{stateUnknown, StateActive, stateStalled, StateExecutionIdle, StateResidentIdle, StateDeepIdle}
}

// held reports whether a program holds the device without using it.
func (s State) held() bool { return s == StateExecutionIdle || s == StateResidentIdle }

// idle reports whether nothing useful is done in the state.
func (s State) idle() bool { return s != "" && s != stateUnknown && s != StateActive }

// The thresholds of idle detection. None is published for execution-idle (arXiv 2604.04745 gives none); these are this
// project's, except as noted.
const (
	// IdleBelow is the share of the GPU's time below which it, or a tenant, counts as idle: NVML's resolution is one
	// percent. Idle detection and decision/guard use it.
	IdleBelow     = 0.01
	activePercent = 100 * IdleBelow // NVML's utilization, or GPM's of graphics
	// GPM's SM or memory bandwidth utilization; a kernel of one thread reads 0.76% on an H200
	workingPercent  = 2.0
	activeBytesPerS = 10e6 // PCIe or NVLink traffic from which a device counts as working
	// residentMemory in use counts as a resident program although no process is
	// listed, as happens inside containers; as the Alibaba GenAI trace was read.
	residentMemory = sharing.GiB
	// poweredWatts is by how much power must exceed deep idle to count. A context
	// alone costs 26 to 50 W on boards with HBM (arXiv 2605.23918).
	poweredWatts   = 10.0
	defaultSustain = 10 * time.Second
)

// IdleOptions tune idle detection.
type IdleOptions struct {
	// DeepIdleWatts is the device's power with nothing resident. 0 means the lowest power seen in deep idle; without any
	// it is unknown, and a resident, inactive program counts as drawing more.
	DeepIdleWatts float64
	Sustain       time.Duration // the shortest idle time that counts; 0 means 10 s
	// Servers are name prefixes of further model servers, in addition to the known ones: vLLM, SGLang, llama.cpp, Triton,
	// TGI, Ollama, LMDeploy and TensorRT-LLM. A server without requests waits for them: its idle time is never reaped.
	Servers []string
}

// serverNames are the beginnings of the names that model servers give their processes, in lower case.
var serverNames = []string{"vllm", "sglang", "llama-server", "tritonserver", "text-generation", "ollama", "lmdeploy",
	"trtllm"}

// serves reports whether a program is a model server.
func (o *IdleOptions) serves(program string) bool {
	begins := func(name string) bool { return strings.HasPrefix(strings.ToLower(program), strings.ToLower(name)) }
	return slices.ContainsFunc(serverNames, begins) || slices.ContainsFunc(o.Servers, begins)
}

func (o IdleOptions) check() error {
	var probs problem.List
	probs.If(!(o.DeepIdleWatts >= 0), "deep_idle_watts", "leave it 0 for the default",
		"telemetry: an idle threshold of %v", o.DeepIdleWatts)
	probs.If(o.Sustain < 0, "sustain", "leave it 0 for the default", "telemetry: an idle threshold of %v",
		o.Sustain.Seconds())
	return probs.Err()
}

// StateInterval is a time in one state.
type StateInterval struct {
	From  time.Duration `json:"from_ns"`
	To    time.Duration `json:"to_ns"`
	State State         `json:"state"`
	// Server is set if a resident, inactive program is a model server, which waits for requests.
	Server bool `json:"server,omitempty"`
	// Joules is the energy of the interval; missing unless power readings cover all of it.
	Joules sharing.Optional[float64] `json:"joules,omitzero"`
}

// Length is the interval's length.
func (i StateInterval) Length() time.Duration { return i.To - i.From }

// IdleReport lists the states of a device over a series.
type IdleReport struct {
	Device int           `json:"device"`
	Basis  sharing.Basis `json:"basis"`
	// Intervals cover the time from the device's first sample to its last.
	Intervals []StateInterval `json:"intervals"`
	Pauses    time.Duration   `json:"pauses_ns"` // idle times too short to count; part of StateActive
	// DeepIdleWatts is the power of deep idle that the report is based on.
	DeepIdleWatts sharing.Optional[float64] `json:"deep_idle_watts,omitzero"`
}

// Total is the time in a state.
func (r *IdleReport) Total(s State) time.Duration {
	var d time.Duration
	for _, i := range r.Intervals {
		if cmp.Or(i.State, stateUnknown) == s {
			d += i.Length()
		}
	}
	return d
}

// joules is the energy in a state. It is missing where any of the state's intervals has none, or there is no interval.
func (r *IdleReport) joules(s State) sharing.Optional[float64] {
	var sum sharing.Optional[float64]
	for _, i := range r.Intervals {
		if i.State == s {
			j, ok := i.Joules.Get()
			if !ok {
				return sharing.Optional[float64]{}
			}
			sum = sharing.Some(sum.Or(0) + j)
		}
	}
	return sum
}

// Observed is the total length of the intervals, unknown state included.
func (r *IdleReport) Observed() time.Duration {
	if len(r.Intervals) == 0 {
		return 0
	}
	return r.Intervals[len(r.Intervals)-1].To - r.Intervals[0].From
}

// DetectIdle returns the states of a device over a series. Where opts gives no power of
// deep idle, the lowest of the whole series is used.
func DetectIdle(s *Series, device int, opts IdleOptions) (IdleReport, error) {
	for {
		d := &idleDetector{opts: opts}
		if err := s.replay(d); err != nil {
			return IdleReport{}, err
		}
		r, err := d.Report(device)
		if err != nil || opts.DeepIdleWatts != 0 || d.devs[device].deepIdle.Or(0) == 0 {
			return r, err
		}
		opts.DeepIdleWatts = d.devs[device].deepIdle.Or(0)
	}
}
