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

// Signaler is a process that can be signalled. *os.Process is one: on Linux it
// holds the process itself, so that a reused process ID is never hit.
type Signaler interface {
	Signal(os.Signal) error
}

// TerminateClient tells a server to end its work for a client and waits for it. The client's process goes on, its
// CUDA calls fail with CLIENT_TERMINATED, and it stays listed until it ends. After this it is safe to kill. Process
// IDs are those of the daemon's PID namespace.
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

// StopOptions are options of StopClient.
type StopOptions struct {
	// Process is the client's process. nil leaves ending the process to the caller.
	Process Signaler
	// Grace bounds the time that the process has to end after SIGTERM, and again after SIGKILL; 0 = 5 s.
	Grace time.Duration
	// Kill sends SIGKILL to a process that is still there after Grace. Safe
	// only because terminate_client came first.
	Kill bool
}

// StopReport says what StopClient did.
type StopReport struct {
	Terminated bool        // the server has ended the client's work
	Signalled  bool        // SIGTERM was sent
	Killed     bool        // SIGKILL was sent
	Left       bool        // the daemon lists the client no more
	State      ServerState // the server's, afterwards
	Others     []int       // the clients that remain
}

// StopClient ends a client without harm to its neighbours: it makes sure that the process is the server's client,
// has the server end its work (terminate_client), and only then signals the process. Killing a client without that
// is undefined and can take the server along. Once the client is terminated the sequence runs to its end even if
// ctx ends.
func (c *Client) StopClient(ctx context.Context, server, client int, opts StopOptions) (StopReport, error) {
	var r StopReport
	clients, err := c.Clients(ctx, server)
	if err != nil {
		return r, err
	}
	if !slices.Contains(clients, client) {
		return r, c.opError(fmt.Sprintf("stop client %d", client), fmt.Errorf("%w: server %d lists %s; nothing was signalled",
			ErrNotClient, server, pidList(clients)))
	}
	if err := c.TerminateClient(ctx, server, client); err != nil {
		return r, err
	}
	r.Terminated = true
	grace := opts.Grace
	if grace <= 0 {
		grace = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*grace+3*c.timeout)
	defer cancel()
	if opts.Process != nil {
		if err := c.endProcess(ctx, &r, server, client, opts, grace); err != nil {
			return r, err
		}
	}
	return r, c.after(ctx, &r, server, client)
}

func (c *Client) endProcess(ctx context.Context, r *StopReport, server, client int, opts StopOptions,
	grace time.Duration) error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if sig == syscall.SIGKILL && !opts.Kill {
			return nil
		}
		op := fmt.Sprintf("signal %d with %v", client, sig)
		err := opts.Process.Signal(sig)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return c.opError(op, err)
		}
		if err == nil {
			r.Signalled = true
			r.Killed = sig == syscall.SIGKILL
		}
		left, err := c.until(ctx, op, grace, 20*time.Millisecond, func(ctx context.Context) (bool, error) {
			pids, err := c.Clients(ctx, server)
			if errors.Is(err, ErrServerNotFound) {
				return true, nil
			}
			return err == nil && !slices.Contains(pids, client), err
		})
		if err != nil || left {
			return err
		}
	}
	return nil
}

// after says how the server is now.
func (c *Client) after(ctx context.Context, r *StopReport, server, client int) error {
	s, err := c.serverSnapshot(ctx, server)
	if errors.Is(err, ErrServerNotFound) {
		r.Left = true
		return nil
	}
	if err != nil {
		return err
	}
	r.State = s.State
	r.Left = !slices.Contains(s.Clients, client)
	r.Others = slices.DeleteFunc(s.Clients, func(p int) bool { return p == client })
	return nil
}
