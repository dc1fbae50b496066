// SPDX-License-Identifier: Apache-2.0

// Package mps drives NVIDIA CUDA MPS: it talks to the control daemon, plans the shares of clients, builds client
// environments that avoid the known traps, and verifies clients and their limits against the daemon's own lists.
//
// Client speaks the protocol of the drivers in use today (v2: commands on the control program's standard input),
// and runs the control program through a Runner, without a shell. Three habits of the daemon shape the package: a
// refused command exits 0, a refused setting can answer with the value that stays in force, and a client that
// cannot reach its daemon runs without MPS silently. So every answer is parsed strictly, every setter reads
// back, and membership is queried from the daemon, never from the environment.
//
// MPS exists on Linux and QNX. Arithmetic and parsing work everywhere; running the control program elsewhere fails.
// It is stable: its API changes incompatibly only with a new major version. Facts carry their source in parentheses, as
// keys that sharing.SourceByID resolves.
package mps
