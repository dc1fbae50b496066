// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// Result is the answer for a fleet. Its JSON form, of encoding/json, is stable: version "v1".
type Result struct {
	Version string `json:"version"`
	// Confidence is the probability with which decided answers meet their objectives.
	Confidence float64      `json:"confidence"`
	Decisions  []Decision   `json:"decisions"` // by workload name
	Pools      []PoolResult `json:"pools"`     // by pool name
	Traps      []TrapHit    `json:"traps"`     // of the fleet as a whole, worst first
	Totals     Totals       `json:"totals"`
	// Layout holds the placement of all replicas; totals and files are derived from it. Nodes are named by pool and
	// number, replicas by workload and number.
	Layout *layout.Cluster `json:"layout"`
	// Findings lists unused capacity that the layout pays for, node by node.
	Findings []layout.Finding `json:"findings,omitempty"`
	// Assumes lists the assumptions about the whole fleet.
	Assumes []Assumption `json:"assumes,omitempty"`
	// Remarks lists impossible requests, unlikely nodes and prices (used as stated), and fields of models' configs that
	// were not understood.
	Remarks []string `json:"remarks,omitempty"`
	// Replicas lists the numbers chosen for workloads with replicas: auto.
	Replicas []ReplicaChoice `json:"replicas,omitempty"`
	// Sources lists the sources of reasons, isolation and traps.
	Sources sharing.Citations `json:"sources,omitzero"`
}

// Decision is the answer for one workload.
type Decision struct {
	Workload  string            `json:"workload"`
	Pool      string            `json:"pool,omitempty"` // absent with mechanism none
	Mechanism sharing.Mechanism `json:"mechanism"`
	Profile   string            `json:"profile,omitempty"` // MIG
	// Status is the reliability of the answer; Placed and Unplaced count replicas.
	Status   Status `json:"status"`
	Placed   int    `json:"placed"`
	Unplaced int    `json:"unplaced"`
	// Places is set if replicas are in several pools or under several mechanisms. The first place has most replicas; Pool,
	// Mechanism and Profile describe it.
	Places []Place `json:"places,omitempty"`
	// MoreGPUs is set if more GPUs would place the unplaced replicas.
	MoreGPUs *MoreGPUs `json:"more_gpus,omitempty"`
	// Why is the reason for the choice, with figures.
	Why          string        `json:"why"`
	Consequences []Consequence `json:"consequences,omitempty"`
	// From names the method that computed the consequences: closed-form (from statements about the workload, and priors),
	// measured-profiles (see Options.Profiles), or gates if nothing was placed.
	From    string       `json:"consequences_from"`
	Assumes []Assumption `json:"assumes,omitempty"`
	// Measurement is the proposed measurement for a provisional answer.
	Measurement *Measurement `json:"measurement,omitempty"`
	Replicas    int          `json:"replicas"`
	GPUs        int          `json:"gpus"` // per replica
	Memory      string       `json:"memory"`
	// TradeOff is the drawback of the chosen mechanism.
	TradeOff *filter.ReasonText `json:"trade_off,omitempty"`
	// NotChosen gives the reasons against the best other candidates.
	NotChosen  []string    `json:"not_chosen,omitempty"`
	Isolation  []AxisLevel `json:"isolation,omitempty"`
	Candidates []Candidate `json:"candidates"` // the chosen one, then by verdict, isolation and simplicity
	// Traps are the traps in the input; Accepts are risks of the layout. The most severe come first.
	Traps   []TrapHit   `json:"traps"`
	Accepts []TrapHit   `json:"accepts,omitempty"`
	Cost    *CostResult `json:"cost,omitempty"`
	// Predicted is set if the workload has a measured profile.
	Predicted *Predicted `json:"predicted,omitempty"`
}

// Status is the reliability of the answer for a workload.
type Status string

// The statuses.
const (
	StatusNone         Status = "none"          // nothing fits; the reasons name the obstacles
	StatusPartlyPlaced Status = "partly placed" // only some replicas have a place
	StatusProvisional  Status = "provisional"   // all have a place, if the assumptions hold
	StatusDecided      Status = "decided"       // all have a place and meet their objectives at the requested confidence
)

// The origins of consequences; see Decision.From.
const (
	fromFilters    = "gates"
	fromClosedForm = "closed-form"
	fromProfiles   = "measured-profiles"
)

// Consequence is the predicted figure of a workload's objective, on the worst of its GPUs.
type Consequence struct {
	Metric  string         `json:"metric"`
	Value   float64        `json:"value"` // in the unit at the end of the metric's name; percent for the load
	Low     float64        `json:"low"`   // bounds at the requested confidence
	High    float64        `json:"high"`
	Limit   float64        `json:"limit"`
	Verdict sharing.Answer `json:"kept"`
}

// Place is a number of a workload's replicas in one pool under one mechanism.
type Place struct {
	Pool      string            `json:"pool"`
	Mechanism sharing.Mechanism `json:"mechanism"`
	Profile   string            `json:"profile,omitempty"` // MIG
	Replicas  int               `json:"replicas"`
}

// Parts returns the decision once for each of its places, as if it had only the replicas there: for programs that
// handle each place separately.
func (d *Decision) Parts() []Decision {
	out := []Decision{*d}
	for k, p := range d.Places {
		if k > 0 {
			out = append(out, *d)
		}
		one := &out[k]
		one.Pool, one.Mechanism, one.Profile, one.Placed, one.Places = p.Pool, p.Mechanism, p.Profile, p.Replicas, nil
		one.Candidates = slices.Clone(d.Candidates)
		for i := range one.Candidates {
			c := &one.Candidates[i]
			c.Chosen = c.Pool == p.Pool && c.Mechanism == p.Mechanism && c.Profile == p.Profile
		}
	}
	return out
}

// Where describes the places of the replicas in a few words: "mps on a", or "2 x mps on a + 1 x exclusive on b".
func (d *Decision) Where() string {
	if len(d.Places) == 0 {
		return choice(d.Mechanism, d.Profile) + " on " + d.Pool
	}
	var out []string
	for _, p := range d.Places {
		out = append(out, fmt.Sprintf("%d x %s on %s", p.Replicas, choice(p.Mechanism, p.Profile), p.Pool))
	}
	return strings.Join(out, " + ")
}

// Chosen returns the chosen candidate, for example for placement.RequestOf, which takes its mechanism and profile. If
// replicas are in several places, it is the place with most of them. ok is false if nothing was placed.
func (d *Decision) Chosen() (c Candidate, ok bool) {
	for _, c := range d.Candidates {
		if c.Chosen && c.Pool == d.Pool && c.Mechanism == d.Mechanism {
			return c, true
		}
	}
	return Candidate{}, false
}

// choice is a mechanism, and the slice's profile where there is one.
func choice(m sharing.Mechanism, profile string) string {
	return strings.TrimSuffix(m.String()+" "+profile, " ")
}

// MoreGPUs is the number of GPUs of a pool to add for the unplaced replicas, with everything else unchanged: in
// whole nodes for pools with gpus_per_node.
type MoreGPUs struct {
	Pool string `json:"pool"`
	GPUs int    `json:"gpus"`
}

// ReplicaChoice is the chosen number of replicas for a workload with replicas: auto.
type ReplicaChoice struct {
	Workload string `json:"workload"`
	Replicas int    `json:"replicas"`
	PerGPU   int    `json:"per_gpu"` // largest number on one GPU
	// Fewer explains the objectives missed with one replica less; absent if none is missed and the cost is not lower.
	Fewer string `json:"fewer,omitempty"`
	// LoadPerS is the highest rate of requests a second at which this number of replicas meets its objectives at the same
	// cost, 0 if it may already miss them. Breaks is the first objective missed beyond it.
	LoadPerS float64 `json:"load_per_s"`
	Breaks   string  `json:"breaks"`
}

// AxisLevel is a decision's actual isolation on one axis.
type AxisLevel struct {
	Axis   sharing.Axis     `json:"axis"`
	Level  sharing.Level    `json:"level"`
	Text   string           `json:"text"`
	Source sharing.SourceID `json:"source"`
}

// Candidate is a mechanism on a pool, evaluated for one workload.
type Candidate struct {
	Pool      string            `json:"pool"`
	Mechanism sharing.Mechanism `json:"mechanism"`
	Profile   string            `json:"profile,omitempty"`
	Verdict   filter.Verdict    `json:"verdict"`
	Chosen    bool              `json:"chosen,omitempty"`
	// Tenants counts the replicas of the workload that fit on one GPU.
	Tenants int                 `json:"tenants_per_gpu"`
	Reasons []filter.ReasonText `json:"reasons"`
}

// CostResult compares the hourly cost of a workload, all replicas together, with exclusive GPUs of the same pool.
// Amounts are exact decimals.
type CostResult struct {
	PerWorkloadHour string `json:"per_workload_hour"`
	PerReplicaHour  string `json:"per_replica_hour"` // rounded to a micro-unit
	ExclusiveHour   string `json:"exclusive_hour"`
	Currency        string `json:"currency"`
}

// PoolResult is the use of a pool.
type PoolResult struct {
	Pool       string `json:"pool"`
	GPU        string `json:"gpu"`
	GPUs       int    `json:"gpus"`
	GPUsNeeded int    `json:"gpus_needed"`
	// SpotGPUs counts the GPUs to buy as spot, which have interruptible workloads only.
	SpotGPUs int           `json:"spot_gpus,omitempty"`
	Costs    Costs         `json:"costs"`
	Groups   []GroupResult `json:"groups"` // by mechanism
}

// GroupResult is the GPUs of a pool that run one mechanism.
type GroupResult struct {
	Mechanism sharing.Mechanism `json:"mechanism"`
	GPUs      int               `json:"gpus"`
	Layouts   []LayoutResult    `json:"layouts"`
}

// LayoutResult is one GPU, or several that are alike.
type LayoutResult struct {
	GPUs      int              `json:"gpus"`
	Instances []InstanceResult `json:"instances,omitempty"` // MIG
	Tenants   []TenantResult   `json:"tenants,omitempty"`   // everything else
}

// InstanceResult is a placed MIG instance.
type InstanceResult struct {
	Profile  string `json:"profile"`
	Start    int    `json:"start"`
	Size     int    `json:"size"`
	Workload string `json:"workload"`
	Replicas int    `json:"replicas"`
}

// TenantResult counts the replicas of a workload on a GPU.
type TenantResult struct {
	Workload string `json:"workload"`
	Replicas int    `json:"replicas"`
}

// Costs compares the cost of GPUs today with their cost after the answer is applied. Pools with gpus_per_node pay for
// whole nodes; reserved GPUs are paid for even when unused.
type Costs struct {
	GPUsToday  int `json:"gpus_today"`
	GPUsAfter  int `json:"gpus_after"`
	NodesToday int `json:"nodes_today,omitempty"` // of pools that state gpus_per_node
	NodesAfter int `json:"nodes_after,omitempty"`
	// MonthlyToday, MonthlyAfter and all other amounts are exact decimals, absent without a price. MonthlyAfter is the
	// price of the layout.
	MonthlyToday string `json:"monthly_today,omitempty"`
	MonthlyAfter string `json:"monthly_after,omitempty"`
	// MonthlyFreed is the monthly cost saved by sharing and by giving up unused nodes, less the cost added. It is negative
	// if the answer needs more than there is today.
	MonthlyFreed          string `json:"monthly_freed,omitempty"`
	MonthlyFreedBySharing string `json:"monthly_freed_by_sharing,omitempty"`
	MonthlyFreedIdle      string `json:"monthly_freed_idle,omitempty"`
	MonthlyAdded          string `json:"monthly_added,omitempty"`
	// MonthlyUnplaced is the price of free GPUs that are not given up, since unplaced replicas may hold them.
	MonthlyUnplaced string `json:"monthly_unplaced,omitempty"`
}

// Totals are the sums over pools. Money is absent if a pool that is paid for has no price; GPUs are counted regardless.
type Totals struct {
	Costs
	Currency string `json:"currency,omitempty"`
	// UnsharedGPUs and MonthlyUnshared are the GPUs and cost of the placed replicas without sharing.
	UnsharedGPUs    int    `json:"unshared_gpus"`
	MonthlyUnshared string `json:"monthly_unshared,omitempty"`
	// MonthlyLonger is the added cost of jobs that take longer than on the fleet's fastest GPU. Decide minimizes its sum
	// with MonthlyAfter.
	MonthlyLonger  string   `json:"monthly_longer,omitempty"`
	Unplaced       int      `json:"unplaced_workloads"`
	UnpricedPools  []string `json:"unpriced_pools,omitempty"`
	HoursPerMonth  int      `json:"hours_per_month"`
	WorkloadsTotal int      `json:"workloads"`
}

// Decision returns the decision for a workload, or nil.
func (r *Result) Decision(workload string) *Decision {
	for i := range r.Decisions {
		if r.Decisions[i].Workload == workload {
			return &r.Decisions[i]
		}
	}
	return nil
}

// Measurement proposes a measurement of one replica that turns a provisional answer into a decided one. A front end can
// print it as a command of its own; see [TextOptions].
type Measurement struct {
	// Text is a sentence with the figures to measure and the key under which to state them.
	Text     string `json:"text"`
	Workload string `json:"workload"`
	// Figures names the figures to measure: metrics, "SM activity", "peak memory".
	Figures []string `json:"figures"`
	// Endpoint is set for replicas that serve requests and need load; otherwise the GPU is sampled.
	Endpoint bool `json:"endpoint"`
	// Rate is one replica's peak rate in requests a second; InputTokens and OutputTokens are the tokens of a request; 0 if
	// the workload does not state them.
	Rate         float64          `json:"rate,omitempty"`
	InputTokens  int              `json:"input_tokens,omitempty"`
	OutputTokens int              `json:"output_tokens,omitempty"`
	Duration     profile.Duration `json:"duration"`
	// Spread means that the spread of lengths must be stated first: a load of constant lengths would pass regardless of
	// the real traffic.
	Spread bool `json:"spread,omitempty"`
	// MonthlyAtStake is the difference in cost between the answer and dedicated GPUs, an exact decimal; absent without
	// prices, or if the GPUs are dedicated already.
	MonthlyAtStake string `json:"monthly_at_stake,omitempty"`
}

// TrapHit is a trap in an input, or one that a layout accepts or avoids.
type TrapHit struct {
	ID       string           `json:"id"`
	Severity sharing.Severity `json:"severity"`
	Message  string           `json:"message"`
	// Sources is set in Result.Traps, and empty in decisions.
	Sources []sharing.SourceID `json:"sources,omitempty"`
}

// tally counts a result's replicas, and its workloads by status and by the method of their consequences.
type tally struct {
	Placed, Wanted             int
	Waiting, Statuses, Origins []string // Waiting are the workloads with replicas that have no place
	byStatus                   map[Status]int
}

// statuses are all of them, the best first.
var statuses = []Status{StatusDecided, StatusProvisional, StatusPartlyPlaced, StatusNone}

func (r *Result) tally() *tally {
	t, from := &tally{byStatus: map[Status]int{}}, map[string]int{}
	for i := range r.Decisions {
		d := &r.Decisions[i]
		t.Placed, t.Wanted = t.Placed+d.Placed, t.Wanted+d.Replicas
		t.byStatus[d.Status]++
		from[d.From]++
		if d.Unplaced > 0 {
			t.Waiting = append(t.Waiting, d.Workload)
		}
	}
	for _, st := range statuses {
		if n := t.byStatus[st]; n > 0 {
			t.Statuses = append(t.Statuses, fmt.Sprintf("%d %s", n, st))
		}
	}
	for _, o := range [][2]string{{fromProfiles, "measured profiles"}, {fromClosedForm, "stated figures"}} {
		if n := from[o[0]]; n > 0 {
			t.Origins = append(t.Origins, fmt.Sprintf("%d from %s", n, o[1]))
		}
	}
	return t
}

// Summary returns the change in GPUs and money, for the first line of a text or page.
func (s *Totals) Summary() string {
	text, freed := "", s.GPUsToday-s.GPUsAfter
	switch {
	case freed > 0:
		text = fmt.Sprintf("Free %d of %s", freed, plaintext.Count(s.GPUsToday, "GPU"))
	case freed < 0 && s.GPUsToday == 0:
		text = "Buy " + plaintext.Count(s.GPUsAfter, "GPU")
	case freed < 0:
		text = fmt.Sprintf("Use %s in the place of %d", plaintext.Count(s.GPUsAfter, "GPU"), s.GPUsToday)
	default:
		text = "Keep " + plaintext.Count(s.GPUsToday, "GPU")
	}
	if s.MonthlyFreed == "" {
		return text
	}
	amount, more := strings.CutPrefix(plaintext.Amount(s.MonthlyFreed), "-")
	saved := map[bool]string{true: "more", false: "less"}[more]
	if amount == "0" {
		return text + fmt.Sprintf(": %s %s a month, as today", plaintext.Amount(s.MonthlyAfter), s.Currency)
	}
	return text + fmt.Sprintf(": %s %s a month %s (%s today, %s after)", amount, s.Currency, saved,
		plaintext.Amount(s.MonthlyToday), plaintext.Amount(s.MonthlyAfter))
}
