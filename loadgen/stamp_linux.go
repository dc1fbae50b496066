package loadgen

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stampConn reads with recvmsg, so that the kernel's receive time of the last
// segment comes with the data. The read is made without telling the Go scheduler:
// the socket never blocks, and the hand-off costs more than the read itself.
type stampConn struct {
	net.Conn
	raw  syscall.RawConn
	last atomic.Int64 // CLOCK_REALTIME ns of the last read's last segment, 0 unknown

	// The rest belongs to the one reader that a connection has.
	recv  func(fd uintptr) bool
	msg   unix.Msghdr
	iov   unix.Iovec
	oob   [8]uint64 // one timespec message; words, for the alignment
	n     int
	errno syscall.Errno
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
	s.iov.SetLen(0)
	s.msg.Iov = &s.iov
	s.msg.SetIovlen(1)
	s.recv = s.recvmsg
	return s
}

func (s *stampConn) lastStamp() int64 { return s.last.Load() }

// Read reads what the socket has. It may be called by one goroutine at a time.
func (s *stampConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.iov.Base = &p[0]
	s.iov.SetLen(len(p))
	err := s.raw.Read(s.recv)
	s.iov.Base = nil
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
	for {
		s.msg.Control = (*byte)(unsafe.Pointer(&s.oob[0]))
		s.msg.SetControllen(len(s.oob) * 8)
		n, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&s.msg)), unix.MSG_DONTWAIT)
		switch errno {
		case 0:
			s.n, s.errno = int(n), 0
			s.last.Store(s.timestamp())
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			s.n, s.errno = 0, errno
			return true
		}
	}
}

// timestamp reads the control message that recvmsg left, 0 without one.
func (s *stampConn) timestamp() int64 {
	const need = unix.SizeofCmsghdr + int(unsafe.Sizeof(unix.Timespec{}))
	if int(s.msg.Controllen) < need {
		return 0
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&s.oob[0]))
	if h.Level != unix.SOL_SOCKET || h.Type != unix.SO_TIMESTAMPNS {
		return 0
	}
	ts := (*unix.Timespec)(unsafe.Add(unsafe.Pointer(&s.oob[0]), unix.CmsgLen(0)))
	return ts.Nano()
}
