package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision/placement"
)

// comparison is every policy over ten seeds.
type comparison struct {
	Trace    string   `json:"trace"`
	Basis    string   `json:"basis"`
	Ratio    float64  `json:"ratio"`
	Seeds    []int64  `json:"seeds"`
	Policies []policy `json:"policies"`
}

// policy has one element for each seed that was finished under all policies.
type policy struct {
	Name      string    `json:"policy"`
	Allocated []float64 `json:"allocated_percent"`
	Mean      float64   `json:"mean_allocated_percent"`
	Placed    float64   `json:"mean_placed"`
	Failed    float64   `json:"mean_failed"`
	// GPUs of a task that was placed, and of one that was refused.
	PlacedGPUs float64 `json:"mean_gpus_of_placed"`
	FailedGPUs float64 `json:"mean_gpus_of_failed"`
	Seconds    float64 `json:"mean_seconds"`
	curve      []point // of the first seed
}

const seedCount = 10

// compareAll replays seeds from first on, each under every policy. When ctx ends
// it returns the seeds that were finished, with its error.
func compareAll(ctx context.Context, c *cluster, first int64, ratio float64) (*comparison, error) {
	out := &comparison{Trace: c.trace, Basis: "simulated", Ratio: ratio, Policies: make([]policy, len(policyNames))}
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
		results := make([]result, len(policies))
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
				p.curve = r.curve
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

func (c *comparison) print(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(c)
	}
	fmt.Fprintf(w, "Trace: %s. Simulated. GPU allocation in percent of the cluster\nwhen %g times its GPUs have been asked for.\n\n", c.Trace, c.Ratio)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var head, rows strings.Builder
	head.WriteString("seed\t")
	for i := range c.Policies {
		fmt.Fprintf(&head, "%s\t", c.Policies[i].Name)
	}
	row := func(label, format string, value func(p *policy) float64) {
		fmt.Fprintf(&rows, "%s\t", label)
		for i := range c.Policies {
			fmt.Fprintf(&rows, format+"\t", value(&c.Policies[i]))
		}
		rows.WriteByte('\n')
	}
	for s, seed := range c.Seeds {
		row(fmt.Sprint(seed), "%.2f", func(p *policy) float64 { return p.Allocated[s] })
	}
	if len(c.Seeds) > 0 {
		row("mean", "%.2f", func(p *policy) float64 { return p.Mean })
		row("placed", "%.1f", func(p *policy) float64 { return p.Placed })
		row("GPUs of one", "%.2f", func(p *policy) float64 { return p.PlacedGPUs })
		row("refused", "%.1f", func(p *policy) float64 { return p.Failed })
		row("GPUs of one", "%.2f", func(p *policy) float64 { return p.FailedGPUs })
		row("seconds", "%.2f", func(p *policy) float64 { return p.Seconds })
	}
	fmt.Fprintf(tw, "%s\n%s", head.String(), rows.String())
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nMore tasks placed are not more GPUs used: a policy that leaves pieces of many GPUs\nrefuses the large tasks, and has room for more of the small ones.")
	return err
}
