// SPDX-License-Identifier: Apache-2.0

// Package wire reads the answers of a load generator's requests: bytes in, their times out. It handles sockets, HTTP's
// chunked coding and server-sent events, but no tokens, tenants or reports; it imports nothing of this module.
//
// A [Reader] reads one answer after another and hands each body, piece by piece, to a [Sink], with its time of arrival
// and its wait in the kernel. The bytes come in one of two ways, hidden from the Sink: from the transport's body, as
// net/http reads it (every system, TLS, the caller's own connections), or from a tap, which the poller feeds while the
// request's goroutine waits (plain HTTP/1.1 over TCP, on Linux, chunked bodies; a [Host] sends the request).
// [ModePolled] allows both, [ModeStamped] the first with the kernel's times, and [ModePlain] leaves connections
// unchanged. A connection that a mode cannot use is read in the next one.
//
// # Times
//
// SO_TIMESTAMPNS makes the kernel attach to recvmsg the time at which the last segment of the data arrived, by the wall
// clock. [Clock] counts from one pair of wall and monotonic readings, so a stamp is never used directly: the lag, wall
// clock now minus stamp, is subtracted from the monotonic now. Times in the future, or before the one that precedes
// them, come from a step of the wall clock; they are clamped and counted. Below TLS the stamp is that of the segment
// that completed the record.
//
// POLLER.md has the invariants of the poller and of an exchange.
package wire
