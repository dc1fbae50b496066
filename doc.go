// SPDX-License-Identifier: Apache-2.0

// Package cotenant is the root of the Cotenant SDK, which decides how workloads share a GPU, does it, and measures
// what it does. It holds no code; import what you need:
//
//   - sharing: the mechanisms, what each isolates and under which conditions,
//     what each GPU can do, and the traps
//   - decision: which mechanism for each workload, on which pool, in which
//     layout, at what cost; decision/predict says what workloads will see
//     with neighbours, decision/placement where one request goes,
//     decision/discover what a cluster runs today, and decision/manifest
//     writes the configuration; decision/colocation measures workloads isolated
//     and co-located, decision/probe what predictions need of a GPU,
//     decision/guard watches workloads that share, and decision/canary says
//     whether a newcomer may stay
//   - cost: money, cost per workload, attribution that reconciles
//   - mig: profiles, placements and layouts of MIG
//   - mps, timeslice: driving, configuring and modelling the other mechanisms
//   - loadgen, telemetry: measuring what sharing does
//
// Everything but the NVML leaves (mig/mignvml, telemetry/telemetrynvml) and
// decision/probe/cudaprobe builds without cgo on Linux, macOS and Windows.
package cotenant
