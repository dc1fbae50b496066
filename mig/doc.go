// SPDX-License-Identifier: Apache-2.0

// Package mig plans, checks and changes how an NVIDIA GPU is partitioned with Multi-Instance GPU (MIG).
//
//	gpu, err := mig.Lookup("A100 80GB")
//	packing, err := gpu.Pack([]mig.Count{{Profile: "1g.10gb", N: 40}, {Profile: "3g.40gb", N: 12}})
//	have, err := gpu.ParseLayout("3g.40gb@4!busy,1g.10gb@0")
//	plan, err := mig.Diff(gpu, have, []mig.Count{{Profile: "2g.20gb", N: 2}}, mig.DiffOptions{})
//
// A [Model] is one GPU of the embedded catalogue: its GPU-instance profiles, where each may be placed, its engines and
// SMs, each with how well it is verified. A [Layout] is a set of placed instances on one GPU. Planning is pure and
// exact: [Model.Place] puts a multiset of profiles on one GPU, [Model.Pack] a demand on as few GPUs as possible, and
// [Diff] finds the least disruptive change. Only [Apply] touches a device, through the small [Device] interface. When a
// step fails, it restores the earlier layout without touching instances made by others. Package mig/migtest has a
// simulated GPU behind that interface, and mig/mignvml a real one. Where the catalogue lacks a GPU's placements,
// planning returns [ErrPlacementsUnknown].
//
// Everything is deterministic. Models and profiles are shared and must not be modified; all functions are safe for
// concurrent use unless documented otherwise.
// It is stable: its API changes incompatibly only with a new major version.
package mig
