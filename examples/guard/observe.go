package main

import (
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// A tenant is one workload's replica on one GPU, as its owner declares it.
type tenant struct {
	Name string
	Kind decision.Kind
	GPU  int
	// Holds is the part of the GPU that is reserved for it, 0 to 1.
	Holds float64
	// Server and Load say which profile is its own; without one among the
	// guard's profiles its usual latency is learnt.
	Server predict.Server
	Load   predict.Load
	// Expect is the interval of its TPOT in milliseconds beside the others, from
	// a prediction of the owner's own; missing where the profiles must tell.
	Expect telemetry.Optional[predict.Interval]
	// LimitMS is its objective for TPOT in milliseconds, 0 = none.
	LimitMS float64
	// MayReap is the owner's written consent to lose the tenant's state.
	MayReap bool
	Owner   string
}

// online says whether the tenant has a latency to be judged by.
func (t *tenant) online() bool { return t.Kind == decision.KindOnlineInference }

// A gpu is one device and how it is shared.
type gpu struct {
	Index     int    // by which people know it
	Name      string // of its model: tenants move between GPUs of one
	Mechanism sharing.Mechanism
	MIG       bool // could be split
}

// An observation is everything that was seen in one window.
type observation struct {
	At      time.Duration `json:"at_ns"` // since the start
	GPUs    []gpuSeen     `json:"gpus"`
	Tenants []tenantSeen  `json:"tenants"`
}

// gpuSeen is what telemetry says of a device.
type gpuSeen struct {
	At          time.Duration               `json:"at_ns"`          // of the newest reading
	Down        string                      `json:"down,omitempty"` // why the device does not answer; "" when it does
	UtilPercent telemetry.Optional[float64] `json:"util_percent,omitzero"`
	Watts       telemetry.Optional[float64] `json:"watts,omitzero"`
	// Joules is the device's energy counter: what it grew by over a time that was
	// not seen tells whether anything ran.
	Joules telemetry.Optional[float64] `json:"joules,omitzero"`
	// Others are processes that belong to no tenant.
	Others []processSeen `json:"others,omitempty"`
}

type processSeen struct {
	PID      uint32  `json:"pid"`
	Name     string  `json:"name"`
	Activity float64 `json:"activity"` // share of the GPU's time, 0 to 1; 1 where only its presence is known
}

// tenantSeen is what was seen of a tenant.
type tenantSeen struct {
	At time.Duration `json:"at_ns"` // of the newest figure
	// TPOT is the median time per output token over the window in milliseconds;
	// missing where nothing was served.
	TPOT telemetry.Optional[float64] `json:"tpot_ms,omitzero"`
	// Load is what the tenant is asked for, in units of its own.
	Load telemetry.Optional[float64] `json:"load,omitzero"`
	// Activity is its share of the GPU's time; missing where it cannot be told.
	Activity telemetry.Optional[float64] `json:"activity,omitzero"`
	// Watts above what the idle device draws, as far as they can be told apart.
	Watts telemetry.Optional[float64] `json:"watts,omitzero"`
	Gone  bool                        `json:"gone,omitempty"` // it holds nothing at present
}
