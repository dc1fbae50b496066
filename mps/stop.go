// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

// How long Stop waits.
const (
	lookPeriod  = 100 * time.Millisecond // between looks at the daemon's child processes
	knowPeriod  = 3 * time.Second        // for a list of servers; a daemon that is slower is hung
	quitPeriod  = 10 * time.Second       // for a daemon that has agreed to quit, on a busy node
	endPeriod   = 2 * time.Second        // for a process to end after a signal, and for servers that end with their daemon
	orphanGrace = 500 * time.Millisecond // for servers whose daemon did not end in order
)

// watch records the daemon's child processes until it ends: orphans cannot be found by their parent any more.
func (d *Daemon) watch() {
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	for {
		select {
		case <-d.done:
			return
		case <-tick.C:
			d.look()
		}
		if d.child == nil && !d.process.alive() {
			close(d.done)
			return
		}
	}
}

// look records the daemon's child processes, and pids if they are MPS servers.
func (d *Daemon) look(pids ...int) {
	found := d.process.descendants()
	for _, pid := range pids {
		if p, ok := findProcess(pid); ok && p.runs(serverProgram) {
			found = append(found, p)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for p := range d.started {
		if !p.alive() {
			delete(d.started, p)
		}
	}
	for _, p := range found {
		d.started[p] = true
	}
}

// known are the processes that the daemon has started and that have not ended.
func (d *Daemon) known() []process {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []process
	for p := range d.started {
		if p.alive() {
			out = append(out, p)
		}
	}
	return out
}

// StopResult describes how a daemon ended.
type StopResult struct {
	Graceful bool // it ended by itself with all its servers
	// Forced is the strongest measure that was needed: "", "quit", "terminated" or "killed".
	Forced string
	// Servers are servers that had to be killed because they outlived the daemon; their clients have failed.
	Servers []int
}

// Stop ends the daemon: it sends quit and gives clients the time grace to leave; after that their work is lost. A
// daemon that does not answer is terminated, then killed, and servers that outlive it are killed too, also after the
// daemon ended by itself. If ctx ends, Stop skips the rest of the grace but still finishes. Calls after the first
// return the same result.
func (d *Daemon) Stop(ctx context.Context, grace time.Duration) (StopResult, error) {
	d.stop.Lock()
	defer d.stop.Unlock()
	if d.stopped {
		return d.last, nil
	}
	if err := d.end(ctx, grace); err != nil {
		return d.last, d.client.opError("stop", err)
	}
	patience := orphanGrace
	if d.last.Graceful {
		patience = endPeriod
	}
	err := d.reap(func() []process {
		left := d.known()
		for _, p := range d.leftBehind() {
			if !slices.Contains(left, p) {
				left = append(left, p)
			}
		}
		return left
	}, patience)
	d.stopped = err == nil
	d.last.Graceful = d.last.Graceful && len(d.last.Servers) == 0
	return d.last, err
}

// end ends the daemon itself.
func (d *Daemon) end(ctx context.Context, grace time.Duration) error {
	own := context.WithoutCancel(ctx)
	d.look()
	select {
	case <-d.done:
		return nil
	default:
	}
	asked, cancel := withTimeout(own, min(knowPeriod, d.client.timeout))
	defer cancel()
	servers, err := d.client.servers(asked)
	if err != nil {
		d.client.log.WarnContext(ctx, "mps stop: the daemon does not answer", "err", err)
	} else {
		d.look(servers...)
		d.quit(ctx, own, grace)
	}
	for _, step := range []struct {
		name   string
		sig    os.Signal
		period time.Duration
	}{{"", nil, quitPeriod}, {"terminated", syscall.SIGTERM, endPeriod}, {"killed", os.Kill, endPeriod}} {
		if step.sig == nil && err != nil {
			continue // it was not asked
		}
		if step.sig != nil {
			d.look()
			d.last.Graceful, d.last.Forced = false, step.name
			if err := d.signal(step.sig); err != nil {
				return err
			}
		}
		select {
		case <-d.done:
			return nil
		case <-time.After(min(step.period, d.client.timeout)):
		}
	}
	<-d.done // SIGKILL is not refused
	return nil
}

// signal signals the daemon.
func (d *Daemon) signal(sig os.Signal) error {
	if d.child == nil {
		return d.process.signal(sig)
	}
	if err := d.child.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// quit waits until no client is left, or the grace or ctx is over, then asks the daemon to end.
func (d *Daemon) quit(ctx, own context.Context, grace time.Duration) {
	wait := time.NewTimer(max(grace, 0))
	defer wait.Stop()
	for grace > 0 {
		asked, cancel := withTimeout(own, min(knowPeriod, d.client.timeout))
		s, err := d.client.Snapshot(asked)
		cancel()
		if err != nil || !slices.ContainsFunc(s.Servers, func(s ServerSnapshot) bool { return len(s.Clients) > 0 }) {
			break
		}
		select {
		case <-wait.C:
			grace = 0
		case <-ctx.Done():
			grace = 0
		case <-d.done:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
	graceful, err := d.client.Quit(own, time.Second)
	if d.last.Graceful = graceful && err == nil; !d.last.Graceful {
		d.last.Forced = "quit"
	}
}

// reap waits until none is left of the processes of a daemon that has gone, and
// kills those that are there after the patience.
func (d *Daemon) reap(find func() []process, patience time.Duration) error {
	for range 10 { // a killed process may have started others
		left := find()
		gone := func(within time.Duration) bool {
			for deadline := time.Now().Add(within); slices.ContainsFunc(left, process.alive); time.Sleep(5 * time.Millisecond) {
				if !time.Now().Before(deadline) {
					return false
				}
			}
			return true
		}
		if len(left) == 0 {
			return nil
		}
		if gone(patience) {
			continue
		}
		var errs []error
		for _, p := range left {
			if !p.alive() {
				continue
			}
			if err := p.signal(os.Kill); err != nil {
				errs = append(errs, d.client.opError(fmt.Sprintf("kill server %d", p.pid), err))
				continue
			}
			d.last.Servers = append(d.last.Servers, p.pid)
		}
		if !gone(endPeriod) {
			errs = append(errs, d.client.opError("stop", fmt.Errorf("%w: processes that its daemon left behind do not end",
				ErrTimeout)))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return d.client.opError("stop", fmt.Errorf("%w: processes that its daemon left behind start others", ErrTimeout))
}

// TerminateClient makes a server end its work for a client and waits for it. The client's process continues, its CUDA
// calls fail with CLIENT_TERMINATED, and it remains listed until it ends. After this it is safe to kill. Process IDs
// are those of the daemon's PID namespace.
func (c *Client) TerminateClient(ctx context.Context, server, client int) error {
	s, err := pidWord("server", server)
	if err != nil {
		return err
	}
	p, err := pidWord("client", client)
	if err != nil {
		return err
	}
	status, err := read(ctx, c, parseCUDAStatus, "terminate_client", s, p)
	if err == nil && status != 0 {
		err = c.opError("terminate_client "+s+" "+p, refused(fmt.Sprintf("CUDA status %d", status), nil))
	}
	return err
}
