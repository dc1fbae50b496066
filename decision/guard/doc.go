// SPDX-License-Identifier: Apache-2.0

// Package guard watches tenants that share GPUs, compares their latency with the prediction, and proposes actions, each
// with its evidence and the effect to expect. It is experimental: its API may change between minor versions.
//
// A Guard takes one Observation after another, of a second to some minutes, and returns Proposals:
//   - keep: a server is slower than expected, and no neighbour explains it
//   - notice: a tenant holds a GPU without using it, or a process that belongs to no tenant disturbs one
//   - cap: under MPS a neighbour's share grew, and an active thread percentage is predicted to undo the harm
//   - move: no cap helps or there is no MPS, and another GPU has room and no server to disturb
//   - split: nothing else is left and the GPU has MIG; it is only ever proposed, since every tenant must stop for it
//   - reap: idle beyond the policy, the owner agreed in writing and got a notice, which counts from the time
//     when it was carried out (Done), and is tried again until then
//
// An alarm needs Rules.Slow windows in a row above the upper end of the expected latency, and ends after
// Rules.Clear within it. Expected is, in this order, the interval that the tenant states (Tenant.Expect), the
// prediction from the profiles of the tenants that share the GPU, or the latency of the first Rules.Learn windows. The
// proposal names the neighbour with a share of the GPU's time that grew, by the driver's utilization of each process,
// or the one that is new. Under MPS the driver sees only the MPS server: there the neighbour with a load that grew is
// named, by its metrics page, and where the GPU draws more power and only one load is not known, that neighbour.
//
// The guard draws no conclusion from a window in which the device is down, its newest reading is as old as a window, or
// readings contradict each other: a GPU that runs nothing while it draws power or while a tenant serves, or shares
// that add up to more than one GPU.
//
// An Actor carries proposals out by a function of yours, and records every step before it is taken. Its Log keeps the
// budget, the cool-down and past actions over restarts. Run puts everything together for one machine.
package guard
