package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pollConn is a TCP connection on a poller. To the transport it is a net.Conn
// whose reads end with the head of an answer, so that what follows can be tapped.
type pollConn struct {
	poller             *poller
	local, remote      net.Addr
	readable, writable chan struct{} // hold a token after an edge
	closed             chan struct{}
	last               atomic.Int64 // as of stampConn
	// wrote is set by a write: the next data begins an answer's head.
	wrote atomic.Bool
	// writing is set while there is a write, whom alone a writable socket concerns.
	writing atomic.Bool

	// life guards the descriptor: it is closed when nobody uses it.
	life sync.RWMutex
	fd   int // -1 after the close

	// tapped and its result are the poller's, under its lock.
	tapped *tap
	ended  chan error

	// The rest belongs to the one reader that a connection has.
	recv   receiver
	head   headEnd
	passed int    // bytes handed on since the head ended
	held   []byte // read and not handed on
	own    []byte // held's buffer
}

var (
	_ net.Conn = (*pollConn)(nil)
	_ stamper  = (*pollConn)(nil)
	_ tappable = (*pollConn)(nil)
)

// errCut is what net/http says too when a body ends too early.
var errCut = io.ErrUnexpectedEOF

// adopt makes a connection of its own of c's socket; c is to be closed then.
func (p *poller) adopt(c *net.TCPConn) (*pollConn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	var opErr error
	if err := raw.Control(func(from uintptr) {
		if fd, opErr = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 3); opErr == nil {
			opErr = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
		}
	}); err != nil {
		return nil, err
	}
	pc := &pollConn{
		poller: p, local: c.LocalAddr(), remote: c.RemoteAddr(), fd: fd,
		readable: make(chan struct{}, 1), writable: make(chan struct{}, 1),
		closed: make(chan struct{}), ended: make(chan error, 1),
	}
	pc.recv.init()
	if opErr == nil {
		opErr = p.add(pc)
	}
	if opErr != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return nil, opErr
	}
	return pc, nil
}

func (p *poller) add(c *pollConn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	ev := pollInterest(c.fd)
	if err := unix.EpollCtl(p.sockets, unix.EPOLL_CTL_ADD, c.fd, &ev); err != nil {
		return err
	}
	p.conns[int32(c.fd)] = c
	return nil
}

func (c *pollConn) lastStamp() int64     { return c.last.Load() }
func (c *pollConn) LocalAddr() net.Addr  { return c.local }
func (c *pollConn) RemoteAddr() net.Addr { return c.remote }

// Deadlines are not supported: the transport has none, and watchdogs close.
func (c *pollConn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c *pollConn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c *pollConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

func (c *pollConn) opError(op, call string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: os.NewSyscallError(call, errno)}
}

func (c *pollConn) closedError(op string) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: net.ErrClosed}
}

// Close ends reads, writes and a tap. Only the first call does something.
func (c *pollConn) Close() error {
	p := c.poller
	p.mu.Lock()
	if c.fd < 0 {
		p.mu.Unlock()
		return c.closedError("close")
	}
	delete(p.conns, int32(c.fd))
	c.untap(c.closedError("read"))
	c.life.Lock()
	fd := c.fd
	c.fd = -1
	c.life.Unlock()
	close(c.closed)
	p.mu.Unlock()
	if err := unix.Close(fd); err != nil {
		return c.opError("close", "close", err.(syscall.Errno))
	}
	return nil
}

// Write writes all of b. It may be called by one goroutine at a time.
func (c *pollConn) Write(b []byte) (int, error) {
	c.wrote.Store(true)
	c.writing.Store(true)
	defer c.writing.Store(false)
	for done := 0; ; {
		n, err := c.writeSome(b[done:])
		if done += max(n, 0); err == nil && done == len(b) {
			return done, nil
		}
		switch err {
		case nil, unix.EINTR:
		case unix.EAGAIN:
			select {
			case <-c.writable:
			case <-c.closed:
			}
		case net.ErrClosed:
			return done, c.closedError("write")
		default:
			return done, c.opError("write", "write", err.(syscall.Errno))
		}
	}
}

func (c *pollConn) writeSome(b []byte) (int, error) {
	c.life.RLock()
	defer c.life.RUnlock()
	if c.fd < 0 {
		return 0, net.ErrClosed
	}
	return unix.Write(c.fd, b)
}

// Read reads what the socket has, up to the end of an answer's head.
func (c *pollConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if len(c.held) > 0 {
		n := copy(b, c.held)
		c.held = c.held[n:]
		c.passed += n
		return n, nil
	}
	for {
		n, stamp, errno, open := c.readSome(b)
		switch {
		case !open:
			return 0, c.closedError("read")
		case errno == syscall.EAGAIN:
			select {
			case <-c.readable:
			case <-c.closed:
			}
		case errno != 0:
			return 0, c.opError("read", "recvmsg", errno)
		case n == 0:
			return 0, io.EOF
		default:
			c.last.Store(stamp)
			return c.pass(b[:n]), nil
		}
	}
}

func (c *pollConn) readSome(b []byte) (n int, stamp int64, errno syscall.Errno, open bool) {
	c.life.RLock()
	defer c.life.RUnlock()
	if c.fd < 0 {
		return 0, 0, 0, false
	}
	n, stamp, errno = c.recv.read(uintptr(c.fd), b)
	return n, stamp, errno, true
}

// pass holds back what follows an answer's head, and returns how much of b to hand
// on now.
func (c *pollConn) pass(b []byte) int {
	if c.wrote.Swap(false) {
		c.head, c.passed = headEnd{}, 0
	}
	if c.head.found {
		c.passed += len(b)
		return len(b)
	}
	n := c.head.scan(b)
	c.own = append(c.own[:0], b[n:]...)
	c.held = c.own
	return n
}

func (c *pollConn) tap(t *tap) (ok bool, err error) {
	if !c.head.found || c.passed > 0 || c.wrote.Load() {
		return false, nil // of what follows the head, the transport has some already
	}
	if len(c.held) > 0 {
		held := c.held
		c.held = nil
		if _, ended, err := t.take(held, c.last.Load()); ended {
			if err == nil {
				c.held = append([]byte("0\r\n\r\n"), t.rest...)
			}
			return true, err
		}
	}
	p := c.poller
	p.mu.Lock()
	if c.fd < 0 {
		p.mu.Unlock()
		return true, c.closedError("read")
	}
	c.tapped = t
	p.read(c, true) // what has come by now makes no edge
	p.mu.Unlock()
	if err := <-c.ended; err != errHandOver {
		return true, err
	}
	return true, c.feed(t)
}

// errHandOver ends a tap on the poller so that the request's own goroutine goes on.
var errHandOver = errors.New("loadgen: handed over")

// feed does on the caller's goroutine what the poller does for a tap.
func (c *pollConn) feed(t *tap) error {
	buf := make([]byte, pollBuffer)
	for {
		n, stamp, errno, open := c.readSome(buf)
		switch {
		case !open:
			return c.closedError("read")
		case errno == syscall.EAGAIN:
			select {
			case <-c.readable:
			case <-c.closed:
			}
		case errno != 0:
			return c.opError("read", "recvmsg", errno)
		case n == 0:
			return errCut
		default:
			c.last.Store(stamp)
			if _, ended, err := t.take(buf[:n], stamp); ended {
				c.holdRest(t, err)
				return err
			}
		}
	}
}

// holdRest keeps what the transport has to see of a body that the tap has read: its
// end, and what follows.
func (c *pollConn) holdRest(t *tap, err error) {
	if err == nil {
		c.held = append(append(c.own[:0], "0\r\n\r\n"...), t.rest...)
	}
}

// untap ends the tap if there is one. The poller's lock is held.
func (c *pollConn) untap(err error) {
	if c.tapped != nil {
		c.tapped = nil
		c.ended <- err
	}
}

// headEnd finds the end of an answer's head: the first empty line.
type headEnd struct {
	found bool
	state int // of the bytes before: 1 after LF, 2 after LF CR
}

// scan returns how many bytes of b belong to the head.
func (h *headEnd) scan(b []byte) int {
	for i, c := range b {
		switch {
		case c == '\n' && h.state > 0:
			h.found = true
			return i + 1
		case c == '\n':
			h.state = 1
		case c == '\r' && h.state == 1:
			h.state = 2
		default:
			h.state = 0
		}
	}
	return len(b)
}
