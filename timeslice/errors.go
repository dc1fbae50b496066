package timeslice

import "errors"

// Errors that callers may test for with errors.Is.
var (
	// ErrUnknownName marks a text that names no value of an enumeration.
	ErrUnknownName = errors.New("timeslice: unknown name")
)
