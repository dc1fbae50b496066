// SPDX-License-Identifier: Apache-2.0

// Package probe measures in under a minute how a GPU behaves when several processes share it: the length of a time
// slice and the cost of a switch, what MPS costs a lone client, how far its clients slow each other down, and the
// rates of memory and copies. A [Result] makes a [predict.Predictor] of that GPU and driver; [Report] shows both.
//
// Run takes the measurements on a Site and lists those that it could not take, with the reason. Package cudaprobe
// implements Site on this machine's GPU, Simulated on a simulated one; the analysis of the recordings is the same
// for both. LookAt reads through NVML who holds a GPU before anything runs on it.
//
// A probe changes nothing on the machine: no compute mode, time-slice policy, MIG, clocks, power or persistence.
// What was measured so far stands in REPORT-2026-11.md.
//
// Experimental: its API may change.
package probe
