package mps

import (
	"context"
	"fmt"
	"strconv"
)

// Adopt takes over the control daemon that answers in the pipe directory, for example after the program that
// started it has been restarted: its servers are known from then on, and Stop ends all of them. It changes nothing.
// What runs there is in the client's Snapshot, the limits in its Limits. No daemon is ErrNoDaemon, also where one
// answers whose process cannot be found: it runs in another container. Of opts it takes what says which daemon, and
// not how to start one.
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

// Limits holds the limits that a daemon sets for its clients.
type Limits struct {
	// Of servers to come. Priority is of clients to come.
	Percentage float64
	Memory     []DeviceLimit // by the names that they were set by
	Priority   Priority
	Servers    []ServerLimits
}

// ServerLimits holds the limits that a server sets for clients to come.
type ServerLimits struct {
	Server     int
	Percentage float64
	Memory     []DeviceLimit
}

// Limits reads all limits that are in force. Memory limits are asked for each device of Options.GPUs, or where that
// is not given of the daemon's own list, by ordinal and by UUID, since the daemon keeps them apart.
func (c *Client) Limits(ctx context.Context) (Limits, error) {
	var l Limits
	devices, err := c.deviceNames(ctx)
	if err != nil {
		return l, err
	}
	if l.Priority, err = c.DefaultClientPriority(ctx); err != nil {
		return l, err
	}
	servers, err := c.Servers(ctx)
	if err != nil {
		return l, err
	}
	for _, server := range append([]int{0}, servers...) {
		s := ServerLimits{Server: server}
		if s.Percentage, err = c.ActiveThreadPercentage(ctx, server); err != nil {
			return l, err
		}
		for _, device := range devices {
			cell, err := c.PinnedMemLimit(ctx, server, device)
			if err != nil {
				return l, err
			}
			if v, ok := cell.Get(); ok {
				s.Memory = append(s.Memory, DeviceLimit{Device: device, Limit: v})
			}
		}
		if server == 0 {
			l.Percentage, l.Memory = s.Percentage, s.Memory
		} else {
			l.Servers = append(l.Servers, s)
		}
	}
	return l, nil
}

// deviceNames are the names that limits can have been set by.
func (c *Client) deviceNames(ctx context.Context) ([]string, error) {
	gpus := c.gpus
	if gpus == nil {
		lists, err := c.Devices(ctx, 0)
		if err != nil {
			return nil, err
		}
		for _, list := range lists {
			if list.Server == 0 {
				for _, d := range list.Devices {
					gpus = append(gpus, GPU{Ordinal: d.Ordinal, UUID: d.UUID})
				}
			}
		}
	}
	var names []string
	for _, g := range gpus {
		names = append(names, strconv.Itoa(g.Ordinal))
		if g.UUID != "" {
			names = append(names, g.UUID)
		}
	}
	return names, nil
}
