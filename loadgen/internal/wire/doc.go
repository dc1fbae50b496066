// SPDX-License-Identifier: Apache-2.0

// Package wire reads the answers of a load generator's requests: bytes in, their times out. It knows sockets and
// server-sent events, and nothing of tokens, tenants or reports; it imports nothing of this module.
//
// A [Reader] reads one answer after another, as net/http delivers it, and hands each body, piece by piece, to a [Sink],
// with the time at which the piece came and how long it had waited in the kernel. [Adopt] prepares a connection for
// that. A [Parser] separates the events.
//
// # Times
//
// SO_TIMESTAMPNS makes the kernel attach to recvmsg the time at which the last segment of the data arrived. It
// is a wall-clock time, and [Clock] counts from one base that has the wall and the monotonic clock. A stamp is
// therefore never used directly: the lag, wall clock now minus stamp, two readings taken close together, is
// subtracted from the monotonic now. A step of the wall clock between segment and read gives a time in the future, or
// before the one that precedes it; such times are clamped and counted. A TLS connection is stamped underneath: the
// stamp is that of the segment that completed the record. A connection without a descriptor is read as it is, and its
// times are taken after the read.
package wire
