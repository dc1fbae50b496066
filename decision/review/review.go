// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// Make reviews a discovered cluster. It can't be reviewed without nodes or pods, or where it is two clusters.
func Make(ctx context.Context, d *discover.Discovery, opts decision.Options) (*Review, error) {
	if err := reviewable(d); err != nil {
		return nil, fmt.Errorf("review: %w", err)
	}
	fleet := d.Fleet
	fleet.Workloads = slices.Clone(fleet.Workloads)
	for i := range fleet.Workloads {
		w := &fleet.Workloads[i]
		if p, ok := d.Profiles[w.Name]; ok && w.Profile == nil && opts.Predictor == nil {
			if opts.Profiles == nil {
				opts.Profiles = &profile.Profiles{}
			}
			if err := opts.Profiles.Add(p); err != nil {
				return nil, err
			}
			w.Profile = &profile.ProfileRef{Server: p.Server, Load: p.Load}
		}
	}
	r := &Review{Discovery: d, Idle: []Idle{}, Workloads: []Workload{}, Checklist: []Item{}}
	var err error
	if r.Plan, err = migrate.Make(ctx, &fleet, opts); err != nil {
		return nil, err
	}
	r.divide(&fleet)
	r.add()
	r.check(&fleet)
	r.Answer = r.answer()
	return r, nil
}

func reviewable(d *discover.Discovery) error {
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Code == "two-clusters" {
			return fmt.Errorf("%s %s", f.Object, f.Message)
		}
	}
	const how = "kubectl get " + discover.Resources + " -A -o json"
	switch nodes := slices.ContainsFunc(d.Unknown, func(u discover.Unknown) bool { return u.Path == "pools" }); {
	case nodes && d.Pods == 0:
		return fmt.Errorf("neither nodes nor pods are among the input: give both, %s", how)
	case nodes:
		return fmt.Errorf("no node with GPUs is among the input, so that what there is and what it costs is not known: "+
			"give the nodes too, %s", how)
	case d.Pods == 0 && !slices.ContainsFunc(d.Fleet.Pools, func(p decision.Pool) bool { return p.Standalone }):
		return fmt.Errorf("no pod is among the input, so that what runs, and what is idle, is not known: give the pods "+
			"too, %s", how)
	}
	return d.Fleet.Validate()
}

// conclude writes the verdict on a workload.
func (r *Review) conclude(v *Workload) {
	w := v.of
	of, whole := 1.0, 0.0
	for i := range r.Discovery.Used {
		if u := &r.Discovery.Used[i]; u.Workload == w.Name {
			v.Busy, v.Memory, v.Together, whole = u.BusyMean, u.MemoryMax, u.Together, u.WholeBusy.Or(0)
		}
	}
	if w.Today != nil && w.Today.Mechanism == sharing.MechanismMIG {
		of = r.instancePart(w)
	}
	why, held := r.Plan.Stay(w.Name)
	busy, measured := v.Busy.Get()
	shared := w.Today != nil && w.Today.Mechanism != sharing.MechanismExclusive
	full := ""
	switch {
	case whole >= enough:
		full = fmt.Sprintf(used+"with all on its GPUs they are busy %.0f%% of the time", 100*whole)
	case measured && busy >= enough*of:
		full = fmt.Sprintf(used+"busy %.0f%% of the time", 100*busy/of)
	}
	if full == "" && !held {
		v.lacks = migrate.NotKnown(w)
	}
	onlySLO := shared && w.Today.Mechanism != sharing.MechanismMIG && slices.Equal(v.lacks, []string{migrate.KeySLO})
	switch {
	case slices.ContainsFunc(r.Plan.Rows, func(row migrate.Row) bool { return row.Workload == w.Name }):
		v.Verdict, v.Why = verdictMoves, "see the plan"
	case full != "":
		v.Verdict, v.Why = verdictKept, full
	case onlySLO:
		v.Verdict, v.Why = verdictShares, "it shares its GPUs; with its slo stated, more may share them"
	case len(v.lacks) > 0:
		v.Verdict, v.Why = verdictOpen, "not known: "+strings.Join(v.lacks, ", ")
	case strings.HasPrefix(why, migrate.NotEnough):
		v.Verdict, v.Why = verdictOpen, why
	case shared:
		v.Verdict, v.Why = verdictShares, cmp.Or(why, "nothing better was found")
	default:
		v.Verdict, v.Why = verdictKept, cmp.Or(why, "nothing better was found")
	}
}

// instancePart is the part of a GPU's compute that a workload's MIG instances have.
func (r *Review) instancePart(w *decision.Workload) float64 {
	for n := range r.Plan.Today.Nodes() {
		for i := range n.Assignments {
			if a := &n.Assignments[i]; a.Workload.Name == w.Name && a.Profile != nil {
				return float64(a.Profile.ComputeSlices) / float64(a.Profile.Model().ComputeSlices)
			}
		}
	}
	return 1
}

//go:embed items.json
var itemsJSON []byte

// texts has the items of the checklist; NAME is a workload.
var texts = sync.OnceValue(func() (all map[string]Item) {
	_ = json.Unmarshal(itemsJSON, &all) // it is built in
	return all
})

// check fills the checklist, by cost.
func (r *Review) check(f *decision.Fleet) {
	items := map[string]*Item{}
	add := func(id, name string) *Item {
		text := strings.NewReplacer("NAME", name).Replace
		do := text(texts()[id].Do)
		if items[do] == nil {
			items[do] = &Item{Do: do, How: text(texts()[id].How)}
		}
		return items[do]
	}
	for i := range r.Workloads {
		v, w := &r.Workloads[i], r.Workloads[i].of
		concerns := func(it *Item) {
			it.micros += v.micros
			it.Workloads = append(it.Workloads, v.Name)
		}
		lacks := slices.DeleteFunc(slices.Clone(v.lacks), func(key string) bool { return key == migrate.KeySLO })
		if len(lacks) < len(v.lacks) {
			concerns(add("slo", v.Name))
		}
		switch {
		case len(lacks) > 0 && v.Together:
			concerns(add("own", ""))
		case len(lacks) > 0:
			concerns(add("use", ""))
		case len(v.lacks) > 0:
		case v.Verdict == verdictOpen:
			it := add("assumed", v.Name)
			it.Do += v.Why
			concerns(it)
		case v.Verdict == verdictMoves || w.Today == nil || w.Today.Stays != "" || strings.HasPrefix(v.Why, used):
		case w.Today.Object == "StatefulSet" && w.Today.Mechanism != sharing.MechanismHAMi && !budgeted(f, w.Name):
			concerns(add("budget", ""))
		case w.Today.Object == "Pod":
			concerns(add("pod", ""))
		}
	}
	for _, u := range r.Discovery.Unknown {
		switch {
		case strings.HasPrefix(u.Path, "nodes."):
			name := strings.TrimSuffix(strings.TrimPrefix(u.Path, "nodes."), ".gpu")
			items[u.Path] = &Item{Do: "name the GPU of " + name + ": " + u.Why, How: u.Remedy}
		case strings.HasSuffix(u.Path, ".price_per_gpu_hour"):
			add("price", "")
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
