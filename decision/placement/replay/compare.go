package replay

import (
	"context"

	"github.com/cotenant/cotenant/decision/placement"
)

// Comparison holds every policy's figures over ten seeds.
type Comparison struct {
	Trace    string         `json:"trace"`
	Basis    string         `json:"basis"`
	Ratio    float64        `json:"ratio"`
	Seeds    []int64        `json:"seeds"`
	Policies []PolicyResult `json:"policies"`
	Bound    float64        `json:"bound_percent,omitzero"` // Cluster.Bound, where it was asked for
}

// PolicyResult holds the figures of one policy.
type PolicyResult struct {
	Name      string    `json:"policy"`
	Allocated []float64 `json:"allocated_percent"` // by seed
	Mean      float64   `json:"mean_allocated_percent"`
	Placed    float64   `json:"mean_placed"`
	Failed    float64   `json:"mean_failed"`
	// GPUs of a task that was placed, and of one that was refused.
	PlacedGPUs float64 `json:"mean_gpus_of_placed"`
	FailedGPUs float64 `json:"mean_gpus_of_failed"`
	Seconds    float64 `json:"mean_seconds"`
	Curve      []Point `json:"-"` // of the first seed
}

const seedCount = 10

// Replay replays the arrivals that a seed draws, up to ratio times the cluster's GPU capacity, under one of
// [Policies]. When ctx ends it returns the figures until then with ctx's error.
func (c *Cluster) Replay(ctx context.Context, policy string, seed int64, ratio float64) (Result, error) {
	p, err := policyOf(policy, c.mix, seed)
	if err != nil {
		return Result{}, err
	}
	return replay(ctx, c.empty, c.capacity, arrivals(c.tasks, seed, ratio, c.capacity), p)
}

// Compare replays ten seeds from first on, each under every policy. When ctx ends it
// returns the seeds that were finished under all, with ctx's error.
func (c *Cluster) Compare(ctx context.Context, first int64, ratio float64) (*Comparison, error) {
	out := &Comparison{Trace: c.trace, Basis: "simulated", Ratio: ratio, Policies: make([]PolicyResult, len(policyNames))}
	policies := make([]placement.Policy, len(policyNames))
	for i, name := range policyNames {
		out.Policies[i].Name = name
		out.Policies[i].Allocated = []float64{}
		var err error
		if policies[i], err = policyOf(name, c.mix, first); err != nil {
			return nil, err
		}
	}
	var err error
seeds:
	for seed := first; seed < first+seedCount; seed++ {
		requests := arrivals(c.tasks, seed, ratio, c.capacity)
		results := make([]Result, len(policies))
		for i, p := range policies {
			if _, ok := p.(placement.Random); ok {
				p = placement.Random{Seed: uint64(seed)}
			}
			if results[i], err = replay(ctx, c.empty, c.capacity, requests, p); err != nil {
				break seeds
			}
		}
		out.Seeds = append(out.Seeds, seed)
		for i, r := range results {
			p := &out.Policies[i]
			p.Allocated = append(p.Allocated, r.Allocated)
			p.Mean += r.Allocated
			p.Placed += float64(r.Placed)
			p.Failed += float64(r.Failed)
			p.PlacedGPUs += gpusEach(r.Allocated, c.capacity, r.Placed)
			p.FailedGPUs += gpusEach(r.Arrived-r.Allocated, c.capacity, r.Failed)
			p.Seconds += r.Seconds
			if seed == first {
				p.Curve = r.Curve
			}
		}
	}
	if n := float64(len(out.Seeds)); n > 0 {
		for i := range out.Policies {
			p := &out.Policies[i]
			p.Mean, p.Placed, p.Failed, p.Seconds = p.Mean/n, p.Placed/n, p.Failed/n, p.Seconds/n
			p.PlacedGPUs, p.FailedGPUs = p.PlacedGPUs/n, p.FailedGPUs/n
		}
	}
	return out, err
}

// gpusEach divides a percentage of a cluster's thousandths among tasks.
func gpusEach(percent float64, capacity int64, tasks int) float64 {
	if tasks == 0 {
		return 0
	}
	return percent / 100 * float64(capacity) / 1000 / float64(tasks)
}
