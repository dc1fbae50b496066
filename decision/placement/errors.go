package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/gate"
)

// Errors that calls of this package wrap; test for them with errors.Is.
var (
	// ErrInvalid says that an input breaks a rule; the error names every place.
	ErrInvalid = errors.New("placement: invalid input")
	// ErrNoFit says that no node takes a request. The error is an *UnplacedError.
	ErrNoFit = errors.New("placement: no node fits")
	// ErrConflict says that an offer no longer fits the snapshot it is
	// reserved on, because that is newer than the one it was scored on.
	ErrConflict = errors.New("placement: the offer no longer fits")
	// ErrNotPlaced says that a snapshot does not hold a placement.
	ErrNotPlaced = errors.New("placement: not placed here")
)

// UnplacedError holds the reasons why no node takes a request. It is an ErrNoFit.
type UnplacedError struct {
	Request string
	Nodes   int
	// Reasons counts the nodes by reason, ordered by count and then code.
	Reasons []ReasonCount
}

// ReasonCount is a number of nodes that have one reason, with an example.
type ReasonCount struct {
	Code    gate.Code    `json:"code"`
	Verdict gate.Verdict `json:"verdict"`
	Nodes   int          `json:"nodes"`
	Example string       `json:"example"` // what the first of the nodes says
}

// Error counts the nodes by reason: "0 of 3 nodes take job-7: 2 gpu-share (...)".
func (e *UnplacedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: 0 of %d nodes take %s", ErrNoFit, e.Nodes, e.Request)
	for i, r := range e.Reasons {
		sep := ": "
		if i > 0 {
			sep = "; "
		}
		fmt.Fprintf(&b, "%s%d %v (%s)", sep, r.Nodes, r.Code, r.Example)
	}
	return b.String()
}

// Is reports whether target is ErrNoFit.
func (e *UnplacedError) Is(target error) bool { return target == ErrNoFit }

// Unplaced explains why no node takes a request, by filtering every node. It
// returns nil where one does. p is as for Snapshot.Fit.
func (s *Snapshot) Unplaced(r *Request, p Forecaster) *UnplacedError {
	e := &UnplacedError{Request: r.Name, Nodes: s.Len()}
	for i := range s.Len() {
		f := s.Fit(i, r, p)
		if f.Verdict == gate.VerdictPass {
			return nil
		}
		at := slices.IndexFunc(e.Reasons, func(c ReasonCount) bool { return c.Code == f.Code && c.Verdict == f.Verdict })
		if at < 0 {
			at = len(e.Reasons)
			e.Reasons = append(e.Reasons, ReasonCount{Code: f.Code, Verdict: f.Verdict, Example: f.String()})
		}
		e.Reasons[at].Nodes++
	}
	slices.SortStableFunc(e.Reasons, func(a, b ReasonCount) int {
		return cmp.Or(b.Nodes-a.Nodes, cmp.Compare(a.Code, b.Code))
	})
	return e
}
