// SPDX-License-Identifier: Apache-2.0

// Package colocation measures workloads isolated and co-located on a GPU. Its rows calibrate the predictions of
// decision/predict, and its report compares them with the measurements.
//
// [ParsePlan] reads a plan of loads and servers. [Measure] runs it in each mode, on a machine with real servers or on a
// simulated GPU: each load isolated, then the prediction, written to a file, then the loads co-located.
//
// It changes no compute mode, clocks, MIG or compute policy. On a machine it starts and stops the plan's servers and
// its own MPS daemon. Experimental: its API may change.
package colocation
