// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"math"
	"time"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/telemetry"
)

// Rules are the guard's thresholds. None is published for this purpose: they
// were chosen on recorded and simulated windows.
type Rules struct {
	Window   time.Duration        `json:"window_ns"`   // of one observation
	Slow     int                  `json:"slow"`        // windows in a row above the expected latency that raise an alarm
	Clear    int                  `json:"clear"`       // windows in a row within it that end one
	Margin   float64              `json:"margin"`      // above the upper end of the expected latency, as a part of it
	Rise     float64              `json:"rise"`        // least growth of a neighbour's share of the GPU's time, 0 to 1
	Cooldown time.Duration        `json:"cooldown_ns"` // least time between two actions on a GPU
	Budget   int                  `json:"budget"`      // actions in an hour, all GPUs together
	Policy   telemetry.ReapPolicy `json:"policy"`
	// Learn is the number of windows from which the usual latency is learnt where nothing is predicted: with 15,
	// two in 190 beginnings within eight quiet minutes of an H100 led to an alarm later, with 20 and 30 none.
	Learn int `json:"learn"`

	reap bool // of the configuration
}

// DefaultRules returns the rules for windows of a length. The cool-down is 30
// windows, the policy the first of telemetry.ReapPolicies.
func DefaultRules(window time.Duration) Rules {
	return Rules{
		Window: window, Slow: 3, Clear: 5, Margin: 0.10, Rise: 0.10, Cooldown: 30 * window, Budget: 100,
		Policy: telemetry.ReapPolicies()[0], Learn: 30,
	}
}

// Action is the name of a kind of proposal.
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

// A Proposal names an Action with its evidence and the effect to expect.
type Proposal struct {
	At       time.Duration `json:"at_ns"`
	Action   Action        `json:"action"`
	GPU      int           `json:"gpu"`              // index of the device
	Victim   string        `json:"victim,omitempty"` // the tenant that suffers
	Target   string        `json:"target"`           // the tenant or process that the Action concerns
	Owner    string        `json:"owner,omitempty"`
	Pods     []string      `json:"pods,omitempty"`                  // the target's, as namespace/pod
	Percent  float64       `json:"active_thread_percent,omitempty"` // of a cap
	To       *int          `json:"to_gpu,omitempty"`                // index of the device to move to
	Evidence []string      `json:"evidence"`
	Effect   string        `json:"effect"`
	// Withheld is the reason for which the Action is only proposed.
	Withheld string `json:"withheld,omitempty"`

	victim, target int // tenants; -1 = none
}

// Guard holds the state of watching. It is not safe for concurrent use.
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
	joules    telemetry.Optional[float64]
	joulesAt  time.Duration
	idleWatts telemetry.Optional[float64] // the least that it drew while nothing ran
	busyWatts telemetry.Optional[float64] // and while something did
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
