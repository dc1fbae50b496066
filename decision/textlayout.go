// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// The layout shows at most this much; the rest is counted.
const (
	mostPoolLines = 16
	mostLayouts   = 4
	mostTenants   = 6
	mostFindings  = 4
)

// layout writes a line for each pool: the GPUs of each mechanism with their tenants.
func (t *text) layout() {
	t.title("LAYOUT")
	var used []*PoolResult
	var unused, names []string
	for i := range t.r.Pools {
		p := &t.r.Pools[i]
		if p.GPUsNeeded == 0 {
			unused = append(unused, p.Pool)
			continue
		}
		used, names = append(used, p), append(names, p.Pool)
	}
	brief := len(t.r.Decisions) >= manyWorkloads
	if len(used) > mostPoolLines {
		slices.SortStableFunc(used, func(a, b *PoolResult) int { return cmp.Compare(b.GPUsNeeded, a.GPUsNeeded) })
	}
	if len(t.r.Findings) > 0 || len(unused) > 0 {
		names = append(names, "unused")
	}
	at := column(names)
	for i, p := range used {
		if i == mostPoolLines-1 && len(used) > mostPoolLines {
			n := 0
			for _, p := range used[i:] {
				n += p.GPUsNeeded
			}
			t.put(2, at, "", fmt.Sprintf("and %d more pools with %s in use", len(used)-i, plaintext.Count(n, "GPU")))
			break
		}
		t.put(2, at, p.Pool, fmt.Sprintf("%d of %d %s%s: %s", p.GPUsNeeded, p.GPUs, p.GPU,
			p.Costs.brief(p.GPUsNeeded, p.SpotGPUs), p.brief(brief)))
	}
	if len(unused) > 0 {
		t.put(2, at, "unused", plaintext.Some(unused, mostTenants, len(unused)))
	}
	t.findings(at)
	if names := t.r.running(sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS); len(names) > 0 {
		t.put(2, at, "", fmt.Sprintf("HAMi must run on %s; where it can't, list what can as the pool's mechanisms",
			plaintext.Some(names, mostTenants, len(names))))
	}
}

// unusedTexts describes a finding of several nodes.
var unusedTexts = map[string]string{
	"empty-instances": "MIG instances that nobody holds",
	"whole-for-slice": "whole GPUs that their work uses in part",
	"free-shares":     "shares that nobody holds",
	"unasked-mode":    "GPUs in a mode that no workload asks for",
}

// findings sums up unused capacity by pool and kind, the most expensive first.
func (t *text) findings(at int) {
	type sum struct {
		layout.Finding
		nodes int
	}
	var all []*sum
	var s sums
	for _, f := range t.r.Findings {
		k := slices.IndexFunc(all, func(o *sum) bool { return o.Pool == f.Pool && o.Kind == f.Kind })
		if k < 0 {
			all = append(all, &sum{f, 1})
			continue
		}
		all[k].nodes++
		all[k].GPUs += f.GPUs
		all[k].PerHour = s.of(all[k].PerHour.Add(f.PerHour))
	}
	slices.SortStableFunc(all, func(a, b *sum) int {
		return cmp.Or(cmp.Compare(b.PerHour.Micros(), a.PerHour.Micros()), cmp.Compare(b.GPUs, a.GPUs))
	})
	for k, f := range all {
		if k == mostFindings && len(all) > mostFindings {
			t.put(2, at, "", fmt.Sprintf("and %d more", len(all)-k))
			return
		}
		line := fmt.Sprintf("%s: worth %s of %s", unusedTexts[f.Kind], plaintext.Count(f.GPUs, "GPU"), f.Pool)
		if month := s.of(cost.Monthly(f.PerHour)); f.PerHour.Sign() > 0 && s.err == nil {
			line += fmt.Sprintf(", %s a month", plaintext.Amount(month.Decimal()))
		}
		t.put(2, at, "unused", line)
	}
}

// running are the pools with GPUs under one of the mechanisms.
func (r *Result) running(ms ...sharing.Mechanism) (pools []string) {
	for i := range r.Pools {
		if slices.ContainsFunc(r.Pools[i].Groups, func(g GroupResult) bool { return slices.Contains(ms, g.Mechanism) }) {
			pools = append(pools, r.Pools[i].Pool)
		}
	}
	return pools
}

// brief lists the tenants of a pool's GPUs, by mechanism; of many workloads only how many GPUs each mechanism has.
func (p *PoolResult) brief(onlyCounts bool) string {
	groups := make([]string, len(p.Groups))
	for i := range p.Groups {
		g := &p.Groups[i]
		if onlyCounts {
			groups[i] = fmt.Sprintf("%s %d", g.Mechanism, g.GPUs)
			continue
		}
		var layouts []string
		for k := range g.Layouts {
			if k == mostLayouts {
				layouts = append(layouts, fmt.Sprintf("%d more layouts", len(g.Layouts)-k))
				break
			}
			layouts = append(layouts, g.Layouts[k].brief())
		}
		groups[i] = fmt.Sprintf("%s %s", g.Mechanism, strings.Join(layouts, " + "))
	}
	return strings.Join(groups, "; ")
}

// brief is a GPU's content, equal neighbours together, without positions.
func (l *LayoutResult) brief() string {
	type part struct {
		what string
		n    int
	}
	var parts []part
	for _, in := range l.Instances {
		what := in.Profile + " " + in.Workload
		if k := len(parts) - 1; k >= 0 && parts[k].what == what {
			parts[k].n++
			continue
		}
		parts = append(parts, part{what, 1})
	}
	for _, tenant := range l.Tenants {
		parts = append(parts, part{tenant.Workload, tenant.Replicas})
	}
	var texts []string
	for k, p := range parts {
		if k == mostTenants && len(parts) > mostTenants+1 {
			texts = append(texts, fmt.Sprintf("%d more", len(parts)-k))
			break
		}
		if p.n > 1 {
			p.what = fmt.Sprintf("%d x %s", p.n, p.what)
		}
		texts = append(texts, p.what)
	}
	return fmt.Sprintf("%d x [%s]", l.GPUs, strings.Join(texts, " | "))
}

// brief gives the numbers of spot GPUs, of nodes and unused GPUs, and the remaining cost.
func (b *Costs) brief(used, spot int) string {
	text := ""
	if spot > 0 {
		text = fmt.Sprintf(" (%d spot)", spot)
	}
	if b.NodesToday == 0 && b.NodesAfter > 0 {
		text += ", " + plaintext.Count(b.NodesAfter, "node")
	} else if b.NodesToday > 0 {
		text += fmt.Sprintf(", %d of %s", b.NodesAfter, plaintext.Count(b.NodesToday, "node"))
	}
	if b.GPUsAfter > used {
		text += fmt.Sprintf(", %s unused", plaintext.Count(b.GPUsAfter-used, "GPU"))
	}
	if b.MonthlyToday != "" && b.GPUsToday == 0 && b.GPUsAfter > 0 {
		text += fmt.Sprintf(", to be bought for %s a month", plaintext.Amount(b.MonthlyAfter))
	} else if b.MonthlyToday != "" && b.GPUsToday > 0 {
		text += fmt.Sprintf(", %s of %s a month", plaintext.Amount(b.MonthlyAfter), plaintext.Amount(b.MonthlyToday))
	}
	return text
}
