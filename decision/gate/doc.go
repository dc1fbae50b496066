// SPDX-License-Identifier: Apache-2.0

// Package gate is the filter that decides whether a workload may run on a GPU by a mechanism: one vocabulary of
// codes, reasons and verdicts, and one set of gates, for two entry points.
//
// Package decision uses the first: a workload and a pool of empty GPUs, where it is still to be chosen whether
// to share and how ([Ground.Check]). Package decision/placement uses the second: a request and a GPU on which
// others run already ([Ground.Admit], [Left], [Party], [Objectives]). The [Scope] of each code defines how the
// answers of the two may differ.
//
// To add a gate, give it a [Code], and in words.go its name, source, scope and
// words; then call it in the Ground's check.
//
// It is stable: its API changes incompatibly only with a new major version.
package gate
