// SPDX-License-Identifier: Apache-2.0

// Package decision decides how workloads share GPUs: the mechanism, pool and layout for each workload, its actual
// isolation, cost and saving, and known traps.
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
// The answer is a layout ([Result.Layout]) that respects the rules of each pool's delivery. Totals and files are
// derived from it.
//
// Goals have a strict order: meet stated objectives; place replicas, by the fleet's priorities or else online services
// before other work before notebooks; minimize cost; at equal cost, minimize slowdown, so that GPUs that are paid for
// are used. Work without objectives keeps four fifths of its rate if every replica still has a place; otherwise GPUs
// are shared more closely, and the answer gives the price of more of them. Of candidates equal in all of this, the one
// with more isolation is chosen; for notebooks and CI the simpler one.
//
// Use [Compare] for the value of less confidence or of another mechanism: it decides with several options.
//
// Decisions are deterministic: the same fleet in any order gives the same bytes. Apart from LoadFleet the package does
// no I/O, and it needs no GPU. It is stable: its API changes incompatibly only with a new major version.
package decision
