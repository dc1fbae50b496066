package telemetry

import (
	"time"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// State is a device's activity, as far as its figures show. The zero State is StateUnknown.
type State uint8

// The states.
const (
	// StateUnknown: the figures that would tell are missing, or a gap.
	StateUnknown State = iota
	// StateActive: work is done, or the device was idle for less than the sustain time.
	StateActive
	// StateStalled: the device reports busy, but next to no SM, memory or link
	// works: a spinning kernel, a hung collective. Only GPM can show it.
	StateStalled
	// StateExecutionIdle: a program is resident and draws power above deep idle, but does nothing.
	StateExecutionIdle
	// StateResidentIdle: a program is resident and does nothing, and the device draws no more than in deep idle.
	StateResidentIdle
	// StateDeepIdle: nothing is resident and nothing is done.
	StateDeepIdle
)

var stateNames = enum.Of[State](errUnknown, "state", "unknown", "active", "stalled", "execution-idle", "resident-idle",
	"deep-idle")

// States lists the states in the order of their values.
func States() []State { return stateNames.Values() }

// Idle says whether nothing useful is done in the state.
func (s State) Idle() bool { return s >= StateStalled }

// The thresholds of idle detection. None is published for execution-idle (arXiv
// 2604.04745 gives none); these are ours, except as noted.
const (
	activePercent   = 5.0  // NVML's utilization, or GPM's of graphics, from which a device counts as busy
	workingPercent  = 2.0  // GPM's SM or memory bandwidth utilization; a kernel of one thread reads 0.76% on an H200
	activeBytesPerS = 10e6 // PCIe or NVLink traffic from which a device counts as working
	// residentMemory in use counts as a resident program although no process is
	// listed, as happens inside containers; as the Alibaba GenAI trace was read.
	residentMemory = sharing.GiB
	// poweredWatts is by how much power must exceed deep idle to count. A context
	// alone costs 26 to 50 W on boards with HBM (arXiv 2605.23918).
	poweredWatts   = 10.0
	DefaultSustain = 10 * time.Second
)

// IdleOptions tune idle detection.
type IdleOptions struct {
	// DeepIdleWatts is the device's power with nothing resident. 0 takes the lowest power seen in deep idle;
	// without that it is not known, and a resident, inactive program counts as powered.
	DeepIdleWatts float64
	Sustain       time.Duration // the length from which idleness counts; 0 means DefaultSustain
}

// check names every option that cannot be.
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
	// Powered answers, for a resident and inactive program, whether power was
	// above deep idle. Unknown means that it was assumed.
	Powered sharing.Answer `json:"powered"`
	// Joules is the energy of the interval; missing without power readings over all of it.
	Joules Optional[float64] `json:"joules,omitzero"`
}

// Length is the interval's length.
func (i StateInterval) Length() time.Duration { return i.To - i.From }

// IdleReport says what a device did over a series.
type IdleReport struct {
	Device int           `json:"device"`
	Basis  sharing.Basis `json:"basis"`
	// Intervals cover the time from the device's first sample to its last.
	Intervals []StateInterval `json:"intervals"`
	Pauses    time.Duration   `json:"pauses_ns"` // the time of idleness too short to count; it is in StateActive
	// DeepIdleWatts is the power of deep idle that was used.
	DeepIdleWatts Optional[float64] `json:"deep_idle_watts,omitzero"`
}

// Total is the time in a state.
func (r *IdleReport) Total(s State) time.Duration {
	var d time.Duration
	for _, i := range r.Intervals {
		if i.State == s {
			d += i.Length()
		}
	}
	return d
}

// Joules is the energy in a state. It is missing where any of the state's
// intervals has none, or there is no interval.
func (r *IdleReport) Joules(s State) Optional[float64] {
	var sum Optional[float64]
	for _, i := range r.Intervals {
		if i.State == s {
			j, ok := i.Joules.Get()
			if !ok {
				return Optional[float64]{}
			}
			sum = Some(sum.Or(0) + j)
		}
	}
	return sum
}

// Observed is the time that the intervals cover, StateUnknown included.
func (r *IdleReport) Observed() time.Duration {
	if len(r.Intervals) == 0 {
		return 0
	}
	return r.Intervals[len(r.Intervals)-1].To - r.Intervals[0].From
}

// DetectIdle says what a device did over a series. Where opts gives no power of
// deep idle, the lowest of the whole series is used.
func DetectIdle(s *Series, device int, opts IdleOptions) (IdleReport, error) {
	for {
		d := NewIdleDetector(opts)
		if err := s.Replay(d); err != nil {
			return IdleReport{}, err
		}
		r, err := d.Report(device)
		if err != nil || opts.DeepIdleWatts != 0 || d.devs[device].deepIdle.Or(0) == 0 {
			return r, err
		}
		opts.DeepIdleWatts = d.devs[device].deepIdle.Or(0)
	}
}
