package decision

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// MoreGPUs is the number of GPUs of a pool that would have to be added for the unplaced replicas, with everything
// else as it stands.
type MoreGPUs struct {
	Pool string `json:"pool"`
	GPUs int    `json:"gpus"`
}

// moreGPUs is the cheapest addition to one pool that places all replicas of w,
// nil where none are missing or more GPUs would not help.
func (pl *answers) moreGPUs(w int) *MoreGPUs {
	var best *MoreGPUs
	price := 0.0
	for key, want := range pl.Full[w] {
		cp := pl.Pools[key.Pool]
		m := MoreGPUs{cp.Pool.Name, want - cp.Pool.Count}
		total := float64(m.GPUs) * pl.Counts(pl.Rate(w, cp))
		if best == nil || total < price || total == price &&
			(m.GPUs < best.GPUs || m.GPUs == best.GPUs && m.Pool < best.Pool) {
			best, price = &m, total
		}
	}
	return best
}

// together is the number of GPUs of a pool that would have to be added for all replicas that lack them, where the
// answers ask one by one, and all of the same pool; nil where they don't, or one answer says it already.
func (r *Result) together(f *Fleet, opt Options) (*MoreGPUs, error) {
	pool, least, most := "", 0, 0
	var who []string
	for i := range r.Decisions {
		m := r.Decisions[i].MoreGPUs
		if m == nil {
			continue
		}
		if len(who) > 0 && m.Pool != pool {
			return nil, nil
		}
		who = append(who, r.Decisions[i].Workload)
		pool, least, most = m.Pool, max(least, m.GPUs), most+m.GPUs
	}
	if len(who) < 2 {
		return nil, nil
	}
	larger := *f
	larger.Pools = slices.Clone(f.Pools)
	at := slices.IndexFunc(larger.Pools, func(p Pool) bool { return p.Name == pool })
	enough := func(more int) (bool, error) {
		larger.Pools[at].Count = f.Pools[at].Count + more
		pl, err := plan.NewPlan(&larger, opt, 1)
		if err != nil {
			return false, err
		}
		pl.RoomDoes = true
		if err := pl.Plan(larger.Trust); err != nil {
			return false, err
		}
		for w, cw := range pl.Workloads {
			if pl.Placed[w] < cw.Workload().ReplicaCount() && slices.Contains(who, cw.Workload().Name) {
				return false, nil
			}
		}
		return true, nil
	}
	if ok, err := enough(most); !ok {
		return nil, err
	}
	var failed error
	least += sort.Search(most-least, func(k int) bool {
		ok, err := enough(least + k)
		failed = errors.Join(failed, err)
		return ok
	})
	return &MoreGPUs{Pool: pool, GPUs: least}, failed
}

const (
	mostDivided = 64 // replicas that a load is divided over to find out how many carry it
	mostAsked   = 20 // workloads of a fleet for which that is found out
)

// divided says over how many replicas a workload's load would have to be divided for GPUs to carry it, and how many
// more of those that takes; empty where that is not the way out.
func (pl *answers) divided(w int) string {
	wl := *pl.Workloads[w].Workload()
	if !pl.Serves(&wl) || wl.Load.RequestsPerS == 0 || pl.asked == mostAsked {
		return ""
	}
	pl.asked++
	// As many GPUs as it takes: how many there are is said beside.
	var pools []*CompiledPool
	for _, cp := range pl.Pools {
		roomy, pool := *cp, *cp.Pool
		pool.Count = max(pool.Count, mostDivided)
		roomy.Pool = &pool
		pools = append(pools, &roomy)
	}
	try := func(n int) *plan.Planner {
		wl.Replicas = Replicas{Max: n}
		mini := pl.Imagined(&wl, pl.Simulated, pools...)
		err := mini.Plan(TrustUnstated)
		pl.Simulated = mini.Simulated
		if err != nil || mini.Placed[0] < n || mini.Chosen[0].Answer != sharing.AnswerYes {
			return nil
		}
		return mini
	}
	low, high := wl.ReplicaCount(), 2*wl.ReplicaCount() // low are too few
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
	p := found.Chosen[0].Pool
	text := fmt.Sprintf("; over %d replicas the load would do, on %s", high, pl.Pools[p].Pool.Name)
	if gpus, _ := found.Used(p); gpus > pl.Pools[p].Pool.Count {
		text += fmt.Sprintf(" with %s more", plaintext.Count(gpus-pl.Pools[p].Pool.Count, "GPU"))
	}
	return text
}
