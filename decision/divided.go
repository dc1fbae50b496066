package decision

import (
	"fmt"

	"github.com/cotenant/cotenant/sharing"
)

const (
	mostDivided = 64 // replicas that a load is divided over to find out how many carry it
	mostAsked   = 20 // workloads of a fleet for which that is found out
)

// divided says over how many replicas a workload's load would have to be divided for GPUs to carry it, and how many
// more of those that takes; empty where that is not the way out.
func (pl *planner) divided(w int) string {
	wl := *pl.workloads[w].workload
	if !pl.serves(&wl) || wl.Load.RequestsPerS == 0 || pl.asked == mostAsked {
		return ""
	}
	pl.asked++
	// As many GPUs as it takes: how many there are is said beside.
	var pools []*CompiledPool
	for _, cp := range pl.pools {
		roomy, pool := *cp, *cp.pool
		pool.Count = max(pool.Count, mostDivided)
		roomy.pool = &pool
		pools = append(pools, &roomy)
	}
	try := func(n int) *planner {
		wl.Replicas = Replicas{Max: n}
		mini := newPlanner(pl.opt)
		mini.opt.MaxPoolsListed, mini.opt.Profiles = -1, nil
		mini.simulated = pl.simulated
		mini.pools, mini.workloads = pools, []*CompiledWorkload{CompileWorkload(&wl)}
		err := mini.plan(TrustUnstated)
		pl.simulated = mini.simulated
		if err != nil || mini.placed[0] < n || mini.chosen[0].answer != sharing.AnswerYes {
			return nil
		}
		return mini
	}
	low, high := wl.replicas(), 2*wl.replicas() // low are too few
	found := try(high)
	for ; found == nil; found = try(high) {
		if low, high = high, 2*high; high > mostDivided {
			return ""
		}
	}
	for high-low > 1 {
		mid := (low + high) / 2
		if mini := try(mid); mini != nil {
			high, found = mid, mini
		} else {
			low = mid
		}
	}
	p := found.chosen[0].pool
	text := fmt.Sprintf("; over %d replicas the load would do, on %s", high, pl.pools[p].pool.Name)
	if gpus, _ := found.used(p); gpus > pl.pools[p].pool.Count {
		text += fmt.Sprintf(" with %s more", counted(gpus-pl.pools[p].pool.Count, "GPU"))
	}
	return text
}
