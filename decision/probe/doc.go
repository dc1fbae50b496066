// SPDX-License-Identifier: Apache-2.0

// Package probe measures a GPU's parameters for predictions, in under a minute: the length of a time slice, the cost of
// a switch and of resuming, and the cost of MPS to an isolated client. A [Result] yields a [predict.Predictor] for that
// GPU and driver; [Report] shows both. [MeasurePressure] measures a tenant next to stress kernels under MPS.
//
// Run takes the measurements on a Site and lists missing ones with the reason. Package cudaprobe implements Site on
// this machine's GPU, [Simulated] on a simulated one; the analysis of the recordings is the same for both. Inspect
// lists the processes that hold the GPU, through NVML.
//
// A probe changes nothing on the machine: no compute mode, time-slice policy, MIG, clocks, power or persistence.
// REPORT-2026-11.md reports measurements. Experimental: its API may change.
package probe
