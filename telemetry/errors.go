package telemetry

import (
	"errors"
	"fmt"
)

// errUnknown says that a text or value names nothing.
var errUnknown = errors.New("telemetry: unknown name")

// ErrNoDevices says that a reader lists no devices.
var ErrNoDevices = errors.New("telemetry: the reader has no GPUs")

// ErrNotBegun says that a sink was given samples before a header.
var ErrNotBegun = errors.New("telemetry: the sink has no header yet; call Begin first")

// ErrUnsupported says that a device has no figures of a group. A Reader wraps it in the error of Read where marking
// metrics does not say it: an empty list of processes would mean that none is there. A Sampler passes over it.
var ErrUnsupported = errors.New("telemetry: the GPU does not support it")

// DeviceError says that an index names none of a series' devices.
type DeviceError struct {
	Device  int // the index that was given
	Devices int // how many devices there are
}

func (e *DeviceError) Error() string {
	return fmt.Sprintf("telemetry: no device %d; the series has %d, counted from 0", e.Device, e.Devices)
}

// OpError is an operation on a device that failed.
type OpError struct {
	Op     string // what was done, e.g. "read energy"
	Device string // which device: its index or UUID; may be empty
	Err    error
}

func (e *OpError) Error() string {
	if e.Device == "" {
		return fmt.Sprintf("telemetry: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("telemetry: %s of GPU %s: %v", e.Op, e.Device, e.Err)
}

func (e *OpError) Unwrap() error { return e.Err }
