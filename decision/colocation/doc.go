// Package colocation measures workloads alone and side by side on a GPU, for
// decision/predict to learn from and to be checked against.
//
// [ParsePlan] reads which loads to run on which servers. [Measure] takes the plan through its modes on a [Machine]
// with real servers or a [Simulation]: each load alone, a prediction that is written down, then the loads side by side.
// [Record] makes one run with telemetry beside it, and [Recording.Row] turns it into a row of the co-location format.
//
// It changes no compute mode, clocks, MIG or compute policy. A Machine starts and stops
// the plan's servers, and an MPS daemon of its own.
//
// Experimental: its API may change.
package colocation
