// SPDX-License-Identifier: Apache-2.0

// Package guard watches tenants that share GPUs, compares their latency with the prediction, and proposes actions, each
// with its evidence and the expected effect. It is experimental: its API may change between minor versions.
//
// A Guard takes Observations of windows of a second to some minutes, and returns Proposals:
//   - keep: a server is slower than expected, and no neighbour explains it
//   - notice: a tenant holds a GPU without using it, or a process of no tenant disturbs one
//   - cap: under MPS a neighbour's share grew, and an active thread percentage is predicted to end the harm
//   - move: no cap helps or there is no MPS, and another GPU has room and no server that would suffer
//   - split: no other action is left and the GPU has MIG; it is only proposed, since every tenant must stop for it
//   - reap: a tenant is idle beyond the policy, and its owner agreed in writing and got a notice, which counts once it
//     is carried out (Done) and is repeated until then
//
// An alarm needs Rules.Slow consecutive windows above the upper bound of the expected latency, and ends after
// Rules.Clear within it. The expected latency is, in this order, the interval stated for the tenant (Tenant.Expect),
// the prediction from the profiles of the tenants that share the GPU, or the latency of the first Rules.Learn windows.
// The proposal names the neighbour with a grown share of the GPU's time, by the driver's utilization of each process,
// or a new one. Under MPS the driver sees only the MPS server: the proposal then names the neighbour with a grown load
// on its metrics page or, if the GPU draws more power and only one load is unknown, that neighbour.
//
// The guard draws no conclusion from a window in which the device is down, its newest reading is as old as a window, or
// readings contradict each other: a GPU that runs nothing but draws power or serves a tenant's requests, or shares that
// add up to more than one GPU.
//
// An Actor carries out proposals by the caller's function, and records every step in advance. Its Log preserves the
// budget, the cool-down and past actions across restarts. Run combines everything for one machine.
package guard
