package mps

import (
	"fmt"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// ShareRequest asks for a plan of equal shares, 100/n percent each (https://docs.nvidia.com/deploy/mps/).
type ShareRequest struct {
	SMs     int      // of the GPU or MIG instance
	Clients []string // by name
	// MaxClients is the device's limit on client contexts with its driver, from
	// sharing.MPSClientLimit (16, 48 or 60); unknown = not checked, which the
	// plan notes.
	MaxClients sharing.Cell[int]
	// Memory is divided like the SMs into limits whole in MiB; 0 = no memory limits.
	Memory sharing.Bytes
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
	// OversubscriptionRatio is SharedSMs / TotalSMs.
	OversubscriptionRatio float64
	IdleSMs               int // those that rounding leaves to nobody
	Notes                 []string
}

// PlanShares divides a GPU's SMs among clients. Clients that would share more SMs than there are, through the least
// number of SMs that every client gets, are an error.
func PlanShares(req ShareRequest) (SharePlan, error) {
	if err := req.check(); err != nil {
		return SharePlan{}, err
	}
	part := 1 / float64(len(req.Clients))
	plan := SharePlan{TotalSMs: req.SMs}
	for _, name := range req.Clients {
		s := Share{Name: name, Percentage: max(percentUnit, ceilPercent(100*part))}
		var err error
		if s.SMs, err = SMs(req.SMs, s.Percentage); err != nil {
			return SharePlan{}, err
		}
		if req.Memory > 0 {
			s.Memory = sharing.Bytes(float64(req.Memory)*part) / sharing.MiB * sharing.MiB
			if s.Memory == 0 {
				return SharePlan{}, fmt.Errorf("%w: Memory: %v leaves %s less than 1MiB", ErrInvalid, req.Memory, name)
			}
		}
		plan.SharedSMs += s.SMs.SMs
		plan.Shares = append(plan.Shares, s)
	}
	plan.OversubscriptionRatio = float64(plan.SharedSMs) / float64(req.SMs)
	plan.IdleSMs = max(0, req.SMs-plan.SharedSMs)
	if plan.SharedSMs > req.SMs {
		return SharePlan{}, fmt.Errorf("%w: Clients: %d clients would share %d SMs of %d (every client gets at least %d); "+
			"use fewer clients", ErrInvalid, len(req.Clients), plan.SharedSMs, req.SMs, min(leastSMs, req.SMs))
	}
	if !req.MaxClients.Known {
		plan.Notes = append(plan.Notes, "the device's client limit was not given, so it was not checked")
	}
	if req.Memory > 0 {
		plan.Notes = append(plan.Notes, "memory limits count per client process, not per container")
	}
	plan.Notes = append(plan.Notes, "memory bandwidth is not divided by MPS")
	return plan, nil
}

func (req ShareRequest) check() error {
	var l problem.List
	l.If(len(req.Clients) == 0, "Clients", "name at least one client", "nobody shares")
	if limit, ok := req.MaxClients.Get(); ok && len(req.Clients) > limit {
		l.Addf("Clients", "use fewer clients; each context counts", "%d clients are over the device's limit of %d (%s)",
			len(req.Clients), limit, req.MaxClients.Source)
	}
	l.If(req.Memory < 0, "Memory", "leave it 0 for no limits", "%d bytes is no memory", int64(req.Memory))
	names := map[string]bool{}
	for i, name := range req.Clients {
		l.If(name == "" || names[name], fmt.Sprintf("Clients[%d]", i), "give each client its own name",
			"%q is empty or used twice", problem.Clip(name))
		names[name] = true
	}
	return invalid(&l)
}
