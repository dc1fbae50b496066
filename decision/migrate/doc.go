// SPDX-License-Identifier: Apache-2.0

// Package migrate plans the steps from the present placement of a cluster to one that costs less or meets more
// objectives. The fleet's state ([decision.Fleet.Today]) is the first candidate: [decision.Decide] places the workloads
// that may move, and the result is compared with it by the same evaluation ([decision.Evaluator]) and the same prices.
// A change is proposed only if it fixes a missed objective, or saves more than the uncertainty of the saving.
//
// A plan is the difference between two layouts. It consists of independent parts: each fixes a missed objective, gives
// a place to a workload, or saves more than its uncertainty, and no workload moves that could stay at the same price.
// Moves without a possible order of steps are left out. Pods move only to nodes that their scheduling rules allow.
//
// Workloads with too few figures stay in place, and so do their nodes. A step never takes a device from a running
// replica before the replica has another, unless a PodDisruptionBudget allows it, which the step then names. Under
// HAMi, Deployments move with their requests; nodes of Volcano, KAI and the DRA driver are left as they are.
// Experimental: its API may change.
package migrate
