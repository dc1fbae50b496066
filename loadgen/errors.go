package loadgen

import "errors"

// ErrUnknownName says that a text names no value of an enumeration.
var ErrUnknownName = errors.New("loadgen: unknown name")

// ErrInput says that a file of prompts, a trace, a timeline or another tool's
// result cannot be used. It joins one problem for each thing wrong.
var ErrInput = errors.New("loadgen: unusable input")
