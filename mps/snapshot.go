// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"context"
	"errors"

	"github.com/cotenant/cotenant/sharing"
)

// Snapshot lists a daemon's servers and clients at one time.
type Snapshot struct {
	Daemon  sharing.Answer // whether a daemon answers; Unknown if it is silent
	Servers []ServerSnapshot
}

// ServerSnapshot is one server in a Snapshot.
type ServerSnapshot struct {
	Server int
	// State is ACTIVE; INITIALIZING, while it accepts no clients; FAULT, after a fatal GPU fault; or UNKNOWN if the server
	// did not answer.
	State   string
	Clients []int
}

// Snapshot reads all servers, their states and their clients. A missing or silent daemon is reported in
// Snapshot.Daemon; a refusal or an answer that cannot be understood is an error.
func (c *Client) Snapshot(ctx context.Context) (Snapshot, error) {
	var s Snapshot
	servers, err := c.servers(ctx)
	switch {
	case errors.Is(err, ErrNoDaemon):
		s.Daemon = sharing.AnswerNo
		return s, nil
	case errors.Is(err, ErrTimeout):
		return s, nil
	case err != nil:
		return s, err
	}
	s.Daemon = sharing.AnswerYes
	for _, pid := range servers {
		srv := ServerSnapshot{Server: pid, State: stateUnknown}
		state, err := c.serverStatus(ctx, pid)
		if err == nil {
			if srv.Clients, err = c.clients(ctx, pid); err == nil {
				srv.State = state
			}
		}
		switch {
		case errors.Is(err, errServerNotFound): // it ended in between
			continue
		case err != nil && !errors.Is(err, ErrTimeout):
			return s, err
		}
		s.Servers = append(s.Servers, srv)
	}
	return s, nil
}
