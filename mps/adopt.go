package mps

import (
	"context"
	"fmt"
)

// Adopt takes over the control daemon that answers in the pipe directory, for example after the program that started it
// has been restarted: its servers are known from then on, and Stop ends all of them. It changes nothing. What runs
// there is in the client's Snapshot. No daemon is ErrNoDaemon, also where one answers whose process cannot be found: it
// runs in another container. Of opts it takes what says which daemon, and not how to start one.
func Adopt(ctx context.Context, opts DaemonOptions) (*Daemon, error) {
	c, err := opts.newClient()
	if err != nil {
		return nil, err
	}
	servers, err := c.Servers(ctx)
	if err != nil {
		return nil, err
	}
	path, err := opts.Program.lookup()
	if err != nil {
		return nil, c.opError("adopt", err)
	}
	d := newDaemon(c, path)
	var ok bool
	if d.process, ok = daemonOf(c.pipe, d.program); !ok {
		return nil, c.opError("adopt", fmt.Errorf("%w from a process of this machine: %s names none", ErrNoDaemon, pidFile))
	}
	d.look(servers...)
	go d.watch()
	return d, nil
}
