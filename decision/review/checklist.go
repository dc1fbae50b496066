// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// check fills the checklist, by cost.
func (r *Review) check(f *decision.Fleet) {
	items := map[string]*Item{}
	add := func(v *Workload, do, how string) {
		if items[do] == nil {
			items[do] = &Item{Do: do, How: how}
		}
		items[do].micros += v.micros
		items[do].Workloads = append(items[do].Workloads, v.Name)
	}
	for i := range r.Workloads {
		v := &r.Workloads[i]
		w := &f.Workloads[slices.IndexFunc(f.Workloads, func(w decision.Workload) bool { return w.Name == v.Name })]
		lacks := slices.DeleteFunc(slices.Clone(v.lacks), func(key string) bool { return key == migrate.KeySLO })
		if len(lacks) < len(v.lacks) {
			add(v, "state the latencies that "+v.Name+" must meet", fmt.Sprintf("a file for -hints: workloads: {%s: {slo: "+
				"{ttft_p99: 500ms, tpot_p99: 50ms}}} with your figures", v.Name))
		}
		switch {
		case len(lacks) > 0 && v.Together:
			add(v, "measure each pod's own share of the GPUs that it shares", "dcgm-exporter 4.5.3-4.8.2 or later with "+
				"KUBERNETES_VIRTUAL_GPUS=true and hostPID, which gives each pod's own series")
		case len(lacks) > 0:
			add(v, "measure the memory and busy time of what runs", "-prometheus http://HOST:9090, a Prometheus that "+
				"scrapes dcgm-exporter (DCGM_FI_DEV_FB_USED, DCGM_FI_PROF_SM_ACTIVE); or state memory and gpu_busy with -hints")
		case len(v.lacks) > 0:
		case v.Verdict == verdictOpen:
			add(v, "check what is assumed about "+v.Name+": "+v.Why, "-out DIR, then cotenant decide -explain "+v.Name+
				" DIR/fleet.yaml")
		case v.Verdict == verdictMoves || w.Today == nil || w.Today.Stays != "" || strings.HasPrefix(v.Why, used):
		case w.Today.Object == "StatefulSet" && w.Today.Mechanism != sharing.MechanismHAMi && !budgeted(f, w.Name):
			add(v, "let a replica of a StatefulSet be missing while it moves",
				"a PodDisruptionBudget with maxUnavailable: 1 for each, if its users accept that")
		case w.Today.Object == "Pod":
			add(v, "let bare Pods be made by a Deployment or StatefulSet", "nothing starts a bare Pod again, so that it can't "+
				"be moved")
		}
	}
	for _, u := range r.Discovery.Unknown {
		switch {
		case strings.HasPrefix(u.Path, "nodes."):
			name := strings.TrimSuffix(strings.TrimPrefix(u.Path, "nodes."), ".gpu")
			items[u.Path] = &Item{Do: "name the GPU of " + name + ": " + u.Why, How: u.Remedy}
		case strings.HasSuffix(u.Path, ".price_per_gpu_hour"):
			do := "state what the GPUs cost: without a price of every pool, GPUs are counted"
			if items[do] == nil {
				items[do] = &Item{Do: do, How: `a file for -prices: {"A100-SXM4-80GB": 3.25 USD, "p4d.24xlarge": 32.77 USD}, by ` +
					"GPU or instance type"}
			}
		}
	}
	for _, it := range items {
		if it.micros > 0 {
			it.Monthly = r.decimal(it.micros)
		}
		r.Checklist = append(r.Checklist, *it)
	}
	slices.SortFunc(r.Checklist, func(a, b Item) int {
		return cmp.Or(cmp.Compare(b.micros, a.micros), strings.Compare(a.Do, b.Do))
	})
}

// budgeted reports whether a PodDisruptionBudget that was given lets a replica be missing.
func budgeted(f *decision.Fleet, workload string) bool {
	return slices.ContainsFunc(f.Today.Budgets, func(b fleet.Budget) bool {
		return b.Workload == workload && b.Allowed > 0
	})
}

// answer is the first line: the change, its gain and risk, the idle devices, and the open workloads.
func (r *Review) answer() string {
	text := ""
	if r.idleNodes > 0 {
		text = fmt.Sprintf("Give back %d of %s, on which nothing runs: %s. ", r.idleNodes, plaintext.Count(r.nodes, "node"),
			r.worth(r.idleMicros)+map[bool]string{true: " a month"}[r.priced])
	}
	if text == "" || r.Plan.Changes() {
		text += r.Plan.Summary()
	}
	text = strings.TrimSpace(text)
	if len(r.Idle) > 0 {
		text += " Idle today: " + r.idleText() + "."
	}
	open, n := int64(0), 0
	for i := range r.Workloads {
		if v := &r.Workloads[i]; v.Verdict == verdictOpen {
			open, n = open+v.micros, n+1
		}
	}
	if n > 0 {
		text += fmt.Sprintf(" Open: %s of %s, see the checklist.", r.worth(open)+map[bool]string{true: " a month"}[r.priced],
			plaintext.Count(n, "workload"))
	}
	return text
}

// idleText counts the devices that nobody holds.
func (r *Review) idleText() string {
	gpus, instances, micros := 0, 0, int64(0)
	for i := range r.Idle {
		if at := &r.Idle[i]; at.Profile == "" {
			gpus += at.Count
		} else {
			instances += at.Count
		}
		micros += r.Idle[i].micros
	}
	var parts []string
	if instances > 0 {
		parts = append(parts, plaintext.Count(instances, "MIG instance"))
	}
	if gpus > 0 {
		parts = append(parts, plaintext.Count(gpus, "GPU"))
	}
	text := strings.Join(parts, ", ")
	if r.priced {
		text += fmt.Sprintf(" (%s a month)", r.worth(micros))
	}
	return text
}
