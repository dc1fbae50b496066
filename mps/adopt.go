// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"context"
	"fmt"
)

// Adopt takes over the control daemon that answers in the pipe directory, for example after the program that started it
// has been restarted: it notes the daemon's servers, so that Stop ends all of them. Adopt itself changes nothing. The
// client's Snapshot has its servers and clients. The error is ErrNoDaemon if none answers, or if the process of the one
// that answers cannot be found, because it runs in another container. Options that only concern the start are ignored.
func Adopt(ctx context.Context, opts DaemonOptions) (*Daemon, error) {
	c, err := opts.newClient()
	if err != nil {
		return nil, err
	}
	servers, err := c.servers(ctx)
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
