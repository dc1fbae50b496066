// SPDX-License-Identifier: Apache-2.0

// Package cotenant is the root of the Cotenant SDK, which decides how workloads share a GPU, applies the decision, and
// measures its effects. It holds no code; import the packages that you need:
//
//   - sharing: the mechanisms, the isolation of each with its conditions, the abilities of each GPU, and the traps
//   - decision: the mechanism, pool and layout for each workload, and the cost; decision/predict predicts latency and
//     rate next to neighbours, decision/placement places one request, decision/discover reads a cluster's present
//     state, and decision/manifest writes the configuration; decision/colocation measures workloads isolated and
//     co-located, decision/probe measures a GPU for predictions, decision/guard watches workloads that share, and
//     decision/canary tests whether a newcomer may stay
//   - cost: money, cost per workload, cost shares that add up exactly
//   - mig: profiles, placements and layouts of MIG
//   - mps, timeslice: driving, configuring and modelling the other mechanisms
//   - loadgen, telemetry: measuring the effects of sharing
//
// Everything but the NVML leaves (mig/mignvml, telemetry/telemetrynvml) and
// decision/probe/cudaprobe builds without cgo on Linux, macOS and Windows.
package cotenant
