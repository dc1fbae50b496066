// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/decision/predict/profile"
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
	for i := range fleet.Workloads {
		r.conclude(&fleet.Workloads[i])
	}
	r.add()
	r.check(&fleet)
	r.Answer = r.answer()
	return r, nil
}

// reviewable returns the reason for which a discovery can't be reviewed, or nil.
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
func (r *Review) conclude(w *decision.Workload) {
	at := slices.IndexFunc(r.Workloads, func(v Workload) bool { return v.Name == w.Name })
	if at < 0 {
		return
	}
	v := &r.Workloads[at]
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
