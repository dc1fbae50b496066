// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// receiver reads with recvmsg, so that the kernel's receive time of the last segment comes with the data. The read is
// made without telling the Go scheduler: the socket never blocks, and the hand-off costs more than the read itself.
type receiver struct {
	msg unix.Msghdr
	iov unix.Iovec
	oob [8]uint64 // one timespec message; words, for the alignment
}

// init prepares the receiver, which must not move from then on.
func (r *receiver) init() {
	r.msg.Iov = &r.iov
	r.msg.SetIovlen(1)
}

// read reads the socket's data into p; there may be none (EAGAIN). The
// stamp is in CLOCK_REALTIME nanoseconds, 0 when unknown.
func (r *receiver) read(fd uintptr, p []byte) (n int, stamp int64, errno syscall.Errno) {
	r.iov.Base = &p[0]
	r.iov.SetLen(len(p))
	for {
		r.msg.Control = (*byte)(unsafe.Pointer(&r.oob[0]))
		r.msg.SetControllen(len(r.oob) * 8)
		n, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.msg)), unix.MSG_DONTWAIT)
		if errno == syscall.EINTR {
			continue
		}
		r.iov.Base = nil
		if errno != 0 {
			return 0, 0, errno
		}
		return int(n), r.timestamp(), 0
	}
}

// timestamp reads the control message that recvmsg left, 0 without one.
func (r *receiver) timestamp() int64 {
	const need = unix.SizeofCmsghdr + int(unsafe.Sizeof(unix.Timespec{}))
	if int(r.msg.Controllen) < need {
		return 0
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&r.oob[0]))
	if h.Level != unix.SOL_SOCKET || h.Type != unix.SO_TIMESTAMPNS {
		return 0
	}
	ts := (*unix.Timespec)(unsafe.Add(unsafe.Pointer(&r.oob[0]), unix.CmsgLen(0)))
	return ts.Nano()
}

// stampConn reads a connection through a receiver.
type stampConn struct {
	net.Conn
	raw  syscall.RawConn
	last atomic.Int64 // of the last read's last segment, 0 unknown

	// The rest belongs to the one reader that a connection has.
	receiver receiver
	recv     func(fd uintptr) bool
	p        []byte
	n        int
	errno    syscall.Errno
}

// withStamps enables receive times on a connection that has a file descriptor,
// and returns other connections as they are.
func withStamps(c net.Conn) net.Conn {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return c
	}
	var setErr error
	if err := raw.Control(func(fd uintptr) {
		setErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}); err != nil || setErr != nil {
		return c
	}
	s := &stampConn{Conn: c, raw: raw}
	s.receiver.init()
	s.recv = s.recvmsg
	return s
}

// SyscallConn gives access to the socket.
func (s *stampConn) SyscallConn() (syscall.RawConn, error) { return s.raw, nil }

// waits reports whether a connection's socket has data that was not read.
func waits(c net.Conn) (data bool) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b[0])), 1,
			unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
		data = errno == 0 && n > 0
	})
	return data
}

func (s *stampConn) lastStamp() int64 { return s.last.Load() }

// Read reads the socket's data. It may be called by one goroutine at a time.
func (s *stampConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.p = p
	err := s.raw.Read(s.recv)
	s.p = nil
	switch {
	case err != nil:
		return 0, err // the deadline passed, or the connection was closed
	case s.errno != 0:
		return 0, &net.OpError{
			Op: "read", Net: s.LocalAddr().Network(), Source: s.LocalAddr(), Addr: s.RemoteAddr(),
			Err: os.NewSyscallError("recvmsg", s.errno),
		}
	case s.n == 0:
		return 0, io.EOF
	}
	return s.n, nil
}

func (s *stampConn) recvmsg(fd uintptr) bool {
	var stamp int64
	s.n, stamp, s.errno = s.receiver.read(fd, s.p)
	if s.errno == syscall.EAGAIN {
		return false
	}
	if s.n > 0 { // the end has no time, and bytes read before keep their own
		s.last.Store(stamp)
	}
	return true
}
