// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/internal/simplex"
)

// alike is a number of nodes that differ in nothing but their name, as one.
type alike struct {
	placement.View
	nodes float64
}

// class is tasks that differ in nothing but their name.
type class struct {
	*placement.Request
	tasks float64
	most  float64 // that are placed; negative: as many as arrive
}

// share is the size of a part of a GPU in thousandths; 0 for whole ones.
func (k *class) share() int { return k.Milli % 1000 }

func (k *class) fits(n *alike) bool {
	return k.CPUMilli <= n.CPUMilli && k.Memory <= n.Memory && k.GPUs <= n.Len &&
		(k.GPUs == 0 || len(k.Models) == 0 || slices.Contains(k.Models, n.Model))
}

// stays weighs a placed task in the objective, so that none leaves for the sake of others.
const stays = 1e4

// fluid is the linear program of how far tasks can be placed when they arrive like a liquid.
type fluid struct {
	nodes    []alike
	classes  []class
	sizes    []int   // of shares
	patterns [][]int // ways to cut a GPU: how many shares of each size
}

// Bound returns the part of the GPUs, in percent, that a policy which takes whatever fits would allocate if it
// could move all tasks at any time and nodes that are alike were one: the fluid limit of a replay. Tasks arrive in
// the proportions of the trace; when a class of them finds no room its number stays, and the others go on up to
// ratio times the GPUs. The linear programs are over the ways to cut a GPU into shares, which are found by column
// generation (Gilmore and Gomory, 1961). A replay's draw may pass it by chance.
func (c *Cluster) Bound(ctx context.Context, ratio float64) (float64, error) {
	var f fluid
	at := map[string]int{}
	for i := range c.empty.Len() {
		n := alike{placement.ViewOf(c.empty.At(i)), 1}
		key := fmt.Sprint("node", n.CPUMilli, n.Memory, n.Model, n.Len)
		if j, ok := at[key]; ok {
			f.nodes[j].nodes++
			continue
		}
		at[key], f.nodes = len(f.nodes), append(f.nodes, n)
	}
	asked := 0.0
	for i := range c.tasks {
		k := class{&c.tasks[i].request, 1, -1}
		asked += float64(c.tasks[i].milli())
		key := fmt.Sprint(k.CPUMilli, k.Memory, k.GPUs, k.Milli, k.Models)
		if j, ok := at[key]; ok {
			f.classes[j].tasks++
		} else if slices.ContainsFunc(f.nodes, func(n alike) bool { return k.fits(&n) }) {
			at[key], f.classes = len(f.classes), append(f.classes, k)
			if s := k.share(); s > 0 && !slices.Contains(f.sizes, s) {
				f.sizes = append(f.sizes, s)
			}
		}
	}
	for i, s := range f.sizes {
		f.patterns = append(f.patterns, make([]int, len(f.sizes)))
		f.patterns[i][i] = 1000 / s
	}
	limit := ratio * float64(c.capacity) / asked
	for {
		times, prices, err := f.solve(ctx, limit)
		if err != nil {
			return 0, err
		}
		placed, stopped := 0.0, false
		for i := range f.classes {
			k := &f.classes[i]
			if k.most < 0 && prices[i] > 1e-9 {
				k.most, stopped = times*k.tasks, true
			}
			n := k.most
			if n < 0 {
				n = times * k.tasks
			}
			placed += n * float64(k.GPUs*k.Milli)
		}
		if !stopped || times > limit-1e-9 {
			return 100 * placed / float64(c.capacity), nil
		}
	}
}

// solve returns how many times the trace can be placed, at most limit, with the
// classes that have stopped, and the price of a task of each class.
func (f *fluid) solve(ctx context.Context, limit float64) (times float64, prices []float64, err error) {
	shares := len(f.classes) + 3*len(f.nodes) // rows: of tasks, of nodes, of their shares, of times
	for ctx.Err() == nil {
		var rows [][]float64
		last := shares + len(f.nodes)*len(f.sizes)
		columns := 1 + len(f.nodes)*(len(f.classes)+len(f.patterns))
		for range last + 1 {
			rows = append(rows, make([]float64, columns))
		}
		rhs, obj := make([]float64, last+1), make([]float64, columns)
		rows[last][0], rhs[last], obj[0] = 1, limit, 1
		column := 0
		for i := range f.classes {
			if k := &f.classes[i]; k.most < 0 {
				rows[i][0] = k.tasks
			} else {
				rhs[i] = k.most
			}
		}
		for j := range f.nodes {
			n, row := &f.nodes[j], len(f.classes)+3*j
			rhs[row], rhs[row+1], rhs[row+2] = n.nodes*float64(n.CPUMilli)/1000, n.nodes*n.Memory.GiB(), n.nodes*float64(n.Len)
			for i := range f.classes {
				k := &f.classes[i]
				if column++; !k.fits(n) {
					continue
				}
				if rows[i][column] = -1; k.most >= 0 {
					rows[i][column], obj[column] = 1, stays
				}
				rows[row][column], rows[row+1][column] = float64(k.CPUMilli)/1000, k.Memory.GiB()
				if s := slices.Index(f.sizes, k.share()); s >= 0 {
					rows[shares+j*len(f.sizes)+s][column] = float64(k.GPUs)
				} else {
					rows[row+2][column] = float64(k.GPUs)
				}
			}
			for _, p := range f.patterns {
				column++
				rows[row+2][column] = 1
				for s, n := range p {
					rows[shares+j*len(f.sizes)+s][column] = -float64(n)
				}
			}
		}
		v, dual, _ := simplex.Maximize(rows, rhs, obj) // bounded by limit and by what arrives
		before := len(f.patterns)
		for j := range f.nodes {
			f.cut(dual[shares+j*len(f.sizes):][:len(f.sizes)], dual[len(f.classes)+3*j+2])
		}
		if len(f.patterns) == before {
			return v[0], dual[:len(f.classes)], nil
		}
	}
	return 0, nil, ctx.Err()
}

// cut adds the way to cut a GPU whose shares are worth most, if that is more than the GPU costs: a knapsack problem.
func (f *fluid) cut(worth []float64, cost float64) {
	var best [1001]float64
	var last [1001]int
	for x := 1; x <= 1000; x++ {
		best[x], last[x] = best[x-1], -1
		for s, size := range f.sizes {
			if size <= x && best[x-size]+worth[s] > best[x]+1e-12 {
				best[x], last[x] = best[x-size]+worth[s], s
			}
		}
	}
	if best[1000] <= cost+1e-7 {
		return
	}
	p := make([]int, len(f.sizes))
	for x := 1000; x > 0; {
		if s := last[x]; s < 0 {
			x--
		} else {
			p[s]++
			x -= f.sizes[s]
		}
	}
	if !slices.ContainsFunc(f.patterns, func(q []int) bool { return slices.Equal(p, q) }) {
		f.patterns = append(f.patterns, p)
	}
}
