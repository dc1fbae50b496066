package decision

import "slices"

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
		pl, err := newPlan(&larger, opt, 1)
		if err != nil {
			return false, err
		}
		pl.roomDoes = true
		if err := pl.plan(larger.Trust); err != nil {
			return false, err
		}
		for w, cw := range pl.workloads {
			if pl.placed[w] < cw.workload.replicas() && slices.Contains(who, cw.workload.Name) {
				return false, nil
			}
		}
		return true, nil
	}
	if ok, err := enough(most); !ok {
		return nil, err
	}
	for least < most {
		mid := (least + most) / 2
		ok, err := enough(mid)
		if err != nil {
			return nil, err
		}
		if ok {
			most = mid
		} else {
			least = mid + 1
		}
	}
	return &MoreGPUs{Pool: pool, GPUs: most}, nil
}
