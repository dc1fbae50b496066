// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/plaintext"
)

// mostGroups bounds the lines of a fleet of many workloads.
const mostGroups = 16

// alike is workloads that have the same answer.
type alike struct {
	what     string
	status   Status
	list     []*Decision
	names    []string
	replicas int
}

// groups writes many workloads as groups of equal answers: by pool too where that
// gives few enough, otherwise by mechanism alone.
func (t *text) groups() {
	list := t.grouped((*Decision).Where)
	if len(list) > mostGroups {
		list = t.grouped(func(d *Decision) string { return d.Mechanism.String() })
	}
	for k := range list {
		if k == mostGroups-1 && len(list) > mostGroups {
			n := 0
			for _, a := range list[k:] {
				n += len(a.list)
			}
			t.put(2, 2, "", "and "+plaintext.Count(n, "workload")+" more with other answers")
			return
		}
		t.group(&list[k])
	}
}

func (t *text) grouped(by func(*Decision) string) []alike {
	var out []alike
	index := map[string]int{}
	for i := range t.r.Decisions {
		d := &t.r.Decisions[i]
		a := alike{what: by(d), status: d.Status}
		if d.Status == StatusNone {
			a.what = "nothing does"
		}
		key := fmt.Sprint(a.status, a.what)
		k, ok := index[key]
		if !ok {
			k = len(out)
			index[key] = k
			out = append(out, a)
		}
		out[k].list, out[k].names = append(out[k].list, d), append(out[k].names, d.Workload)
		out[k].replicas += d.Placed
	}
	slices.SortStableFunc(out, func(a, b alike) int {
		return cmp.Or(cmp.Compare(a.status, b.status), -cmp.Compare(len(a.list), len(b.list)),
			strings.Compare(a.what, b.what))
	})
	return out
}

// group writes a group in at most two or three lines: workloads, placement, and the reason of the tightest one.
func (t *text) group(a *alike) {
	worst := a.list[0]
	unplaced := 0
	for _, d := range a.list {
		unplaced += d.Unplaced
		if tightness(d) > tightness(worst) {
			worst = d
		}
	}
	line := a.what
	if a.status != StatusDecided {
		line = a.status.String() + ": " + line
	}
	if a.replicas > 0 {
		line += ", " + plaintext.Count(a.replicas, "replica")
	}
	if unplaced > 0 && a.status != StatusNone {
		line += ", " + fmt.Sprintf("%d unplaced", unplaced)
	}
	if len(a.list) == 1 {
		line = fmt.Sprintf("%s: %s; %s", worst.Workload, line, worst.Why)
	} else {
		which := "tightest"
		if tightness(worst) == 0 {
			which = "for example"
		}
		line += fmt.Sprintf(": %s; %s %s: %s", plaintext.Some(a.names, 2, len(a.list)), which, worst.Workload,
			worst.Why)
	}
	if risk := t.worst(worst); risk != "" && a.status != StatusNone {
		line += "; risk: " + risk
	}
	t.put(2, 8, fmt.Sprintf("%4d", len(a.list)), line)
}

// tightness relates a decision's consequences to their limits: 1 = at one.
func tightness(d *Decision) float64 {
	t := 0.0
	for _, c := range d.Consequences {
		t = max(t, c.High/c.Limit)
	}
	return t
}
