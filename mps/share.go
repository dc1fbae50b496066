package mps

import (
	"fmt"
	"math"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Strategy says how the SMs of a GPU are divided. The zero value is StrategyEqual.
type Strategy uint8

// The strategies; the first two and the last are NVIDIA's (https://docs.nvidia.com/deploy/mps/).
const (
	StrategyEqual    Strategy = iota // 100/n each: at most the whole GPU
	StrategyOverlap                  // 100/(0.5 n) each: twice the GPU, for clients that seldom run at once
	StrategyWeighted                 // in proportion to Weight
	StrategyExact                    // each client's own SMs
)

var strategyNames = enum.Of[Strategy](ErrInvalid, "share strategy", "equal", "overlap", "weighted", "exact")

// Sharer is one client to come.
type Sharer struct {
	Name   string
	Weight float64 // of StrategyWeighted, positive
	SMs    int     // of StrategyExact
}

// ShareRequest asks for a share plan.
type ShareRequest struct {
	Strategy Strategy
	Rule     SMRule // the GPU
	Clients  []Sharer
	// MaxClients is the device's limit on client contexts with its driver, from
	// sharing.MPSClientLimit (16, 48 or 60); unknown = not checked, which the
	// plan notes.
	MaxClients sharing.Cell[int]
	// Memory is divided like the SMs (equally under StrategyOverlap and
	// StrategyExact) into limits whole in MiB; 0 = no memory limits.
	Memory sharing.Bytes
	// AllowOversubscription accepts shares of more SMs than there are, which StrategyOverlap asks for by itself.
	AllowOversubscription bool
}

// Share is one client's part of a plan.
type Share struct {
	Name       string
	Percentage float64 // active thread percentage to set, to four decimals
	SMs        SMEstimate
	Memory     sharing.Bytes // pinned memory limit to set; 0 = none was asked for
}

// SharePlan holds the settings of each client. A percentage is a cap, no reservation: kernels of different clients
// may run on one SM, and idle SMs are not lent beyond it.
type SharePlan struct {
	Shares    []Share
	TotalSMs  int
	SharedSMs int // sum over the clients
	// OversubscriptionRatio is SharedSMs / TotalSMs; over 1 the clients cannot all have their SMs at once.
	OversubscriptionRatio float64
	// IdleSMs are the SMs that rounding leaves to nobody when nothing is oversubscribed.
	IdleSMs int
	Notes   []string
}

// PlanShares divides a GPU's SMs among clients. Shares that add up to more SMs than there are, also through the
// least number of SMs that every client gets, are an error unless they are asked for.
func PlanShares(req ShareRequest) (SharePlan, error) {
	rule, err := req.Rule.check()
	if err != nil {
		return SharePlan{}, err
	}
	if err := req.check(rule); err != nil {
		return SharePlan{}, err
	}
	n := len(req.Clients)
	var weights float64
	for _, c := range req.Clients {
		weights += c.Weight
	}
	plan := SharePlan{TotalSMs: rule.Total}
	for _, c := range req.Clients {
		part := 1 / float64(n)
		if req.Strategy == StrategyWeighted {
			part = c.Weight / weights
		}
		s := Share{Name: c.Name}
		switch req.Strategy {
		case StrategyOverlap:
			s.Percentage = ceilPercent(min(100, 200*part))
		case StrategyExact:
			if s.Percentage, s.SMs, err = rule.Percentage(c.SMs); err != nil {
				return SharePlan{}, err
			}
			if s.SMs.SMs != c.SMs {
				plan.Notes = append(plan.Notes, fmt.Sprintf("%s gets %d SMs instead of %d: the hardware's steps", c.Name, s.SMs.SMs,
					c.SMs))
			}
		default:
			s.Percentage = max(percentUnit, ceilPercent(100*part))
		}
		if req.Strategy != StrategyExact {
			if s.SMs, err = rule.SMs(s.Percentage); err != nil {
				return SharePlan{}, err
			}
		}
		if req.Memory > 0 {
			s.Memory = sharing.Bytes(float64(req.Memory)*part) / sharing.MiB * sharing.MiB
			if s.Memory == 0 {
				return SharePlan{}, fmt.Errorf("%w: Memory: %v leaves %s less than 1MiB", ErrInvalid, req.Memory, c.Name)
			}
		}
		plan.SharedSMs += s.SMs.SMs
		plan.Shares = append(plan.Shares, s)
	}
	plan.OversubscriptionRatio = float64(plan.SharedSMs) / float64(rule.Total)
	plan.IdleSMs = max(0, rule.Total-plan.SharedSMs)
	if plan.SharedSMs > rule.Total && req.Strategy != StrategyOverlap && !req.AllowOversubscription {
		return SharePlan{}, fmt.Errorf("%w: Clients: %d clients would share %d SMs of %d (every client gets at least %d); "+
			"use fewer clients or AllowOversubscription",
			ErrInvalid, n, plan.SharedSMs, rule.Total, rule.Floor)
	}
	plan.note(req)
	return plan, nil
}

func (p *SharePlan) note(req ShareRequest) {
	if p.SharedSMs > p.TotalSMs {
		p.Notes = append(p.Notes, fmt.Sprintf("oversubscribed %.2f times: clients that run at once share SMs",
			p.OversubscriptionRatio))
	}
	if !req.MaxClients.Known {
		p.Notes = append(p.Notes, "the device's client limit was not given, so it was not checked")
	}
	if req.Memory > 0 {
		p.Notes = append(p.Notes, "memory limits count per client process, not per container")
	}
	p.Notes = append(p.Notes, "memory bandwidth is not divided by MPS")
}

func (req ShareRequest) check(rule SMRule) error {
	var l problem.List
	if !strategyNames.Has(req.Strategy) {
		l.Addf("Strategy", "use one of the constants", "%v", req.Strategy)
	}
	if len(req.Clients) == 0 {
		l.Addf("Clients", "name at least one client", "nobody shares")
	}
	if limit, ok := req.MaxClients.Get(); ok && len(req.Clients) > limit {
		l.Addf("Clients", "use fewer clients; each context counts", "%d clients are over the device's limit of %d (%s)",
			len(req.Clients), limit, req.MaxClients.Source)
	}
	if req.Memory < 0 {
		l.Addf("Memory", "leave it 0 for no limits", "%d bytes is no memory", int64(req.Memory))
	}
	names := map[string]bool{}
	for i, c := range req.Clients {
		at := fmt.Sprintf("Clients[%d]", i)
		if c.Name == "" || names[c.Name] {
			l.Addf(at+".Name", "give each client its own name", "%q is empty or used twice", problem.Clip(c.Name))
		}
		names[c.Name] = true
		if req.Strategy == StrategyWeighted && !(c.Weight > 0 && c.Weight <= math.MaxFloat32) {
			l.Addf(at+".Weight", "use a positive number", "%v is no weight", c.Weight)
		}
		if req.Strategy == StrategyExact && (c.SMs <= 0 || c.SMs > rule.Total) {
			l.Addf(at+".SMs", fmt.Sprintf("use 1 to %d", rule.Total), "%d is no share of the GPU", c.SMs)
		}
	}
	return invalid(&l)
}
