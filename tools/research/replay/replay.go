// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand" // v1: the published arrival orders were drawn with it
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/placement"
)

// Result holds the figures of one replay. They are simulated: a trace's tasks on a trace's nodes.
type Result struct {
	Allocated float64 `json:"allocated_percent"` // of the cluster's GPU thousandths
	Arrived   float64 `json:"arrived_percent"`   // of them, asked for
	Placed    int     `json:"placed"`
	Failed    int     `json:"failed"`
	Seconds   float64 `json:"seconds"`

	Curve []Point `json:"-"`
}

// Point is the allocation at an amount of arrivals, both in percent of the cluster's GPUs.
type Point struct{ Arrived, Allocated float64 }

// curveStep is the distance of the points, in percent of what arrived.
const curveStep = 0.5

// replay places the requests one after another. When ctx ends it returns what
// was placed until then with the error of ctx.
func replay(ctx context.Context, empty *layout.Cluster, capacity int64, requests []placement.Request,
	policy placement.Policy) (Result, error) {
	start := time.Now()
	var res Result
	scorer := placement.NewScorer(policy, nil)
	best := placement.NewPlacer(scorer).Best
	if draw, ok := policy.(random); ok {
		best = draw.best
	}
	c := empty
	allocated, arrived := int64(0), int64(0)
	percent := func(n int64) float64 { return 100 * float64(n) / float64(capacity) }
	res.Curve = append(res.Curve, Point{})
	var err error
	for i := range requests {
		if i%64 == 0 {
			if err = ctx.Err(); err != nil {
				break
			}
		}
		r := &requests[i]
		milli := int64(r.GPUs) * int64(r.Milli)
		arrived += milli
		if o, ok := best(c, r); ok {
			next, _, e := scorer.Assign(c, r, o)
			if e != nil {
				return res, errors.Join(errors.New("an offer was refused"), e)
			}
			c = next
			allocated += milli
			res.Placed++
		} else {
			res.Failed++
		}
		if a := percent(arrived); a >= res.Curve[len(res.Curve)-1].Arrived+curveStep || i == len(requests)-1 {
			res.Curve = append(res.Curve, Point{a, percent(allocated)})
		}
	}
	res.Allocated, res.Arrived = percent(allocated), percent(arrived)
	res.Seconds = time.Since(start).Seconds()
	return res, err
}

// The synthetic trace, which synthetic_test.go draws. Its figures say nothing about real clusters.
var (
	//go:embed builtin/nodes.csv
	syntheticNodes string
	//go:embed builtin/tasks.csv
	syntheticTasks string
)

// Cluster is an empty cluster with the tasks that arrive at it. It is read-only and safe for concurrent use.
type Cluster struct {
	empty    *layout.Cluster
	tasks    []task
	mix      []placement.Typical
	capacity int64 // GPU thousandths
	trace    string
}

// Load reads the CSV files of a trace in the columns of openb: of nodes sn, cpu_milli, memory_mib, gpu and model,
// of tasks name, cpu_milli, memory_mib, num_gpu, gpu_milli and gpu_spec. Empty names stand for a small synthetic
// trace. The error names every problem by file, line and column.
func Load(nodeFile, taskFile string) (*Cluster, error) {
	c := &Cluster{trace: "synthetic"}
	if nodeFile != "" {
		c.trace = nodeFile + ", " + taskFile
	}
	var nodes []layout.Node
	err := open(nodeFile, syntheticNodes, func(name string, in io.Reader) (err error) {
		nodes, err = readNodes(name, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range nodes {
		c.capacity += 1000 * int64(len(nodes[i].Devices))
	}
	var problems []layout.Problem
	if c.empty, problems = layout.Observe(nodes); len(problems) > 0 {
		return nil, layout.Err(problems)
	}
	err = open(taskFile, syntheticTasks, func(name string, in io.Reader) (err error) {
		c.tasks, err = readTasks(name, in, c.empty)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.mix = mixOf(c.tasks)
	return c, err
}

func open(file, builtIn string, read func(string, io.Reader) error) error {
	if file == "" {
		return read("synthetic", strings.NewReader(builtIn))
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(file, f)
}

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
			if _, ok := p.(random); ok {
				p = random{seed: uint64(seed)}
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

// arrivals draws the arrival order of a seed: the tasks, sorted by name, shuffled; then copies of tasks drawn from
// the sorted list; until the next would take the demand for GPUs past ratio times the capacity.
func arrivals(tasks []task, seed int64, ratio float64, capacity int64) []placement.Request {
	sorted := slices.Clone(tasks)
	slices.SortFunc(sorted, func(a, b task) int { return cmp.Compare(a.name, b.name) })
	rng := rand.New(rand.NewSource(seed))
	rng.Int()
	order := slices.Clone(sorted)
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	demand, limit := int64(0), ratio*float64(capacity)
	out := make([]placement.Request, 0, len(order))
	for i := range order {
		if demand += order[i].milli(); float64(demand) > limit {
			return out
		}
		r := order[i].request
		r.Name = order[i].name
		out = append(out, r)
	}
	for copies := 1; ; copies++ {
		t := &sorted[rng.Intn(len(sorted))]
		if float64(demand+int64(t.request.Milli)) > limit {
			return out
		}
		demand += t.milli()
		r := t.request
		r.Name = t.name + "#" + strconv.Itoa(copies)
		out = append(out, r)
	}
}

// mixOf is the distribution of the tasks, which a placer knows in advance.
func mixOf(tasks []task) []placement.Typical {
	typical := make([]placement.Typical, len(tasks))
	for i := range tasks {
		typical[i] = placement.Typical{Request: tasks[i].request, Weight: 1}
	}
	return typical
}

// Policies lists the policies that a trace is replayed under.
func Policies() []string { return slices.Clone(policyNames) }

var policyNames = []string{"random", "best-fit", "fgd", "cotenant"}

// policyOf makes a policy by name.
func policyOf(name string, mix []placement.Typical, seed int64) (placement.Policy, error) {
	switch name {
	case "random":
		return random{seed: uint64(seed)}, nil
	case "best-fit":
		return placement.BestFit, nil
	case "fgd":
		return newFGD(mix), nil
	case "cotenant":
		return placement.NewCotenant(mix)
	}
	return nil, fmt.Errorf("no policy %q", name)
}
