// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Membership reports whether a process is a client of a daemon, according to the daemon's own lists, and its limits.
type Membership struct {
	PID    int
	Client sharing.Answer // also No before the process's first CUDA call
	Reason string         // explanation, with a remedy if it is no client

	Server      int    // process ID of its server, 0 if it is no client
	ServerState string // as ServerSnapshot.State; empty if it is no client
	Devices     []int  // ordinals of the devices it enumerates

	// ServerPercentage and ServerLimits are the server's settings for new clients; a client keeps the settings from the
	// time when it connected.
	ServerPercentage sharing.Cell[float64]
	ServerLimits     []DeviceLimit
	// Environment holds the process's own settings, which can only tighten the server's limits. EnvironmentKnown is No if
	// its environment has no setting of MPS and Unknown if it could not be read.
	Environment      ClientEnvironment
	EnvironmentKnown sharing.Answer
	// EffectivePercentage is the smaller of the two percentages. It is unknown if either is.
	EffectivePercentage sharing.Cell[float64]
	Warnings            []string // e.g. the server's state, or a trap in the process's environment
}

// VerifyOptions are options of Verify. The zero value suits the node of the process.
type VerifyOptions struct {
	// Environ returns the environment of a process; nil = read it from /proc.
	Environ func(pid int) ([]string, error)
	// Wait is the longest wait for the process to become a client, which happens at its first CUDA call. 0 checks once.
	Wait time.Duration
}

// Verify checks the daemon's lists for the process. pid is a process ID of the daemon's PID namespace. A process that
// is no MPS client is not an error but Membership.Client = No; Membership.Require turns it into one.
func (c *Client) Verify(ctx context.Context, pid int, opts VerifyOptions) (m Membership, err error) {
	if _, err := pidWord("pid", pid); err != nil {
		return m, err
	}
	wait := 10 * time.Millisecond
	for deadline := time.Now().Add(opts.Wait); ; wait = min(2*wait, 100*time.Millisecond) {
		m, err = c.verify(ctx, pid, opts)
		left := time.Until(deadline)
		if err != nil || m.Client == sharing.AnswerYes || left <= 0 {
			return m, err
		}
		select {
		case <-ctx.Done():
			return m, c.opError(fmt.Sprintf("verify %d", pid), context.Cause(ctx))
		case <-time.After(min(wait, left)):
		}
	}
}

// Require returns nil if the process is a client, otherwise an error that wraps ErrNotClient.
func (m Membership) Require() error {
	if m.Client == sharing.AnswerYes {
		return nil
	}
	return fmt.Errorf("%w: process %d: %s", ErrNotClient, m.PID, m.Reason)
}

func (c *Client) verify(ctx context.Context, pid int, opts VerifyOptions) (Membership, error) {
	m := Membership{PID: pid}
	if err := c.findClient(ctx, &m); err != nil {
		return m, err
	}
	m.readEnvironment(opts, c.pipe)
	if m.Client != sharing.AnswerYes {
		return m, nil
	}
	var err error
	if m.ServerState, err = c.serverStatus(ctx, m.Server); err != nil {
		return m, err
	}
	if m.ServerState != stateActive {
		m.Warnings = append(m.Warnings, fmt.Sprintf("its server %d is %s", m.Server, m.ServerState))
	}
	err = c.readLimits(ctx, &m)
	return m, err
}

// findClient looks for the process in the client list of each server.
func (c *Client) findClient(ctx context.Context, m *Membership) error {
	servers, err := c.servers(ctx)
	if err != nil {
		return err
	}
	m.Client = sharing.AnswerNo
	m.Reason = "the daemon has no server, so no client"
	for _, s := range servers {
		pids, err := c.clients(ctx, s)
		if errors.Is(err, errServerNotFound) {
			continue // it ended in between
		}
		if err != nil {
			m.Client = sharing.AnswerUnknown
			return err
		}
		m.Reason = "no server of the daemon lists it: it runs without MPS, or has made no CUDA call yet"
		if slices.Contains(pids, m.PID) {
			m.Client, m.Server = sharing.AnswerYes, s
			m.Reason = fmt.Sprintf("server %d lists it", s)
			break
		}
	}
	return nil
}

func (c *Client) readLimits(ctx context.Context, m *Membership) error {
	pct, err := c.activeThreadPercentage(ctx, m.Server)
	if err != nil {
		return err
	}
	m.ServerPercentage = sharing.KnownCell(pct, sourceDaemon)
	if m.EnvironmentKnown != sharing.AnswerUnknown {
		eff := pct
		if p := m.Environment.ActiveThreadPercentage; p > 0 {
			eff = min(eff, p)
		}
		m.EffectivePercentage = sharing.KnownCell(eff, sourceDaemon)
	}
	devices, err := ask(ctx, c, parseDeviceClients, "get_device_client_list", m.Server)
	if err != nil {
		return err
	}
	for _, d := range devices {
		if !slices.Contains(d.clients, m.PID) {
			continue
		}
		m.Devices = append(m.Devices, d.ordinal)
		name := fmt.Sprint(d.ordinal)
		limit, err := read(ctx, c, parseOptionalLimit, "get_device_pinned_mem_limit", fmt.Sprint(m.Server), name)
		if err != nil {
			return err
		}
		if v, ok := limit.Get(); ok {
			m.ServerLimits = append(m.ServerLimits, DeviceLimit{Device: name, Limit: v})
		}
	}
	return nil
}

// readEnvironment adds explanations from the process's own environment.
func (m *Membership) readEnvironment(opts VerifyOptions, pipe string) {
	readEnviron := opts.Environ
	if readEnviron == nil {
		readEnviron = procEnviron
	}
	environ, err := readEnviron(m.PID)
	if errors.Is(err, ErrClientNotFound) {
		if m.Client == sharing.AnswerNo {
			m.Reason = "there is no such process"
		}
		return
	}
	if err != nil {
		return
	}
	env, err := parseClientEnvironment(environ)
	if err != nil {
		m.Warnings = append(m.Warnings, "its environment: "+err.Error())
		return
	}
	m.Environment = env
	set := env.PipeDirectory != "" || env.ActiveThreadPercentage != 0 || len(env.PinnedMemLimits) > 0
	m.EnvironmentKnown = sharing.AnswerOf(set)
	own := cmp.Or(env.PipeDirectory, DefaultPipe)
	if m.Client == sharing.AnswerNo && own != pipe {
		m.Reason = fmt.Sprintf("its pipe directory is %s and the daemon's is %s: it runs without MPS and without limits "+
			"(restart it with %s=%s)",
			problem.Clip(own), pipe, EnvPipeDirectory, pipe)
	}
}
