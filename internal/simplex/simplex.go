// SPDX-License-Identifier: Apache-2.0

// Package simplex solves linear programs whose origin is feasible.
package simplex

import "math"

const lpEps = 1e-9

// Maximize solves max obj·v subject to rows·v <= rhs, v >= 0, with rhs >= 0, by the simplex method on a condensed
// tableau. It returns the optimum's v and the dual value of every row; ok is false when the maximum is unbounded.
// rows, rhs and obj are overwritten.
//
// Covering problems are solved through their dual, whose origin is feasible, so
// that no first phase and no library with its own conventions is needed.
func Maximize(rows [][]float64, rhs, obj []float64) (v, dual []float64, ok bool) {
	n, m := len(obj), len(rows)
	nonbasic, basic := make([]int, n), make([]int, m) // variables; slack of row i is n+i
	for j := range nonbasic {
		nonbasic[j] = j
	}
	for i := range basic {
		basic[i] = n + i
	}
	for pivots := 0; ; pivots++ {
		enter := entering(obj, nonbasic, pivots > 20*(n+2))
		if enter < 0 {
			break
		}
		leave := leaving(rows, rhs, basic, enter)
		if leave < 0 {
			return nil, nil, false
		}
		pivot(rows, rhs, obj, leave, enter)
		basic[leave], nonbasic[enter] = nonbasic[enter], basic[leave]
	}
	v, dual = make([]float64, n), make([]float64, m)
	for i, b := range basic {
		if b < n {
			v[b] = rhs[i]
		}
	}
	for j, b := range nonbasic {
		if b >= n {
			dual[b-n] = math.Max(0, -obj[j])
		}
	}
	return v, dual, true
}

// entering picks the column that improves most, or after many pivots the first
// that improves (Bland's rule, which cannot cycle).
func entering(obj []float64, nonbasic []int, bland bool) int {
	enter := -1
	for j, c := range obj {
		switch {
		case c <= lpEps:
		case enter < 0:
			enter = j
		case bland && nonbasic[j] < nonbasic[enter], !bland && c > obj[enter]+lpEps:
			enter = j
		}
	}
	return enter
}

func leaving(rows [][]float64, rhs []float64, basic []int, enter int) int {
	leave, best := -1, math.Inf(1)
	for i := range rows {
		a := rows[i][enter]
		if a <= lpEps {
			continue
		}
		ratio := rhs[i] / a
		if ratio < best-lpEps || ratio <= best+lpEps && leave >= 0 && basic[i] < basic[leave] {
			leave, best = i, math.Min(ratio, best)
		}
	}
	return leave
}

func pivot(rows [][]float64, rhs, obj []float64, r, c int) {
	row := rows[r]
	p := 1 / row[c]
	for j := range row {
		row[j] *= p
	}
	row[c] = p
	rhs[r] *= p
	for i := range rows {
		if i == r || rows[i][c] == 0 {
			continue
		}
		f := rows[i][c]
		for j := range row {
			rows[i][j] -= f * row[j]
		}
		rows[i][c] = -f * p
		if rhs[i] -= f * rhs[r]; rhs[i] < 0 {
			rhs[i] = 0 // rounding
		}
	}
	f := obj[c]
	for j := range row {
		obj[j] -= f * row[j]
	}
	obj[c] = -f * p
}
