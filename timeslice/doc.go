// SPDX-License-Identifier: Apache-2.0

// Package timeslice models GPU time-slicing: contexts that share a GPU without MPS take turns on the whole GPU, one
// quantum at a time.
//
// A [Scheduler] models the driver on one GPU: a quantum and the cost of a switch, measured ([H200]) or calibrated
// ([CalibrateProbe]). An [Engine] simulates a fixed set of tenants, and a [GPU] tenants that come and go. Package
// decision/predict predicts the latencies of model servers.
//
// [Level] is a time-slice level of the driver's compute policy (DEFAULT, SHORT, MEDIUM, LONG). NVIDIA publishes no
// milliseconds for the levels: the one known figure is DEFAULT on an H200, which this project measured.
//
// Time-slicing divides time and nothing else: memory is not divided, faults are not contained, and replicas are not
// capacity.
// It is stable: its API changes incompatibly only with a new major version.
package timeslice
