// SPDX-License-Identifier: Apache-2.0

// Package filter decides whether a workload may run on a GPU by a mechanism: one vocabulary of
// codes, reasons and verdicts, and one set of checks, for two entry points.
//
// Package decision uses the first: a workload and a pool of empty GPUs, where it is still to be chosen whether
// to share and how ([Target.Check]). Package decision/placement uses the second: a request and a GPU on which
// others run already ([Target.Admit], [Left], [Objectives]). The [Scope] of each code defines how the
// answers of the two may differ.
// It is stable: its API changes incompatibly only with a new major version.
package filter
