// SPDX-License-Identifier: Apache-2.0

// Package filter decides whether a workload may run on a GPU by a mechanism: one vocabulary of codes, reasons and
// verdicts, and one set of checks, with two entry points.
//
// Package decision uses the first: a workload and a pool of empty GPUs, before the choice of a mechanism
// ([Target.Check]). Package decision/placement uses the second: a request and a GPU that others already use
// ([Target.Admit], [Left]). Some codes apply to one of the two only. It is stable: its API changes incompatibly only
// with a new major version.
package filter
