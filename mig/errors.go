package mig

import (
	"errors"

	"github.com/cotenant/cotenant/internal/problem"
)

// Errors that calls of this package wrap; test for them with errors.Is.
var (
	ErrUnknownGPU     = errors.New("mig: unknown GPU")     // a name or PCI id is no GPU of the catalogue
	ErrAmbiguousGPU   = errors.New("mig: ambiguous GPU")   // a name or PCI id is that of several GPUs
	ErrUnknownProfile = errors.New("mig: unknown profile") // a GPU has no profile of a name
	// ErrPlacementsUnknown says that the catalogue does not know where a
	// GPU's profiles may be placed, so a plan can't be made offline.
	ErrPlacementsUnknown = errors.New("mig: placements unknown")
	// ErrInfeasible says that instances can't be together on one GPU. The error is an *InfeasibleError.
	ErrInfeasible = errors.New("mig: infeasible")
	// ErrInvalid says that an input breaks a rule; the error names every place.
	ErrInvalid = errors.New("mig: invalid input")
)

// invalid wraps what is wrong with one input so that it is an ErrInvalid. A nil error stays nil.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return &invalidError{err: err}
}

type invalidError struct {
	err            error
	unknownProfile bool
}

func (e *invalidError) Error() string { return "mig: " + e.err.Error() }
func (e *invalidError) Unwrap() error { return e.err }
func (e *invalidError) Is(target error) bool {
	return target == ErrInvalid || e.unknownProfile && target == ErrUnknownProfile
}

// problems collects what is wrong with one input, including what calls of this package found.
type problems struct {
	problem.List
	unknownProfile bool
}

// add records err at path, without the package's prefix.
func (p *problems) add(path string, err error) {
	var bad *invalidError
	if errors.As(err, &bad) {
		p.unknownProfile = p.unknownProfile || bad.unknownProfile
		p.AddErr(path, bad.err)
		return
	}
	p.AddErr(path, err)
}

// err returns an ErrInvalid with all problems, or nil.
func (p *problems) err() error {
	if p.Len() == 0 {
		return nil
	}
	return &invalidError{err: p.Err(), unknownProfile: p.unknownProfile}
}
