// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pollers hold the poller of one client, which starts with its first connection; the zero value is ready. It keeps up
// with some 200,000 events a second.
type pollers struct {
	mu     sync.Mutex
	one    *poller
	closed bool
}

// adopt moves a connection to the poller. Whatever goes wrong, c is closed.
func (ps *pollers) adopt(c net.Conn) (pc *pollConn, err error) {
	defer c.Close() // a polled one has a descriptor of its own
	tcp, ok := c.(*net.TCPConn)
	ps.mu.Lock()
	if ok && ps.one == nil && !ps.closed {
		ps.one, err = newPoller()
	}
	p := ps.one
	ps.mu.Unlock()
	if !ok || p == nil {
		return nil, errors.Join(ErrNotPolled, err)
	}
	if pc, err = p.adopt(tcp); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotPolled, err)
	}
	return pc, nil
}

// close closes all connections and waits for the poller to end.
func (ps *pollers) close() {
	ps.mu.Lock()
	p := ps.one
	ps.one, ps.closed = nil, true
	ps.mu.Unlock()
	if p != nil {
		p.close()
	}
}

// poller reads many sockets with one goroutine, which costs less than a goroutine for each: no attempt to read
// finds nothing, and a wake-up serves all sockets that have data. The kernel's receive times make it harmless to
// come late, so under load it lets data gather for a moment first.
//
// The sockets are in an epoll set. That set is in another one, once at a time, and this other one is in the
// runtime's poller: so that the runtime is woken when the poller waits for it, and not by every segment.
type poller struct {
	sockets int // epoll set, edge-triggered
	file    *os.File
	raw     syscall.RawConn // of the epoll set that holds sockets
	done    chan struct{}
	stopped atomic.Bool

	mu     sync.Mutex
	closed bool
	conns  map[int32]*pollConn // by descriptor
	recv   receiver
	buf    []byte
	// calm grows with events that came alone, falls with streams that end, and is lost when a read brings several events.
	calm int

	ready [256]unix.EpollEvent
}

const (
	// nap is the time for which data may gather before it is read: an event is late by
	// that when another of its stream comes meanwhile.
	nap = time.Millisecond
	// calmNap is the least calm that allows naps, so that they neither merge events nor
	// hold up the next requests of a closed loop of short streams; calmMax bounds calm.
	calmNap, calmMax = 256, 2048
	// calmTurn is the calm that the end of a stream costs.
	calmTurn = 24
	// pollBuffer is the size of one read from a socket in bytes, and maxReads the number
	// of reads before the next socket's turn.
	pollBuffer, maxReads = 32 << 10, 8
)

func newPoller() (*poller, error) {
	sockets, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	wake, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		unix.Close(sockets)
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	p := &poller{sockets: sockets, done: make(chan struct{}), conns: map[int32]*pollConn{}, buf: make([]byte, pollBuffer)}
	p.recv.init()
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT}
	err = unix.EpollCtl(wake, unix.EPOLL_CTL_ADD, sockets, &ev)
	if err == nil {
		err = unix.SetNonblock(wake, true)
	}
	if err != nil {
		unix.Close(wake)
		unix.Close(sockets)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	p.file = os.NewFile(uintptr(wake), "epoll")
	if err = p.file.SetReadDeadline(time.Time{}); err == nil { // else it is not pollable
		p.raw, err = p.file.SyscallConn()
	}
	if err != nil {
		p.file.Close()
		unix.Close(sockets)
		return nil, err
	}
	go func() {
		defer close(p.done)
		defer p.closeAll() // whatever ended it, nobody waits for it in vain
		_ = p.raw.Read(func(wake uintptr) bool { return p.turn(int(wake)) })
	}()
	return p, nil
}

// closeAll closes the connections that are left, and lets none in.
func (p *poller) closeAll() {
	p.mu.Lock()
	p.closed = true
	left := slices.Collect(maps.Values(p.conns))
	p.mu.Unlock()
	for _, c := range left {
		c.Close()
	}
}

// close ends the poller, and is to be called once.
func (p *poller) close() {
	p.closeAll()
	p.stopped.Store(true)
	p.file.Close()
	<-p.done
	unix.Close(p.sockets)
}

// turn serves the sockets until none has data. It says whether the poller ends.
func (p *poller) turn(wake int) bool {
	// Takes the wake-up, and with it the set out of the other one.
	if _, errno := epollNow(wake, p.ready[:1]); errno == unix.EINTR {
		return p.stopped.Load()
	}
	if p.naps() {
		time.Sleep(nap)
	}
	for n := len(p.ready); n == len(p.ready) && !p.stopped.Load(); {
		var errno syscall.Errno
		if n, errno = epollNow(p.sockets, p.ready[:]); errno == unix.EINTR {
			n = len(p.ready)
			continue
		}
		p.serve(p.ready[:max(n, 0)])
	}
	if p.stopped.Load() {
		return true
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT}
	_, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(wake), unix.EPOLL_CTL_MOD, uintptr(p.sockets),
		uintptr(unsafe.Pointer(&ev)), 0, 0)
	return errno != 0
}

// epollNow returns the ready descriptors. It does not wait, and so does not notify the Go scheduler.
func epollNow(fd int, ready []unix.EpollEvent) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd), uintptr(unsafe.Pointer(&ready[0])),
		uintptr(len(ready)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

func (p *poller) naps() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calm >= calmNap
}

func (p *poller) serve(ready []unix.EpollEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range ready {
		ev := &ready[i]
		c := p.conns[ev.Fd]
		if c == nil {
			continue // closed in this very batch
		}
		hangup := ev.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
		if hangup {
			c.hangup.CompareAndSwap(0, int64(time.Since(connEpoch)))
		}
		t := c.tapped.Load()
		if t == nil {
			notify(c.readable)
			t = c.tapped.Load() // a tap since then may not have seen the token
		}
		if t != nil {
			p.read(c, t, hangup)
		}
		if (ev.Events&unix.EPOLLOUT != 0 || hangup) && c.writing.Load() {
			notify(c.writable)
		}
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// read hands the socket's data to the connection's tap. A read that brings less than it could has emptied the
// socket, and later data makes a new edge: except for the end of the connection, which may have come with the data.
// So with all set it reads until nothing is left.
func (p *poller) read(c *pollConn, t *tap, all bool) {
	for range maxReads {
		n, stamp, errno := p.recv.read(uintptr(c.fd), p.buf)
		switch {
		case errno == syscall.EAGAIN:
			return
		case errno != 0:
			c.untap(c.opError("read", "recvmsg", errno))
			return
		case n == 0:
			c.untap(t.cut())
			return
		}
		c.last.Store(stamp)
		got, ended, err := t.take(p.buf[:n], stamp)
		switch {
		case got > 1:
			p.calm = -calmMax
		case p.calm < calmMax:
			p.calm += got
		}
		if ended {
			p.calm = max(p.calm-calmTurn, 0)
			c.untap(err)
			return
		}
		if n < len(p.buf) && !all {
			return
		}
	}
	p.again(c) // after the others
}

// again has the poller look at a socket that it has looked at: a change of the interest makes a new edge.
func (p *poller) again(c *pollConn) {
	c.life.RLock()
	ev := pollInterest(c.fd)
	err := unix.EpollCtl(p.sockets, unix.EPOLL_CTL_MOD, c.fd, &ev)
	c.life.RUnlock()
	if err != nil {
		c.untap(c.opError("read", "epoll_ctl", err))
	}
}

func pollInterest(fd int) unix.EpollEvent {
	return unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(fd)}
}
