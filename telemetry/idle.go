package telemetry

import (
	"cmp"
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

// Defaults of IdleOptions. None is published for execution-idle (arXiv
// 2604.04745 gives no thresholds); these are ours, except as noted.
const (
	defaultActivePercent   = 5.0
	defaultWorkingPercent  = 2.0 // a kernel of one thread reads 0.76% SM utilization on an H200
	defaultActiveBytesPerS = 10e6
	defaultResident        = sharing.GiB // as the Alibaba GenAI trace was read
	defaultPoweredWatts    = 10.0        // a context alone costs 26 to 50 W on boards with HBM (arXiv 2605.23918)
	DefaultSustain         = 10 * time.Second
)

// IdleOptions are the thresholds of idle detection. Every zero is its default.
type IdleOptions struct {
	ActivePercent float64 // the utilization (NVML's or GPM graphics) from which a device counts as busy
	// WorkingPercent is the GPM SM or memory bandwidth utilization from which a device counts as working.
	WorkingPercent  float64
	ActiveBytesPerS float64 // the PCIe or NVLink traffic from which a device counts as working
	// Resident is the memory in use from which a program counts as resident
	// although no process is listed, as happens inside containers.
	Resident sharing.Bytes
	// DeepIdleWatts is the device's power with nothing resident. 0 takes the lowest power seen in deep idle;
	// without that it is not known, and a resident, inactive program counts as powered.
	DeepIdleWatts float64
	PoweredWatts  float64       // by how much power must exceed deep idle to count
	Sustain       time.Duration // the length from which idleness counts
	// MaxGap is the longest time between two samples of a device; a longer one
	// is StateUnknown. 0 is three periods of the series, at least a second.
	MaxGap time.Duration
	// MaxAge is the time for which a figure holds. 0 is three slow periods.
	MaxAge time.Duration
}

// check names every option that cannot be.
func (o IdleOptions) check() error {
	var probs problem.List
	for _, f := range []struct {
		name string
		v    float64
	}{{"active_percent", o.ActivePercent}, {"working_percent", o.WorkingPercent},
		{"active_bytes_per_s", o.ActiveBytesPerS},
		{"resident", float64(o.Resident)}, {"deep_idle_watts", o.DeepIdleWatts}, {"powered_watts", o.PoweredWatts},
		{"sustain", o.Sustain.Seconds()}, {"max_gap", o.MaxGap.Seconds()}, {"max_age", o.MaxAge.Seconds()}} {
		probs.If(!(f.v >= 0), f.name, "leave it 0 for the default", "telemetry: an idle threshold of %v", f.v)
	}
	return probs.Err()
}

func (o IdleOptions) withDefaults(h Header) IdleOptions {
	o.ActivePercent = cmp.Or(o.ActivePercent, defaultActivePercent)
	o.WorkingPercent = cmp.Or(o.WorkingPercent, defaultWorkingPercent)
	o.ActiveBytesPerS = cmp.Or(o.ActiveBytesPerS, defaultActiveBytesPerS)
	o.PoweredWatts = cmp.Or(o.PoweredWatts, defaultPoweredWatts)
	o.Resident = cmp.Or(o.Resident, defaultResident)
	o.Sustain = cmp.Or(o.Sustain, DefaultSustain)
	o.MaxGap = maxGap(o.MaxGap, h.Period)
	o.MaxAge = cmp.Or(o.MaxAge, max(3*h.SlowPeriod, o.MaxGap))
	return o
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
