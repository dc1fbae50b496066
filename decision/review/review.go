// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// ErrInvalid is matched by the errors about inputs that can't be reviewed.
var ErrInvalid = errors.New("review: invalid")

// The verdicts on a workload.
const (
	verdictMoves  = "moves"  // the plan moves it, or gives it a device
	verdictShares = "shares" // it shares its devices, and stays
	verdictKept   = "kept"   // it stays as it is, for a reason that no measurement would change
	verdictOpen   = "open"   // more has to be known or stated: see the checklist
)

// Workload is a workload as it runs.
type Workload struct {
	Name    string `json:"name"`
	Runs    string `json:"runs"` // "3 x exclusive"
	Monthly string `json:"monthly,omitempty"`
	// Busy is the measured mean share of a whole GPU, Memory the most in use; with Together set they are of whole GPUs
	// that others use too.
	Busy     decision.Optional[float64]       `json:"busy,omitzero"`
	Memory   decision.Optional[sharing.Bytes] `json:"memory,omitzero"`
	Together bool                             `json:"together,omitempty"`
	Verdict  string                           `json:"verdict"` // moves, shares, kept or open
	Why      string                           `json:"why"`

	micros int64
	lacks  []string // figures needed before it may share otherwise; empty where they would change nothing
	waits  bool     // for its objectives alone
}

// Idle counts devices of a pool that no pod holds.
type Idle struct {
	Pool    string `json:"pool"`
	Profile string `json:"profile,omitempty"` // of MIG instances; empty for GPUs
	Count   int    `json:"count"`
	Monthly string `json:"monthly,omitempty"`

	micros int64
}

// Item is an obstacle to further savings, with the remedy.
type Item struct {
	Do        string   `json:"do"`
	How       string   `json:"how"`               // the key to add, or the command that measures it
	Monthly   string   `json:"monthly,omitempty"` // cost of the devices concerned
	Workloads []string `json:"workloads,omitempty"`

	micros int64
}

// Money divides the cost of the GPUs in a month of 730 hours: exact decimals, absent where a pool has no price. Today
// is the sum of all but Freed.
type Money struct {
	Currency string `json:"currency,omitempty"`
	Today    string `json:"today,omitempty"`
	Moves    string `json:"moves,omitempty"`
	Shares   string `json:"shares,omitempty"`
	Kept     string `json:"kept,omitempty"`
	Open     string `json:"open,omitempty"`
	Idle     string `json:"idle,omitempty"`
	Freed    string `json:"freed,omitempty"` // by the plan
	// IdleNodes is the part of Idle on nodes of which no GPU is held.
	IdleNodes string `json:"idle_nodes,omitempty"`
	// Decided is the share of Today that is not open, and that no objective of tenants of shared GPUs could free if it
	// were stated.
	Decided decision.Optional[float64] `json:"decided,omitzero"`
}

// Review is the answer about a cluster.
type Review struct {
	Answer    string              `json:"answer"`
	Money     Money               `json:"money"`
	Idle      []Idle              `json:"idle"`
	Workloads []Workload          `json:"workloads"` // by cost
	Checklist []Item              `json:"checklist"` // by the money that hangs on it
	Plan      *migrate.Plan       `json:"plan"`
	Discovery *discover.Discovery `json:"discovery"`

	nodes, idleNodes int   // idle ones have no GPU that is held, also after the plan
	idleMicros       int64 // their cost
	freeable         int64 // bound of the cost of nodes that an objective could free if it were stated
	priced           bool
	currency         string
}

// Make reviews a discovered cluster. The error matches ErrInvalid where it can't be reviewed: no nodes, no pods, or two
// clusters at once.
func Make(ctx context.Context, d *discover.Discovery, opts decision.Options) (*Review, error) {
	if err := reviewable(d); err != nil {
		return nil, err
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
			return fmt.Errorf("%w: %s %s", ErrInvalid, f.Object, f.Message)
		}
	}
	const how = "kubectl get " + discover.Resources + " -A -o json"
	switch nodes := slices.ContainsFunc(d.Unknown, func(u discover.Unknown) bool { return u.Path == "pools" }); {
	case nodes && d.Pods == 0:
		return fmt.Errorf("%w: neither nodes nor pods are among the input: give both, %s", ErrInvalid, how)
	case nodes:
		return fmt.Errorf("%w: no node with GPUs is among the input, so that what there is and what it costs is not known: "+
			"give the nodes too, %s", ErrInvalid, how)
	case d.Pods == 0 && !slices.ContainsFunc(d.Fleet.Pools, func(p decision.Pool) bool { return p.Standalone }):
		return fmt.Errorf("%w: no pod is among the input, so that what runs, and what is idle, is not known: give the pods "+
			"too, %s", ErrInvalid, how)
	}
	if err := d.Valid(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// enough is the mean busy share from which on a device counts as used: another tenant would mostly wait for it. used
// begins the reason.
const (
	enough = 0.5
	used   = "it uses what it has: "
)

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
		v.Verdict, v.Why, v.waits = verdictShares, "it shares its GPUs; with its slo stated, more may share them", true
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
