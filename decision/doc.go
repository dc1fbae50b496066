// SPDX-License-Identifier: Apache-2.0

// Package decision decides how workloads share GPUs: which mechanism each workload gets, on which pool and in which
// layout, the isolation that it really has, cost and saving, and known traps.
//
//	fleet, err := decision.LoadFleet("fleet.yaml")
//	result, err := decision.Decide(ctx, fleet, decision.Options{})
//	folder, err := manifest.Build(fleet, result)
//	err = folder.Write("plan") // the configuration, with plan.md
//
// [ParseFleet] reads a fleet of pools and workloads, [Decide] answers for all of them at once. Every candidate (a pool
// and a mechanism) passes the checks of decision/filter with four verdicts (pass, reject, fixable, unknown), each with
// a coded reason and its source. Not sharing is always a candidate. Traps in the input are reported by severity.
//
// The answer is a layout ([Result.Layout]), which keeps to the rules of each pool's delivery. Its price is the totals,
// and files are made from it.
//
// Priorities are strict: stated objectives are met; then replicas are placed, online services before other
// work before notebooks, or as the fleet's priorities say; then money counts; among equal costs, the least
// slowdown, so that paid GPUs are used. Work without objectives keeps four fifths of its rate if every replica still
// has a place; otherwise GPUs are shared more closely, and the answer gives the price of more of them. Of candidates
// that are equal in all of this, the one that isolates more is taken; for notebooks and CI the simpler one.
//
// Use [Compare] for the value of less confidence or of another mechanism: it decides with several options.
//
// Decisions are deterministic: the same fleet in any order gives the same bytes. Nothing here does I/O or needs a GPU.
// It is stable: its API changes incompatibly only with a new major version.
package decision
