// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"fmt"
	"time"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// ReapPolicy is a rule for reaping idle GPUs.
type ReapPolicy struct {
	Name string `json:"name"` // e.g. "idlebot"
	// Source cites the policy; empty for your own duration.
	Source sharing.SourceID `json:"source,omitempty"`
	// WarnAfter is the idle time before the first warning to the holder; 0 without a warning or a published time.
	WarnAfter time.Duration `json:"warn_after_ns,omitzero"`
	ReapAfter time.Duration `json:"reap_after_ns"` // the idle time after which the GPU is reaped
}

// ReapPolicies lists the published policies, the strictest first.
func ReapPolicies() []ReapPolicy {
	return []ReapPolicy{
		// Northeastern University: https://rc-docs.northeastern.edu/en/explorer-main/gpus/idlebot.html
		{"idlebot", "northeastern-idlebot", 15 * time.Minute, time.Hour},
		// Princeton University: https://researchcomputing.princeton.edu/get-started/utilization-policies
		{"princeton", "princeton-utilization", 0, 2 * time.Hour},
		// Culling of Kubeflow's notebooks: https://github.com/kubeflow/kubeflow/pull/3856
		{"kubeflow", "kubeflow-culling", 0, 24 * time.Hour},
	}
}

// ParseReapPolicy returns a policy by its name, or one that reaps after a duration, such as "45m", without a warning.
func ParseReapPolicy(s string) (ReapPolicy, error) {
	if d, err := time.ParseDuration(s); err == nil {
		if d <= 0 {
			return ReapPolicy{}, fmt.Errorf("telemetry: a policy that reaps after %v; use a positive duration", d)
		}
		return ReapPolicy{Name: d.String(), ReapAfter: d}, nil
	}
	policies := ReapPolicies()
	names := make([]string, len(policies))
	for i, p := range policies {
		names[i] = p.Name
	}
	i, err := enum.Parse(errUnknown, "reaping policy", names, []byte(s))
	if err != nil {
		return ReapPolicy{}, fmt.Errorf("%w (or give a duration such as 45m)", err)
	}
	return policies[i], nil
}

// Recovery is the GPU time that a policy would recover.
type Recovery struct {
	Policy ReapPolicy    `json:"policy"`
	Basis  sharing.Basis `json:"basis"` // of the series behind it
	// Observed is the observed GPU time, Unknown its part with an unknown state, which is never recoverable.
	Observed time.Duration `json:"observed_ns"`
	Unknown  time.Duration `json:"unknown_ns"`
	Idle     time.Duration `json:"idle_ns"` // the GPU time that programs held without using it
	// Servers is the same for model servers. It is not part of Idle, since it is not reaped.
	Servers time.Duration `json:"servers_ns"`
	// Episodes are the unbroken idle times, Reaped those that lasted long enough.
	Episodes int `json:"episodes"`
	Reaped   int `json:"reaped"`
	// Recoverable is the idle GPU time after reaping. A period that the end of the series cuts off counts as far as it was
	// observed.
	Recoverable time.Duration `json:"recoverable_ns"`
	// HoursPerDay is Recoverable in hours per GPU and observed day.
	HoursPerDay sharing.Optional[float64] `json:"hours_per_gpu_day,omitzero"`
}

// Recoverable returns the GPU time that the policy would recover on the devices of the reports. It reaps in
// StateExecutionIdle and StateResidentIdle, but never a model server.
func (p ReapPolicy) Recoverable(reports []IdleReport) (Recovery, error) {
	if p.ReapAfter <= 0 {
		return Recovery{}, fmt.Errorf("telemetry: the policy %q reaps after %v (use a positive duration or one of "+
			"ReapPolicies)", p.Name, p.ReapAfter)
	}
	r := Recovery{Policy: p}
	end := func(period time.Duration) {
		if period == 0 {
			return
		}
		r.Episodes++
		r.Idle += period
		if period >= p.ReapAfter {
			r.Reaped++
			r.Recoverable += period - p.ReapAfter
		}
	}
	for i := range reports {
		rep := &reports[i]
		if i == 0 {
			r.Basis = rep.Basis
		} else if r.Basis != rep.Basis {
			r.Basis = sharing.BasisUnknown
		}
		r.Observed += rep.Observed()
		r.Unknown += rep.Total(stateUnknown)
		var period time.Duration
		for _, in := range rep.Intervals {
			if in.State.held() && !in.Server {
				period += in.Length()
				continue
			}
			if in.Server {
				r.Servers += in.Length()
			}
			end(period)
			period = 0
		}
		end(period)
	}
	if r.Observed > 0 {
		r.HoursPerDay = sharing.Some(24 * r.Recoverable.Hours() / r.Observed.Hours())
	}
	return r, nil
}
