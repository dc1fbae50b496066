// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pollConn is a TCP connection on a poller, for one exchange after another.
type pollConn struct {
	poller             *poller
	local, remote      net.Addr
	readable, writable chan struct{} // hold a token after an edge
	closed             chan struct{}
	last               atomic.Int64 // as of stampConn
	hangup             atomic.Int64 // when the other side ended it, since connEpoch; 0 if it has not
	// writing is set while a write waits; otherwise a writable socket is ignored.
	writing atomic.Bool

	// life guards the descriptor: it is closed when nobody uses it.
	life sync.RWMutex
	fd   int // -1 after the close

	// tapped receives the poller's reads; its remover signals ended.
	tapped atomic.Pointer[tap]
	ended  chan error

	// The rest belongs to the one reader that a connection has.
	recv  receiver
	held  []byte    // read and not handed on
	since time.Time // idle
	sent  uint64    // bytes
}

var _ stamper = (*pollConn)(nil)

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

func (c *pollConn) lastStamp() int64 { return c.last.Load() }

// opError names the system call that failed; EBADF means a closed connection.
func (c *pollConn) opError(op, call string, err error) error {
	if err = os.NewSyscallError(call, err); errors.Is(err, syscall.EBADF) {
		err = net.ErrClosed
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Close ends reads, writes and a tap. Only the first call does something.
func (c *pollConn) Close() error {
	p := c.poller
	p.mu.Lock()
	if c.fd < 0 {
		p.mu.Unlock()
		return c.opError("close", "close", syscall.EBADF)
	}
	delete(p.conns, int32(c.fd))
	c.untap(c.opError("read", "recvmsg", syscall.EBADF))
	c.life.Lock()
	fd := c.fd
	c.fd = -1
	c.life.Unlock()
	close(c.closed)
	p.mu.Unlock()
	if err := unix.Close(fd); err != nil {
		return c.opError("close", "close", err)
	}
	return nil
}

// errAnswered is returned when the answer ended while the request was being written.
var errAnswered = errors.New("loadgen: answered before the request was written")

// send writes all of b, unless ctx or the tap ends first.
func (c *pollConn) send(ctx context.Context, b []byte) error {
	defer c.writing.Store(false)
	for len(b) > 0 {
		n, errno := c.writeSome(b)
		b, c.sent = b[n:], c.sent+uint64(n)
		switch errno {
		case 0, syscall.EINTR:
		case syscall.EAGAIN:
			if !c.writing.Swap(true) {
				continue // once more: it may have become writable before writing was set
			}
			select {
			case <-c.writable:
			case <-c.closed:
			case <-ctx.Done():
				return context.Cause(ctx)
			case err := <-c.ended:
				c.ended <- err // for await
				return errAnswered
			}
		default:
			return c.opError("write", "write", errno)
		}
	}
	return nil
}

// writeSome writes without notifying the Go scheduler, as a receiver reads. EBADF means a closed connection.
func (c *pollConn) writeSome(b []byte) (int, syscall.Errno) {
	c.life.RLock()
	defer c.life.RUnlock()
	if c.fd < 0 {
		return 0, syscall.EBADF
	}
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// usable reports whether an idle connection is still open, with nothing to read. The socket is asked itself: the
// poller may not have looked at it yet.
func (c *pollConn) usable() bool {
	select {
	case <-c.readable:
	default:
	}
	var b [1]byte
	_, _, errno := c.readSome(b[:])
	return errno == syscall.EAGAIN
}

// unseen reports whether the other side, which has ended the connection, never took the bytes
// after the first ones: its kernel has not acknowledged any of them.
func (c *pollConn) unseen(first uint64) bool {
	c.life.RLock()
	defer c.life.RUnlock()
	if c.fd < 0 {
		return false
	}
	info, err := unix.GetsockoptTCPInfo(c.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	// A kernel that does not count has not seen the earlier requests either. The count
	// includes the connection's own first byte.
	return err == nil && info.Bytes_acked >= first && info.Bytes_acked <= first+1
}

// listen has t take the socket's data from now on, including data that is already there.
func (c *pollConn) listen(t *tap) {
	c.tapped.Store(t)
	hungUp := c.hangup.Load() != 0 // before, when nobody listened
	select {
	case <-c.readable:
		hungUp = true
	default:
	}
	if hungUp {
		c.poller.again(c)
	}
}

func (c *pollConn) await(ctx context.Context) error {
	select {
	case err := <-c.ended:
		return err
	case <-ctx.Done():
		c.Close()
		<-c.ended
		return context.Cause(ctx)
	}
}

// Read waits for the socket's next data and reads it, where there is no tap.
func (c *pollConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if len(c.held) > 0 {
		n := copy(b, c.held)
		c.held = c.held[n:]
		return n, nil
	}
	for {
		n, stamp, errno := c.readSome(b)
		switch {
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
			return n, nil
		}
	}
}

// readSome reads the available data; EBADF means a closed connection.
func (c *pollConn) readSome(b []byte) (n int, stamp int64, errno syscall.Errno) {
	c.life.RLock()
	defer c.life.RUnlock()
	if c.fd < 0 {
		return 0, 0, syscall.EBADF
	}
	return c.recv.read(uintptr(c.fd), b)
}

func (c *pollConn) untap(err error) {
	if c.tapped.Swap(nil) != nil {
		c.ended <- err
	}
}
