// SPDX-License-Identifier: Apache-2.0

// Package loadgentest provides an OpenAI-compatible server with scripted answers: the time to the first token, the
// interval between the others, the tokens of an event, the layout of the bytes, and faults. It records all events with
// their times, to check a client's figures against them.
//
// A [Server] listens on loopback TCP, or, with [Options.Pipe], on in-memory connections that work inside a
// testing/synctest bubble, where all times are exact. [NewSimulation] has several servers' models share a simulated
// GPU. A [Device] defines how they share it; package decision/simgpu has those of time-slicing and MPS. Stable.
package loadgentest
