// SPDX-License-Identifier: Apache-2.0

package review

import (
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/sharing"
)

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

	of     *decision.Workload
	micros int64
	lacks  []string // figures needed before it may share otherwise; empty where they would change nothing
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
	// Decided is the share of Today that is not open.
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
	priced           bool
	currency         string
}

// enough is the mean busy share from which on a device counts as used: another tenant would mostly wait for it. used
// begins the reason.
const (
	enough = 0.5
	used   = "it uses what it has: "
)
