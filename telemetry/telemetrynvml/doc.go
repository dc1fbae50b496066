// SPDX-License-Identifier: Apache-2.0

// Package telemetrynvml reads GPUs through NVIDIA's management library, as a reader for package telemetry.
//
// It needs linux and cgo, and libnvidia-ml.so.1 of an installed driver when it runs; no CUDA toolkit, no root. On other
// platforms it builds too, and Open returns an error with the reason.
//
// Figures that a driver does not give are missing. Impossible values are dropped and counted in
// telemetry.Reading.Dropped: utilizations above 100%, samples from the future, power of tens of kilowatts.
//
// # MIG
//
// With MIG enabled NVML has no utilization for the device and none for processes. Each GPU instance's own GPM
// counters are read instead (Hopper and later); an A100 has none through NVML, only a list of its instances.
// It is stable: its API changes incompatibly only with a new major version.
package telemetrynvml

import "errors"

// ErrUnavailable is returned if NVML cannot be loaded.
var ErrUnavailable = errors.New("telemetrynvml: NVML is not available")

// errClosed is returned after the reader was closed.
var errClosed = errors.New("telemetrynvml: the reader is closed")

// Options configure Open. The zero value finds the library by its name.
type Options struct {
	// LibraryPath is the path of libnvidia-ml.so.1. Empty lets the dynamic linker find it.
	LibraryPath string
	// LoadOnly limits telemetry.GroupBasic to utilization, memory and power: three calls into the driver instead of eight,
	// for a reader of many GPUs every second.
	LoadOnly bool
	// AllSamples adds to telemetry.GroupProcessUtil the device's utilization since the last reading of the group, as the
	// mean of the driver's samples: telemetry.GroupBasic covers only a fifth of a second. It takes another call of 2 ms.
	// An H100 and an H200 kept 72 samples, covering 14 seconds.
	AllSamples bool
}
