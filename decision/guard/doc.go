// Package guard watches tenants that share GPUs, compares what they see with what was predicted, and proposes what to
// do about it, each time with its evidence and the effect to expect. It is experimental: its API may change between
// minor versions.
//
// A Guard takes one Observation after another (a window of a second to some minutes) and returns Proposals:
//
//   - keep: a server is slower than expected, and no neighbour explains it
//   - notice: somebody holds a GPU without using it, or a process that belongs to no tenant disturbs one
//   - cap: under MPS a neighbour's share grew, and an active thread percentage is predicted to undo the harm
//   - move: no cap helps or there is no MPS, and another GPU has room and no server to disturb
//   - split: nothing else is left and the GPU has MIG; it is only ever proposed, since every tenant must stop for it
//   - reap: idle beyond the policy, the owner agreed in writing and was told: a notice counts from when it was
//     carried out (Done), and is tried again until it was
//
// An alarm needs Rules.Slow windows in a row above the upper end of what is expected, and ends after Rules.Clear
// within it. Expected is, in this order, what the tenant states (Tenant.Expect), the prediction for the profiles of
// the tenants beside each other, or what the first Rules.Learn windows showed. The neighbour that is named is the one
// whose share of the GPU's time grew, by the driver's utilization of each process, or that was not there before.
// Under MPS the driver sees the MPS server alone: there the one whose load grew is named, by its metrics page, and
// where the GPU draws more power and everybody's load is known but one's, that one.
//
// Nothing is concluded from a window in which the device is down, its newest reading is as old as a window, or
// readings contradict each other: a GPU that runs nothing while it draws power or while a tenant serves, or shares
// that add up to more than there is.
//
// An Actor carries proposals out through hooks, and records every step before it is taken. Its Log keeps the budget,
// the cool-down and what was done over restarts, and stops the Actor when somebody else touches it. Run puts everything
// together for one machine.
package guard
