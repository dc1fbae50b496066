// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"cmp"
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// timerfdPacer waits by reading a timerfd through Go's poller, which wakes the
// goroutine several times sooner than a runtime timer does.
type timerfdPacer struct {
	fd   int
	file *os.File
}

// newPrecisePacer returns nil when the system has no timerfd to give.
func newPrecisePacer() pacer {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "timerfd")
	if f == nil || f.SetReadDeadline(time.Time{}) != nil { // not pollable
		unix.Close(fd)
		return nil
	}
	return &timerfdPacer{fd: fd, file: f}
}

func (p *timerfdPacer) wait(ctx context.Context, t time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d := time.Until(t)
	if d <= 0 {
		return nil
	}
	// Relative to now, which is as good as absolute: the deadline is one of an
	// absolute schedule, so an error never adds up.
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(p.fd, 0, &spec, nil); err != nil {
		return os.NewSyscallError("timerfd_settime", err)
	}
	stop := context.AfterFunc(ctx, func() { p.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var count [8]byte
	if _, err := p.file.Read(count[:]); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	return nil
}

func (p *timerfdPacer) name() string { return "timerfd" }

func (p *timerfdPacer) close() error { return p.file.Close() }
