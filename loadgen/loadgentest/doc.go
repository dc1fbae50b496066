// Package loadgentest provides an OpenAI-compatible server whose every answer is scripted: the time to the first
// token, the distance of the others, the tokens of an event, the layout of the bytes, and faults. It records what
// it sent and when, and a client's figures can be checked against that.
//
// A [Server] listens on loopback TCP, or, with [Options.Pipe], on in-memory connections that work inside a
// testing/synctest bubble, where all times are exact. [NewGPU] adds a simulated GPU for several servers'
// models. How they share it is for a [Device] to say; package simgpu has those of time-slicing and MPS.
//
// Stable.
package loadgentest
