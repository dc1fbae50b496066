// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"
)

// Mode selects how connections are read. The zero value is ModePolled.
type Mode uint8

// The modes. What a system or a connection cannot do becomes the next one.
const (
	ModePolled  Mode = iota // the kernel's receive times, and a poller that reads many connections (Linux, plain TCP)
	ModeStamped             // the kernel's receive times, each connection with a goroutine that waits (Linux)
	ModePlain               // the connection as it is: times are taken after the read
)

// Conns prepares connections for their mode. The zero value is ready. It is safe for concurrent use.
type Conns struct{ pollers pollers }

// Adopt returns the connection that net/http is to use in the place of c. seen, when not nil, learns how long the
// server keeps it idle; HTTP must then be spoken in the clear. Early answers are noticed on all of them.
func (cs *Conns) Adopt(c net.Conn, mode Mode, seen *KeepAlive) net.Conn {
	if mode != ModePlain {
		c = withStamps(c)
	}
	return &watchedConn{Conn: c, seen: seen}
}

// KeepAlive is the time for which a server keeps idle connections, as far as it was seen
// to end any. It is safe for concurrent use.
type KeepAlive struct{ least atomic.Int64 }

// learn notes that the server ended a connection that had been idle for d.
func (k *KeepAlive) learn(d time.Duration) {
	for k != nil && d > 0 {
		if have := k.least.Load(); have != 0 && have <= int64(d) || k.least.CompareAndSwap(have, int64(d)) {
			return
		}
	}
}

// Least returns the shortest time after which the server ended an idle connection, 0 where it has ended none.
func (k *KeepAlive) Least() time.Duration { return time.Duration(k.least.Load()) }

// watchedConn notifies seen when its other side ends it between two exchanges.
type watchedConn struct {
	net.Conn
	seen *KeepAlive
	// The times of the last byte in and of the last request out; 0 is none.
	in, out atomic.Int64
	sent    atomic.Int64 // the time of out on the wall clock, as kernel stamps are
	early   atomic.Bool  // data waited when the request, or a part of it, was about to be written
}

// Reused prepares for a request over conn, which had one before. The function that it returns reports whether an
// answer began before the last part of the request was written: it is unsolicited, or to an earlier request.
// answered is set where net/http has returned an answer, with its body unread.
func Reused(conn net.Conn) (early func(answered bool) bool) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	c, ok := conn.(*watchedConn)
	if !ok {
		return func(bool) bool { return false }
	}
	c.early.Store(false)
	c.writes() // an answer may come before the first part is written
	return func(answered bool) bool {
		stamp := c.lastStamp()
		return c.early.Load() || answered && (c.in.Load() < c.out.Load() || stamp != 0 && stamp < c.sent.Load())
	}
}

var connEpoch = time.Now()

func (c *watchedConn) lastStamp() int64 {
	if s, ok := c.Conn.(stamper); ok {
		return s.lastStamp()
	}
	return 0
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	now := int64(time.Since(connEpoch))
	if in := c.in.Load(); err != nil && n == 0 && in > c.out.Load() {
		c.seen.learn(time.Duration(now - in))
	}
	if n > 0 {
		c.in.Store(now)
	}
	return n, err
}

func (c *watchedConn) Write(p []byte) (int, error) {
	if waits(c.Conn) {
		c.early.Store(true)
	}
	c.writes()
	return c.Conn.Write(p)
}

// writes notes that a part of a request is about to be written.
func (c *watchedConn) writes() {
	now := time.Now()
	c.out.Store(int64(now.Sub(connEpoch)))
	c.sent.Store(now.UnixNano())
}

// Close closes the polled connections and ends the pollers.
func (cs *Conns) Close() { cs.pollers.close() }
