// SPDX-License-Identifier: Apache-2.0

// Package migrate plans the steps from the present placement of a cluster to one that costs less or meets more
// objectives. Today is the first candidate: the fleet's state
// ([decision.Fleet.Today]) and the arrangement that [decision.Decide] finds for what may move are compared by the same
// evaluation ([decision.Judge]) and the same prices, and a change is proposed only where it mends something, or saves
// more than is uncertain about the saving.
//
// A plan is the difference of two layouts (package layout) and is made of parts that do not touch one another. Each
// part mends something, gives a place to somebody, or saves more than is uncertain about it; within a part nothing
// moves that could stay for the same price. Moves without an order of steps are left out. Pods go only where their own
// rules and their nodes let them ([decision.Scheduling]).
//
// Workloads without enough figures stay in place, and so do their nodes. A step never takes a device from a
// running replica before the replica has another, except where a PodDisruptionBudget allows it and the step names it.
//
// Nothing here talks to a cluster; package manifest writes the steps and their files.
//
// Experimental: its API may change.
package migrate
