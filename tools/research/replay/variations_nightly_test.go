// SPDX-License-Identifier: Apache-2.0

//go:build nightly

package replay

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/sharing"
)

// variation is another trace made from one: other nodes, other tasks, another
// order of arrival. Nil keeps what there is.
type variation struct {
	name  string
	node  func(i int, n *layout.Node) bool // false leaves it out
	tasks func(rng *rand.Rand, tasks []task) []task
	order func(requests []placement.Request)
}

func fraction(t *task) bool { return t.request.GPUs == 1 && t.request.Milli < 1000 }
func several(t *task) bool  { return t.request.GPUs > 1 }
func noGPU(t *task) bool    { return t.request.GPUs == 0 }

// shares draws as many tasks as there are, so that the given part of the GPU
// demand comes from those that is picks; tasks without GPU stay.
func shares(part float64, is func(*task) bool) func(*rand.Rand, []task) []task {
	return func(rng *rand.Rand, tasks []task) []task {
		var out, in, others []task
		for _, t := range tasks {
			switch {
			case noGPU(&t):
				out = append(out, t)
			case is(&t):
				in = append(in, t)
			default:
				others = append(others, t)
			}
		}
		got, sum := int64(0), int64(0)
		for n := len(tasks) - len(out); n > 0; n-- {
			from := others
			if float64(got) <= part*float64(sum) && part > 0 {
				from = in
			}
			t := from[rng.IntN(len(from))]
			if sum += t.milli(); is(&t) {
				got += t.milli()
			}
			out = append(out, t)
		}
		return out
	}
}

// change draws something anew for each task.
func change(f func(rng *rand.Rand, t *task)) func(*rand.Rand, []task) []task {
	return func(rng *rand.Rand, tasks []task) []task {
		out := slices.Clone(tasks)
		for i := range out {
			f(rng, &out[i])
		}
		return out
	}
}

func cpuOnly(times float64) func(*rand.Rand, []task) []task {
	return func(rng *rand.Rand, tasks []task) []task {
		var out []task
		for _, t := range tasks {
			n := 1
			if noGPU(&t) {
				n = int(times + rng.Float64())
			}
			for range n {
				out = append(out, t)
			}
		}
		return out
	}
}

func variations(models []string) []variation {
	bySize := func(sign int) func([]placement.Request) {
		return func(r []placement.Request) {
			slices.SortStableFunc(r, func(a, b placement.Request) int { return sign * cmp.Compare(a.GPUs*a.Milli, b.GPUs*b.Milli) })
		}
	}
	scale := func(cpu, memory float64) func(int, *layout.Node) bool {
		return func(_ int, n *layout.Node) bool {
			n.CPUMilli, n.Memory = int64(cpu*float64(n.CPUMilli)), sharing.Bytes(memory*float64(n.Memory))
			return true
		}
	}
	gpus := func(want int) func(int, *layout.Node) bool {
		return func(_ int, n *layout.Node) bool { return len(n.Devices) == want }
	}
	return []variation{
		{name: "gpushare40", tasks: shares(0.4, fraction)},
		{name: "gpushare100", tasks: shares(1, fraction)},
		{name: "gpushare0", tasks: shares(0, fraction)},
		{name: "multigpu20", tasks: shares(0.2, several)},
		{name: "multigpu50", tasks: shares(0.5, several)},
		{name: "multigpu80", tasks: shares(0.8, several)},
		{name: "gpuspec33", tasks: change(func(rng *rand.Rand, t *task) {
			if t.request.GPUs > 0 && rng.Float64() < 0.33 {
				t.request.Models = []string{models[rng.IntN(len(models))]}
			}
		})},
		{name: "gpuspec100", tasks: change(func(rng *rand.Rand, t *task) {
			if t.request.GPUs > 0 {
				t.request.Models = []string{models[rng.IntN(len(models))], models[rng.IntN(len(models))]}
			}
		})},
		{name: "cpu0", tasks: cpuOnly(0)},
		{name: "cpu200", tasks: cpuOnly(2)},
		{name: "cpu250", tasks: cpuOnly(2.5)},
		{name: "uniform sizes", tasks: change(func(rng *rand.Rand, t *task) {
			if t.request.GPUs == 1 {
				t.request.Milli = 100 * (1 + rng.IntN(10))
			}
		})},
		{name: "thirds and halves", tasks: change(func(rng *rand.Rand, t *task) {
			if fraction(t) {
				t.request.Milli = []int{333, 500, 250, 667}[rng.IntN(4)]
			}
		})},
		{name: "above half", tasks: change(func(rng *rand.Rand, t *task) {
			if fraction(t) {
				t.request.Milli = 550 + 50*rng.IntN(9)
			}
		})},
		{name: "CPU x0.6", node: scale(0.6, 1)},
		{name: "CPU x0.4", node: scale(0.4, 1)},
		{name: "memory x0.3", node: scale(1, 0.3)},
		{name: "8-GPU nodes", node: gpus(8)},
		{name: "2-GPU nodes", node: gpus(2), tasks: shares(0, several)},
		{name: "1 node in 8", node: func(i int, n *layout.Node) bool { return i%8 == 0 }},
		{name: "16-GPU nodes", node: func(i int, n *layout.Node) bool {
			if i%4 != 0 || len(n.Devices) != 8 {
				return false
			}
			n.CPUMilli, n.Memory, n.Devices = 2*n.CPUMilli, 2*n.Memory, append(n.Devices, n.Devices...)
			return true
		}},
		{name: "largest first", order: bySize(-1)},
		{name: "smallest first", order: bySize(1)},
	}
}

// TestOpenbVariations compares the policies on traces drawn from openb's, none of
// which they were made for. It runs where OPENB_DIR is set; OPENB_VARIATION picks
// those whose name it matches.
func TestOpenbVariations(t *testing.T) {
	dir := os.Getenv("OPENB_DIR")
	if dir == "" {
		t.Skip("OPENB_DIR is not set")
	}
	f, err := os.Open(filepath.Join(dir, "openb_node_list_gpu_node.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	nodes, err := readNodes(f.Name(), f)
	if err != nil {
		t.Fatal(err)
	}
	base, err := Load(filepath.Join(dir, "openb_node_list_gpu_node.csv"), filepath.Join(dir, "openb_pod_list_default.csv"))
	if err != nil {
		t.Fatal(err)
	}
	var models []string // by how many nodes have them
	for i := range nodes {
		models = append(models, nodes[i].Devices[0].GPU.Name)
	}
	const seeds = 3
	for _, v := range variations(models) {
		if !regexp.MustCompile(os.Getenv("OPENB_VARIATION")).MatchString(v.name) {
			continue
		}
		c := Cluster{tasks: base.tasks}
		var kept []layout.Node
		for i, n := range nodes {
			n.Devices = slices.Clone(n.Devices)
			if v.node == nil || v.node(i, &n) {
				kept = append(kept, n)
				c.capacity += 1000 * int64(len(n.Devices))
			}
		}
		c.empty, _ = layout.Observe(kept)
		if v.tasks != nil {
			c.tasks = v.tasks(rand.New(rand.NewPCG(7, 0)), base.tasks)
			for i := range c.tasks {
				c.tasks[i].name = fmt.Sprintf("task-%05d", i)
			}
		}
		c.mix = mixOf(c.tasks)
		mean := map[string]float64{}
		worst := 100.0
		for seed := int64(42); seed < 42+seeds; seed++ {
			requests := arrivals(c.tasks, seed, 1.3, c.capacity)
			if v.order != nil {
				v.order(requests)
			}
			got := map[string]float64{}
			for _, name := range []string{"best-fit", "fgd", "cotenant"} {
				p, err := policyOf(name, c.mix, seed)
				if err != nil {
					t.Fatal(err)
				}
				r, err := replay(context.Background(), c.empty, c.capacity, requests, p)
				if err != nil {
					t.Fatal(err)
				}
				got[name] = r.Allocated
				mean[name] += r.Allocated / seeds
			}
			worst = min(worst, got["cotenant"]-got["fgd"])
		}
		t.Logf("%-18s best-fit %6.2f  fgd %6.2f  cotenant %6.2f  %+.2f, worst seed %+.2f", v.name, mean["best-fit"], mean["fgd"], mean["cotenant"], mean["cotenant"]-mean["fgd"], worst)
	}
}
