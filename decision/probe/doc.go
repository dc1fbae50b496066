// SPDX-License-Identifier: Apache-2.0

// Package probe measures in under a minute how a GPU behaves when several processes share it: the length of a time
// slice and the cost of a switch, the cost of MPS to a lone client, the slowdown of its clients by one another, and the
// rate of memory. A [Result] makes a [predict.Predictor] of that GPU and driver; [Report] shows both.
//
// Run takes the measurements on a Site and lists the missing ones, with the reason. Package cudaprobe implements Site
// on this machine's GPU, Simulated on a simulated one; the analysis of the recordings is the same for both. LookAt
// reads through NVML the GPU's present holders.
//
// A probe changes nothing on the machine: no compute mode, time-slice policy, MIG, clocks, power or persistence.
// REPORT-2026-11.md has the measurements so far.
//
// Experimental: its API may change.
package probe
