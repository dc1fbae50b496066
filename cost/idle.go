package cost

import (
	"fmt"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Idle returns how long, and for which part of a period, a job that is busy
// for some of it leaves its GPU idle: 8 h of 24 leave 16 h, 66.7 %.
func Idle(busy, period time.Duration) (time.Duration, PPM, error) {
	var l problem.List
	if period <= 0 {
		l.Addf("period", "give a time above 0", "%v is no period", period)
	} else if busy < 0 || busy > period {
		l.Addf("busy", fmt.Sprintf("give 0 to %v", period), "%v is out of range", busy)
	}
	if err := inputErr(&l); err != nil {
		return 0, 0, err
	}
	p, err := ratio(int64(period-busy), int64(period))
	return period - busy, p, err
}

// ReapedHours returns the GPU-hours a day that come back when reaping brings
// the idle part of allocated hours down from before to after: 24 * gpus *
// (before - after); 5.5 % to 1 % of 10 GPUs is 10.8. Where after is an
// upper bound the result is a lower one.
func ReapedHours(gpus int, before, after PPM) (float64, error) {
	var l problem.List
	if gpus < 0 {
		l.Addf("gpus", "give 0 or more", "%d is below zero", gpus)
	}
	if before < 0 || before > Whole {
		l.Addf("before", "give 0% to 100%", "%s is out of range", before)
	} else if after < 0 || after > before {
		l.Addf("after", fmt.Sprintf("give 0%% to %s", before), "%s is out of range", after)
	}
	if err := inputErr(&l); err != nil {
		return 0, err
	}
	return hoursPerDay * float64(gpus) * float64(before-after) / float64(Whole), nil
}

// ReapingPolicy is a rule that ends jobs whose GPU has been idle for so long.
type ReapingPolicy struct {
	Name      string
	WarnAfter sharing.Cell[time.Duration] // unknown where no source gives it
	EndAfter  time.Duration
	Note      string
	Source    sharing.SourceID
}

// ReapingPolicies returns the rules that sites and projects are known for, by
// EndAfter. The slice is the caller's.
func ReapingPolicies() []ReapingPolicy {
	return []ReapingPolicy{
		{Name: "idlebot", WarnAfter: sharing.KnownCell(15*time.Minute, "northeastern-idlebot"), EndAfter: time.Hour,
			Note: "mail when under-utilised, cancel later", Source: "northeastern-idlebot"},
		{Name: "princeton", EndAfter: 2 * time.Hour,
			Note: "jobs at zero utilisation end after two warnings", Source: "princeton-utilization"},
		{Name: "kubeflow", EndAfter: 1440 * time.Minute,
			Note: "default idle time of a notebook, not of its GPU", Source: "kubeflow-culling"},
	}
}

// Recovered returns the idle time that the policy gives back from a list of
// idle episodes: what each has left after EndAfter. Most waste is in gaps
// shorter than any policy waits, which sharing recovers and reaping does not;
// this figure shows how much that is on your own episodes.
func (p ReapingPolicy) Recovered(episodes []time.Duration) (time.Duration, error) {
	var l problem.List
	var sum time.Duration
	for i, e := range episodes {
		if e < 0 {
			l.Addf(fmt.Sprintf("episodes[%d]", i), "give 0 or more", "%v is below zero", e)
			continue
		}
		if sum += max(0, e-p.EndAfter); sum < 0 {
			return 0, ErrOverflow
		}
	}
	if err := inputErr(&l); err != nil {
		return 0, err
	}
	return sum, nil
}
