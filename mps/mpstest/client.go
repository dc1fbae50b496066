// SPDX-License-Identifier: Apache-2.0

package mpstest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
)

// CUDA's errors for a process that cannot become a client.
var (
	// over the limit of contexts, as driver 580 says it
	errUnavailable = errors.New("cudaErrorDevicesUnavailable (46)")
	errWaiting     = errors.New("mpstest: waits for the clients of another user to finish") // users take turns under v2
)

// View holds a CUDA process's view of the GPU after its first call.
type View struct {
	PID    int  // as the daemon knows it, for Client.Verify; not the PID of the process that plays it
	Client bool // false: it runs without MPS, unnoticed
	Server int
	// SMs, Total and Allocatable describe its first device.
	SMs         int
	Total       sharing.Bytes
	Allocatable sharing.Bytes
}

// maxContexts is the most contexts on one device, as driver 580 has it.
const maxContexts = 48

// Connect plays the first CUDA call of a process: it becomes a client of the user's server, which starts if there is
// none. With another pipe directory it becomes no client and has the whole GPU, without an error, as in reality.
func (d *Daemon) Connect(p Process) (View, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refresh()
	if p.PID == 0 {
		p.PID = d.nextPID
		d.nextPID++
	}
	g := d.opt.GPUs[0]
	v := View{PID: p.PID, SMs: g.SMs, Total: g.Memory, Allocatable: g.Memory - 563*sharing.MiB}
	if d.gone || pipeOf(p.Env) != d.opt.PipeDirectory {
		return v, nil
	}
	s, err := d.serverFor(p.UID)
	if err != nil {
		return v, err
	}
	if len(s.clients) >= maxContexts {
		return v, errUnavailable
	}
	s.nextCtx++
	s.clients = append(s.clients, &client{Process: p, id: s.nextCtx})
	v.Client, v.Server = true, s.pid
	d.limit(&v, s, p.Env)
	return v, nil
}

func (d *Daemon) serverFor(uid int) (*server, error) {
	if len(d.servers) == 0 {
		return d.startServer(uid), nil
	}
	s := d.servers[0]
	if s.uid != uid {
		return nil, errWaiting
	}
	return s, nil
}

// limit applies the server's and the process's own limits to the view, as measured on an H200.
func (d *Daemon) limit(v *View, s *server, env []string) {
	g := d.opt.GPUs[0]
	pct := s.pct
	if own, err := strconv.ParseFloat(lookup(env, mps.EnvThreads), 64); err == nil && own > 0 {
		pct = min(pct, own)
	}
	if n, err := mps.SMs(g.SMs, pct); err == nil {
		v.SMs = n
	}
	limit := sharing.Bytes(0)
	tighten := func(text string) {
		if b, err := mps.ParseMemLimit(text); err == nil && (limit == 0 || b < limit) {
			limit = b
		}
	}
	tighten(s.limits["0"])
	tighten(s.limits[g.UUID])
	if text := lookup(env, mps.EnvPinnedMemLimit); text != "" {
		for _, entry := range strings.Split(text, ",") {
			dev, value, _ := strings.Cut(entry, "=")
			i := slices.IndexFunc(d.opt.GPUs,
				func(g GPU) bool { return fmt.Sprint(g.Ordinal) == dev || strings.HasPrefix(g.UUID, dev) })
			if i < 0 { // one entry for an invisible GPU drops every limit
				limit = 0
				break
			}
			if i == 0 {
				tighten(value)
			}
		}
	}
	if limit > 0 {
		v.Allocatable = max(0, limit-768*sharing.MiB)
	}
}

func (c *client) sees(g GPU) bool { return c.Devices == nil || slices.Contains(c.Devices, g.Ordinal) }

// leave plays the end of a client's process.
func (d *Daemon) leave(pid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.servers {
		s.clients = slices.DeleteFunc(s.clients, func(c *client) bool { return c.PID == pid })
	}
}
