package timeslice

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// Errors that callers may test for with errors.Is.
var (
	// ErrUnknownName says that a text is no value of an enumeration.
	ErrUnknownName = errors.New("timeslice: unknown name")
	// ErrMIG says that a time-slice level was asked for on a MIG device, or on
	// a GPU with MIG enabled: levels exist on whole GPUs only.
	ErrMIG = errors.New("timeslice: the time-slice level cannot be set on MIG devices")
	// ErrNotSupported says that the GPU or driver has no time-slice levels.
	ErrNotSupported = errors.New("timeslice: the driver does not support time-slice levels on this GPU")
	// ErrPermission says that the driver refused for want of privileges.
	ErrPermission = errors.New("timeslice: setting the time-slice level needs root")
	// ErrReadBack says that the level in force after a set is not the one set.
	ErrReadBack = errors.New("timeslice: the level in force is not the level that was set")
	// ErrUnreadable says that nvidia-smi answered what this package cannot read.
	ErrUnreadable = errors.New("timeslice: nvidia-smi's answer could not be read")
	// ErrUnstable says that an open loop has more work than the GPU has time.
	ErrUnstable = errors.New("timeslice: the offered work exceeds the GPU's time")
)

// OpError is an error of an operation on a device.
type OpError struct {
	Op     string // "read level", "set level", "read MIG mode"
	Device string // as the caller named it
	Err    error
}

// Error returns the operation, the device and the cause.
func (e *OpError) Error() string {
	return fmt.Sprintf("timeslice: %s of GPU %s: %s", e.Op, problem.Clip(e.Device), strings.TrimPrefix(e.Err.Error(), "timeslice: "))
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }
