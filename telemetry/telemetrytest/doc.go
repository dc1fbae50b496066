// SPDX-License-Identifier: Apache-2.0

// Package telemetrytest is a scripted GPU reader for tests, examples and dry runs: devices go through phases with given
// figures, processes and faults. All its figures are marked sharing.BasisSimulated.
//
// It drives the real telemetry.Sampler, in real time, in a testing/synctest
// bubble, or through simulated time with [telemetry.Sampler.Simulate].
// It is stable: its API changes incompatibly only with a new major version.
package telemetrytest
