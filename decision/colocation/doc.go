// SPDX-License-Identifier: Apache-2.0

// Package colocation measures workloads isolated and co-located on a GPU. Its rows calibrate the predictions of
// decision/predict, and its report compares them with the measurements.
//
// [ParsePlan] reads which loads to run on which servers. [Measure] takes the plan through its modes on a machine
// with real servers or on a simulated GPU: each load isolated, a prediction that is written to a file, then the loads
// co-located.
//
// It changes no compute mode, clocks, MIG or compute policy. On a machine it starts and stops the plan's servers,
// and an MPS daemon of its own. Experimental: its API may change.
package colocation
