// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"math"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
)

// A Tenant is one workload's replica on one GPU, as its owner declares it. A replica on several GPUs is a Tenant for
// each, with the same Name or processes: it is idle if all of them are, and reaped as a whole.
type Tenant struct {
	Name string        `yaml:"name,required"` // namespace/pod if it is a pod
	Kind decision.Kind `yaml:"kind,required"`
	GPU  int           // its index
	// Holds is the part of the GPU that is reserved for it, above 0 and up to 1.
	Holds float64
	// Server and Load name its profile; without a profile its usual latency is learnt.
	Server profile.Server
	Load   profile.Load
	// Expect is the expected interval of its TPOT in milliseconds with its neighbours, as predicted by the owner; if
	// missing, the profiles predict it.
	Expect sharing.Optional[profile.Interval]
	// LimitMS is its objective for TPOT in milliseconds, 0 = none.
	LimitMS float64 `yaml:"tpot_ms"`
	// MayReap is the owner's written consent to lose the tenant's state.
	MayReap bool   `yaml:"may_be_reaped"`
	Owner   string `yaml:"owner"`

	// PIDs, Workload and Command identify its processes: their ids, the namespace and name of the pod that they run in or
	// of the Deployment, StatefulSet, Job or DaemonSet that owns it (with or without a container), or whole successive
	// arguments of their command lines, the first of which may leave out the folder of a path.
	PIDs     []uint32 `yaml:"pids"`
	Workload container.Pod
	Command  []string
	// Metrics is the address of the metrics page of its vLLM, SGLang or llama.cpp server.
	Metrics string `yaml:"metrics"`
}

// online reports that the tenant has a latency to be evaluated by.
func (t *Tenant) online() bool { return t.Kind == decision.KindOnlineInference }

// named reports whether the tenant's processes can be identified.
func (t *Tenant) named() bool { return t.Workload != container.Pod{} || len(t.PIDs)+len(t.Command) > 0 }

// lead returns the first of the tenants that are one with tenant i, on several GPUs.
func lead(tenants []Tenant, i int) int {
	t := &tenants[i]
	for k := range tenants[:i] {
		o := &tenants[k]
		if t.Name != "" && o.Name == t.Name || t.named() && o.Workload == t.Workload && slices.Equal(o.PIDs, t.PIDs) &&
			slices.Equal(o.Command, t.Command) {
			return k
		}
	}
	return i
}

// An Observation holds all observations of one window. GPUs and Tenants are in the order of Config.
type Observation struct {
	At      time.Duration `json:"at_ns"` // since the start
	GPUs    []GPUSeen     `json:"gpus"`
	Tenants []TenantSeen  `json:"tenants"`
}

// GPUSeen holds a device's telemetry in a window.
type GPUSeen struct {
	At          time.Duration             `json:"at_ns"`          // of the newest reading
	Down        string                    `json:"down,omitempty"` // why the device does not answer; "" if it does
	UtilPercent sharing.Optional[float64] `json:"util_percent,omitzero"`
	Watts       sharing.Optional[float64] `json:"watts,omitzero"`
	// Joules is the device's energy counter: its growth during missing readings shows whether anything ran.
	Joules sharing.Optional[float64] `json:"joules,omitzero"`
	// Others are processes of no tenant.
	Others []ProcessSeen `json:"others,omitempty"`
}

// ProcessSeen is a process on a device.
type ProcessSeen struct {
	PID  uint32 `json:"pid"`
	Name string `json:"name"`
	// Activity is its share of the GPU's time, 0 to 1; 1 if only its presence is known.
	Activity float64 `json:"activity"`
}

// TenantSeen holds the observations of a tenant in a window.
type TenantSeen struct {
	At time.Duration `json:"at_ns"` // of the newest figure
	// TPOT is the median time per output token over the window in milliseconds; missing if nothing was served.
	TPOT sharing.Optional[float64] `json:"tpot_ms,omitzero"`
	// Load is the demand on the tenant in tokens a second, by its metrics page.
	Load sharing.Optional[float64] `json:"load,omitzero"`
	// Activity is its share of the GPU's time, 0 to 1; missing where it is not known.
	Activity sharing.Optional[float64] `json:"activity,omitzero"`
	Gone     bool                      `json:"gone,omitempty"` // it holds no GPU at present
	Pods     []string                  `json:"pods,omitempty"` // that it runs in, as namespace/pod
}

// history has the last windows of a figure; a missing one is NaN.
type history []float64

const historyKept = 64 // windows

func (h *history) add(v float64) {
	*h = append(*h, v)
	*h = (*h)[max(0, len(*h)-historyKept):]
}

// back returns the figure of k windows ago; NaN where it is not kept.
func (h history) back(k int) float64 {
	if k < 0 || k >= len(h) {
		return math.NaN()
	}
	return h[len(h)-1-k]
}

// around returns the median of the windows before the last k, as far as they are
// kept, and the mean of the last k; NaN where there are none.
func (h history) around(k int) (before, recent float64) {
	cut := max(0, len(h)-k)
	there := func(values []float64) []float64 {
		return slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	}
	return median(there(h[:cut])), stat.Mean(there(h[cut:]), nil)
}

func orNaN(v sharing.Optional[float64]) float64 { return v.Or(math.NaN()) }

func median(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(list))[len(list)/2]
}

// Rules are the guard's thresholds. None is published for this purpose: they
// were chosen on recorded and simulated windows.
type Rules struct {
	Window   time.Duration        `json:"window_ns"`   // of one observation
	Slow     int                  `json:"slow"`        // consecutive windows above the expected latency for an alarm
	Clear    int                  `json:"clear"`       // consecutive windows within it that end an alarm
	Margin   float64              `json:"margin"`      // above the expected latency's upper bound, as a fraction of it
	Rise     float64              `json:"rise"`        // least growth of a neighbour's share of the GPU's time, 0 to 1
	Cooldown time.Duration        `json:"cooldown_ns"` // least time between two actions on a GPU
	Budget   int                  `json:"budget"`      // actions in an hour, all GPUs together
	Policy   telemetry.ReapPolicy `json:"policy"`
	// Learn is the number of windows from which the usual latency is learnt without a prediction: with 15, two of 190
	// starts within eight quiet minutes of an H100 led to a later alarm, with 20 and 30 none.
	Learn int `json:"learn"`

	reap bool // of the configuration
}

// DefaultRules returns the rules for a length of windows. The cool-down is 30 windows, the policy the first of
// telemetry.ReapPolicies.
func DefaultRules(window time.Duration) Rules {
	return Rules{
		Window: window, Slow: 3, Clear: 5, Margin: 0.10, Rise: 0.10, Cooldown: 30 * window, Budget: 100,
		Policy: telemetry.ReapPolicies()[0], Learn: 30,
	}
}

// Action is a kind of proposal.
type Action string

// The actions, the least disturbing first.
const (
	ActionKeep   Action = "keep"
	ActionNotice Action = "notice"
	ActionCap    Action = "cap"
	ActionMove   Action = "move"
	ActionSplit  Action = "split"
	ActionReap   Action = "reap"
)

// acts reports that the action changes how tenants run.
func (a Action) acts() bool { return a == ActionCap || a == ActionMove || a == ActionReap }

// A Proposal is an Action with its evidence and expected effect.
type Proposal struct {
	At       time.Duration `json:"at_ns"`
	Action   Action        `json:"action"`
	GPU      int           `json:"gpu"`              // index of the device
	Victim   string        `json:"victim,omitempty"` // the disturbed tenant
	Target   string        `json:"target"`           // the tenant or process that the Action concerns
	Owner    string        `json:"owner,omitempty"`
	Pods     []string      `json:"pods,omitempty"`                  // the target's, as namespace/pod
	Percent  float64       `json:"active_thread_percent,omitempty"` // of a cap
	To       *int          `json:"to_gpu,omitempty"`                // index of the device to move to
	Evidence []string      `json:"evidence"`
	Effect   string        `json:"effect"`
	// Withheld is the reason why the Action is only proposed; empty if it may be carried out.
	Withheld string `json:"withheld,omitempty"`

	victim, target int // tenants; -1 = none
}

// Guard holds the state of observed tenants. It is not safe for concurrent use.
type Guard struct {
	rules     Rules
	gpus      []layout.Device
	tenants   []Tenant
	profiles  *profile.Profiles
	predictor *predict.Predictor
	states    []tenantState
	lead      []int // by tenant, the first that is one with it
	devices   []deviceState
	others    map[otherKey]*history
	acted     []time.Duration // of the last hour
	window    int
	at        time.Duration // of the last observation
}

// never lies before every time.
const never = math.MinInt64 / 2 * time.Nanosecond

// deviceState is the memory of a GPU.
type deviceState struct {
	lastAct   time.Duration // never = none
	at        time.Duration // of the newest reading
	blind     bool          // since then
	joules    sharing.Optional[float64]
	joulesAt  time.Duration
	idleWatts sharing.Optional[float64] // the least that it drew while nothing ran
	busyWatts sharing.Optional[float64] // and while something did
	watts     history
	util      history // percent
}

type otherKey struct {
	gpu int
	pid uint32
}

type tenantState struct {
	activity    history
	load        history
	learnt      []float64
	slow, clear int
	alarm       bool
	proposed    Action    // in this alarm
	idle        *idleTime // nil: it works
	reaped      bool
	capped      float64
	withheld    string
	measured    bool // its activity was known at some time
}

// span is a stretch of time.
type span struct{ from, to time.Duration }

func ms(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) + " ms" }
