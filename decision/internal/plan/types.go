// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Choice is a candidate that could be taken.
type Choice struct {
	GroupKey
	Slice   *filter.MIGSlice // of MIG
	Tenants int              // that the mechanism offers
	Fits    int              // that are like it and keep their objectives together
	Score   float64
	Unit    float64          // cost of a replica on a full GPU
	Longer  float64          // added cost of its work, which is slower than on the fastest GPU
	Answer  sharing.Answer   // whether it keeps its objectives there
	Smaller *filter.MIGSlice // of MIG: the largest that holds it and misses something
	grade   int              // of MIG: that of an instance's replicas
}

// Planner holds a fleet while it is being decided.
type Planner struct {
	Opt       Options
	Pools     []*score.CompiledPool
	Workloads []*score.CompiledWorkload
	Trust     *trustClasses
	Among     fleet.Trust                  // of workloads without a tenant
	Choices   [][]Choice                   // by workload, best first
	Banned    []map[GroupKey]filter.Reason // by workload: why a choice can't be taken
	Evidence  *evidence                    // nil without profiles
	Wanted    []int                        // by workload: replicas to place
	Placed    []int                        // by workload: those that have a place
	Places    [][]Place                    // by workload, the one of most replicas first
	Full      []map[GroupKey]int           // by workload: pools without room for the others, with the GPUs wanted
	Groups    map[GroupKey][]GPU
	on        []*sharing.GPU // by workload: where figures without a stated GPU were measured
	alike     []int          // by pool: the first pool with the same GPU
	estimates map[estimateKey]*estimate
	Seen      map[string]Prediction
	sites     []sites // by pool
	rounds    int     // of a search
	// Least is by pool the part of its isolated rate that work without objectives must keep there.
	Least []float64
}

// GroupKey names a group: the index of a pool and the mechanism that some of its GPUs run.
type GroupKey struct {
	Pool      int
	Mechanism sharing.Mechanism
}

// Member is a number of replicas of one workload on one GPU.
type Member struct {
	Workload int // index into the sorted workloads
	Replicas int
}

// bin holds the tenants of a GPU, and the room that they leave where it has no slices.
type bin struct {
	Members []Member
	n       int // tenants that take a slot: replicas or, of MIG, instances
	memory  sharing.Bytes
	limit   int // the fewest tenants that any member was evaluated with
}

// GPU is one GPU with its tenants or, of a replica that has several for itself, all of them.
type GPU struct {
	bin
	GroupKey
	Layout mig.Layout // of MIG: Members are in the order of its instances
	Size   int        // GPUs
	Spot   bool       // all its tenants may be interrupted, and the pool has spot GPUs
	domain int        // of trust
}

// Place is a number of a workload's replicas that have one choice.
type Place struct {
	*Choice
	Replicas int
}

// Site is a place where tenants meet: a GPU of a pool, or a slice of one.
type Site struct {
	GroupKey
	Slice *filter.MIGSlice
}

// Prediction holds the figures that members see together at a site, and whether all keep their objectives.
type Prediction struct {
	Answer   sharing.Answer
	likely   bool // all of them do in the median
	Tenants  int
	rate     float64 // least lower bound of the rate over the isolated rate, of tenants without objectives
	slow     float64 // sum of the added time of replicas over isolation, 1 = as long again
	grade    int     // sum of their grades
	Outcomes []predict.Estimate
}

// estimate holds the figures of a workload on a pool's GPU without neighbours.
type estimate struct {
	Demand  predict.Tenant
	Tokens  profile.Interval // of the isolated TPOT P99, where it is estimated by size
	Size    string           // the same in words
	Assumes []fleet.Assumption
}

type estimateKey struct {
	workload, pool int
	measured       bool
}

// evidence holds the profiles of a fleet's workloads.
type evidence struct {
	Predictor *predict.Predictor
	Solos     []*profile.Solo // by workload, nil where there is none
	GPUs      []*sharing.GPU  // by workload: that its profile was taken on, nil for a simulated one
	otherMPS  []bool          // by workload: MPS on that GPU is none that the predictor knows
	evaluator *predict.Evaluator
}

// trustClasses groups workloads with the same trust, so that compatibility is computed for classes and not for
// workloads.
type trustClasses struct {
	of       []int // workload -> class
	classes  []trustClass
	byTenant map[string][]int // tenant -> its classes
	anywhere int              // shareable replicas that are not pinned
	pinned   map[string]int   // pool -> shareable replicas pinned to it
	least    sharing.Bytes    // memory of the smallest shareable replica that states it
	domains  map[string]int   // by the sets of trusted tenants of a GPU's tenants
}

type trustClass struct {
	tenant    string
	trusts    []string // other tenants, sorted
	pin       string
	shareable int    // replicas that may share a GPU
	trusted   string // the tenants of which some workload trusts it too, and its own
}

const (
	mostAlike    = 64
	mostTogether = 64 // tenants of a GPU without slices
)

// KeepsRate is the part of its isolated rate that work without latency objectives keeps on a shared GPU. It is a
// preference: where replicas would wait for a place, GPUs are shared more closely.
const KeepsRate = 0.8

// sites are a pool's nodes, with the rules of their delivery for one node.
type sites struct {
	pool     *score.CompiledPool
	each     int // GPUs of a node; 1 where the pool does not say
	most     int // nodes that there are
	stated   bool
	spot     bool // some may be bought as spot
	delivery sharing.Delivery
	gpu      *layout.GPU
	class    [sharing.MechanismCount]siteClass
	// apart: any GPU of a node may come to any tenant of the node, so that strangers need nodes of their own.
	apart [sharing.MechanismCount]bool
}

// siteClass restricts the nodes that the GPUs of a mechanism may be on.
type siteClass uint8

const (
	classOpen       siteClass = iota // any that is not taken by one mechanism
	classTimeSliced                  // nodes of its own, whose free GPUs MIG may have
	classLimited                     // nodes of its own, with one memory limit on each
	classOwn                         // nodes of its own
)
