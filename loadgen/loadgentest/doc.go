// Package loadgentest is an OpenAI-compatible server whose every answer is
// scripted: when the first token comes, how far apart the others are, how many
// tokens an event carries, how the bytes are laid out, and what goes wrong. It
// keeps its own record of what it did and when, against which a client's figures
// can be checked.
//
// A [Server] listens on loopback TCP, or, with [Options.Pipe], on in-memory
// connections that work inside a testing/synctest bubble, where all times are
// exact. [NewGPU] adds a simulated GPU on which several servers' models slow one
// another down, event by event.
package loadgentest
