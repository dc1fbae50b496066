// SPDX-License-Identifier: Apache-2.0

// Package replay replays a trace of tasks on a cluster of shared GPUs under package placement's policies, by the
// published protocol of the openb trace (Alibaba; Weng et al., "Beware of Fragmentation", USENIX ATC '23;
// hkust-adsl/kubernetes-scheduler-simulator): tasks arrive in an order that a seed draws until a multiple of the
// cluster's GPU capacity was asked for, are placed at once or never, and stay. All figures are simulated.
//
// REPORT-2026-11.md in decision/placement holds the policies' figures on that trace.
// The package is experimental: its API may change between minor versions.
package replay
