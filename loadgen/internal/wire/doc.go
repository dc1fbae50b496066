// SPDX-License-Identifier: Apache-2.0

// Package wire reads the answers of a load generator's requests: bytes in, their times out. It knows sockets, HTTP's
// chunked coding and server-sent events, and nothing of tokens, tenants or reports; it imports nothing of this module.
//
// # The boundary
//
// A [Reader] reads one answer after another and hands each body, piece by piece, to a [Sink], with the time at which
// the piece came and how long it had waited in the kernel. The Sink takes bytes, and returns how many events they
// completed and whether it has seen enough; it never learns which of two ways they came:
//
//   - from the transport's body, as net/http reads it: on every system, for TLS, and for connections of the caller's
//     own;
//   - from a tap, which the poller feeds on its own goroutine while the request's waits: plain HTTP/1.1 over TCP, on
//     Linux, chunked bodies only. The request is then sent by a [Host], without net/http.
//
// Each has its switch. [ModePolled] allows for both, [ModeStamped] for the first alone, still with the kernel's
// times, and [ModePlain] leaves connections as they are. A failure while a connection is adopted (no epoll,
// no descriptor left, an unknown kind of connection) leads to the next mode, not to an error: the figures are then as
// good, or are marked as less exact.
//
// # Times
//
// SO_TIMESTAMPNS makes the kernel attach to recvmsg the time at which the last segment of the data arrived. It
// is a wall-clock time, and [Clock] counts from one base that has the wall and the monotonic clock. A stamp is
// therefore never used directly: the lag, wall clock now minus stamp, two readings taken close together, is
// subtracted from the monotonic now. A step of the wall clock between segment and read gives a time in the future, or
// before the one that precedes it; such times are clamped and counted. A TLS connection is stamped underneath: the
// stamp is that of the segment that completed the record.
//
// # The poller
//
// A goroutine that waits for each of a thousand streams costs a wake-up, and often a read that finds nothing, for
// each event. The poller reads all sockets with one goroutine: one wake-up serves all that have data, and because the
// kernel has kept the times, coming late does not spoil them. Under steady load it even naps for a millisecond first
// and lets data gather.
//
// Three things can wait for one another here, so the sets are nested:
//
//	runtime's poller  <-  wake (epoll)  <-  sockets (epoll)  <-  TCP sockets
//	    as a file            one-shot        edge-triggered
//
// The sockets' set holds every connection, edge-triggered. Waiting for it in the runtime's own poller would wake the
// runtime at each segment, even while the poller is at work. So that set sits in a second one, one-shot: an event
// takes it out, and it is put back only when the poller has emptied its sockets and is about to wait. The second set
// is an os.File, and RawConn.Read on it is the wait.
//
// These invariants must hold:
//
//   - Put back only after the sockets' set was found empty: EPOLL_CTL_MOD looks at the state anew, so data that came
//     meanwhile wakes at once. The other way round a segment between the two could wait for ever.
//   - A socket is read until recvmsg brings less than it could, until EAGAIN, or until its interest is set again (MOD
//     makes a new edge): an edge comes once. A short read says that the data has gone but not that the end has, which
//     may have come on the same edge; so an edge with EPOLLRDHUP reads on to the end.
//   - At most maxReads of a socket in a row: one that never empties must not starve the others.
//   - The poller's lock covers the table of connections and all of a tap's work; Close takes it before it takes the
//     descriptor away. A tap is put in without it, before the request is written, and taken out by whoever ends it,
//     once. An event for a connection closed in the same batch finds nothing in the table.
//   - A Sink runs under that lock, mostly on the poller's goroutine. It must not block, nor close its own connection;
//     it may cancel a context, whose callbacks run elsewhere. An event that grows large (heavyEvent) is handed over
//     to the goroutine of its request, which reads on to the end of the answer without the lock: its decoding must
//     not hold up the other streams.
//
// # Duplicated descriptors
//
// A net.TCPConn belongs to the runtime's poller and cannot be taken out of it. The poller therefore duplicates the
// descriptor (F_DUPFD_CLOEXEC), makes a connection of its own of the duplicate, and closes the original: the socket
// lives on under the new number, and only there. O_NONBLOCK belongs to the open file behind both and stays set.
// As nobody else guards the new number against being closed and given away while a system call uses it, a lock does
// (life): held for reading around each call, and for writing when Close sets it to -1. The kernel's close comes after
// that, outside of the lock, and takes the socket out of the set.
//
// Deadlines are not there: time-outs cancel the request's context, and whoever waits for the connection then closes
// it, which ends reads, writes and a tap.
//
// # An exchange
//
// net/http serves a connection with two goroutines, which hand each request and answer to the one that made it: for
// an answer of a few events most of the CPU. A [Host] has the request's own goroutine write it, and then wait once,
// for the end of the answer. It writes the same bytes as net/http (the head is made by [http.Request.Write], once,
// but for the length), and heads are read by [http.ReadResponse]. The tap is there before the first byte is sent, so
// that the poller gives it head and body alike:
//
//   - heads of 1xx are passed over;
//   - a head with a chunked body that the [Call] takes is followed by its events;
//   - with any other the tap ends, and the request's goroutine reads head and body from the connection, as it would
//     read any answer's.
//
// A connection is kept when its answer ended whole, its request was written whole and nothing followed. Nobody reads
// an idle one: an edge leaves a mark, and before a marked connection is used again it is checked to be open and
// empty. The server may end it at the very moment at which the next request goes out. That request has reached nobody
// if the end came as a FIN and the server's kernel acknowledged nothing of the request ([Reader.Unseen]). After an
// RST one cannot tell: a server that has read the request and fails may send one before it acknowledges anything.
// Then only the connection's idle time decides, compared with the one after which the server was seen to end
// others ([KeepAlive]).
//
// After the Sink is done (data: [DONE]) the body is drained, so that the connection can be used again, but at most
// maxDrain of it: a server that goes on for ever costs the connection, not the request.
package wire
