// SPDX-License-Identifier: Apache-2.0

// Package wire reads the answers of a load generator's requests: bytes in, their times out. It knows sockets, HTTP's
// chunked coding and server-sent events, and nothing of tokens, tenants or reports; it imports nothing of this module.
//
// A [Reader] reads one answer after another and hands each body, piece by piece, to a [Sink], with the time at which
// the piece came and how long it had waited in the kernel. The bytes come in one of two ways, which the Sink never
// learns: from the transport's body, as net/http reads it (every system, TLS, connections of the caller's own), or from
// a tap, which the poller feeds while the request's goroutine waits (plain HTTP/1.1 over TCP, on Linux, chunked bodies;
// a [Host] sends the request). [ModePolled] allows for both, [ModeStamped] for the first with the kernel's times,
// [ModePlain] leaves connections as they are. A connection that cannot be adopted is read in the next mode.
//
// # Times
//
// SO_TIMESTAMPNS makes the kernel attach to recvmsg the time at which the last segment of the data arrived, by the wall
// clock. [Clock] counts from one base of wall and monotonic clock, so a stamp is never used directly: the lag, wall
// clock now minus stamp, is subtracted from the monotonic now. Times in the future, or before the one that precedes
// them, come from a step of the wall clock; they are clamped and counted. Below TLS the stamp is that of the segment
// that completed the record.
//
// # The poller
//
// One goroutine reads all sockets: one wake-up serves all that have data, and the kernel's times make it harmless to
// come late. Under steady load it naps for a millisecond first and lets data gather.
//
//	runtime's poller  <-  wake (epoll)  <-  sockets (epoll)  <-  TCP sockets
//	    as a file            one-shot        edge-triggered
//
// The set of sockets is in a second, one-shot set, which is a file of the runtime's poller: the runtime is woken when
// the poller waits, and not at each segment. These invariants must hold:
//
//   - The first set is put back only after it was found empty: EPOLL_CTL_MOD looks at the state anew, so data that came
//     meanwhile wakes at once.
//   - A socket is read until recvmsg brings less than it could, until EAGAIN, or until its interest is set again (MOD
//     makes a new edge). The end may come on the edge of the last data, so an edge with EPOLLRDHUP reads on to the end.
//   - At most maxReads of a socket in a row: one that never empties must not starve the others.
//   - The poller's lock covers the table of connections and all of a tap's work; Close takes it before it takes the
//     descriptor away. A tap is put in without it, before the request is written, and taken out once, at its end.
//   - A Sink runs under that lock, mostly on the poller's goroutine. It must not block, nor close its own connection;
//     it may cancel a context, which has its callbacks run elsewhere.
//
// A net.TCPConn cannot leave the runtime's poller. So its descriptor is duplicated (F_DUPFD_CLOEXEC), and the original
// closed. A lock (life) guards the new number: held for reading around each call, and for writing when Close sets it to
// -1; the kernel's close follows, and takes the socket out of the set. There are no deadlines: time-outs cancel the
// request's context, and the goroutine that waits for the connection closes it, which ends reads, writes and a tap.
//
// # An exchange
//
// net/http serves a connection with two goroutines, which for short answers costs most of the CPU. A [Host] has the
// request's own goroutine write it, with the bytes that net/http would send, and wait once, for the end of the answer.
// The tap is there before the first byte is sent. Heads of 1xx are passed over; a head with a chunked body that the
// [Call] takes is followed by its events; with any other the tap ends, and the request's goroutine reads the answer.
//
// A connection is kept when its answer ended whole, its request was written whole and nothing followed. Before it is
// used again it is checked to be open and empty. The server may end it just then: that request reached nobody if the
// end came as a FIN and the server's kernel acknowledged none of it ([Reader.Unseen]). After an RST one cannot tell,
// and the connection's idle time decides, compared with the one after which the server ended others ([KeepAlive]).
// After the Sink is done (data: [DONE]) at most maxDrain of the body is drained, so that the connection can be kept.
package wire
