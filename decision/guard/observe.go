// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
)

// A Tenant is one workload's replica on one GPU, as its owner declares it. One that runs on several GPUs is a Tenant
// for each, all of one Name or with the same processes: it is idle when all of it is, and reaped as a whole.
type Tenant struct {
	Name string        `yaml:"name,required"` // namespace/pod where it is a pod
	Kind decision.Kind `yaml:"kind,required"`
	GPU  int           // its index
	// Holds is the part of the GPU that is reserved for it, above 0 and up to 1.
	Holds float64
	// Server and Load name its profile; without one its usual latency is learnt.
	Server profile.Server
	Load   profile.Load
	// Expect is the interval of its TPOT in milliseconds with its neighbours, from
	// a prediction of the owner; missing where the profiles predict it.
	Expect telemetry.Optional[profile.Interval]
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

// has reports that a pod's processes are the tenant's.
func (t *Tenant) has(pod container.Pod) bool {
	w := t.Workload
	return pod.Namespace == w.Namespace && pod.OwnedBy(w.Name) && (w.Container == "" || pod.Container == w.Container)
}

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

// An Observation holds everything that was seen in one window. GPUs and Tenants lie in the order of Config.
type Observation struct {
	At      time.Duration `json:"at_ns"` // since the start
	GPUs    []GPUSeen     `json:"gpus"`
	Tenants []TenantSeen  `json:"tenants"`
}

// GPUSeen holds a device's telemetry in a window.
type GPUSeen struct {
	At          time.Duration               `json:"at_ns"`          // of the newest reading
	Down        string                      `json:"down,omitempty"` // why the device does not answer; "" when it does
	UtilPercent telemetry.Optional[float64] `json:"util_percent,omitzero"`
	Watts       telemetry.Optional[float64] `json:"watts,omitzero"`
	// Joules is the device's energy counter: its growth over a time without readings shows whether anything ran.
	Joules telemetry.Optional[float64] `json:"joules,omitzero"`
	// Others are processes that belong to no tenant.
	Others []ProcessSeen `json:"others,omitempty"`
}

// ProcessSeen is a process on a device.
type ProcessSeen struct {
	PID  uint32 `json:"pid"`
	Name string `json:"name"`
	// Activity is its share of the GPU's time, 0 to 1; 1 where only its presence is known.
	Activity float64 `json:"activity"`
}

// TenantSeen holds the observations of a tenant in a window.
type TenantSeen struct {
	At time.Duration `json:"at_ns"` // of the newest figure
	// TPOT is the median time per output token over the window in milliseconds; missing where nothing was served.
	TPOT telemetry.Optional[float64] `json:"tpot_ms,omitzero"`
	// Load is the rate that is asked of the tenant: tokens a second by its metrics page.
	Load telemetry.Optional[float64] `json:"load,omitzero"`
	// Activity is its share of the GPU's time, 0 to 1; missing where it is not known.
	Activity telemetry.Optional[float64] `json:"activity,omitzero"`
	Gone     bool                        `json:"gone,omitempty"` // it holds nothing at present
	Pods     []string                    `json:"pods,omitempty"` // that it runs in, as namespace/pod
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

func orNaN(v telemetry.Optional[float64]) float64 { return v.Or(math.NaN()) }

func median(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(list))[len(list)/2]
}
