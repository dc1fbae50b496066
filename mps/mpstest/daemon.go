// SPDX-License-Identifier: Apache-2.0

package mpstest

import (
	"cmp"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
)

// firstPID is the first process ID that the fake invents; Linux assigns none above 4194304.
const firstPID = 5_000_000

// Options describe the fake. The zero value is driver 580 on one H200.
type Options struct {
	PipeDirectory string // "" = mps.DefaultPipe
	GPUs          []GPU  // nil = one H200
	// ServerProcesses makes the servers of a daemon from Program child processes of their own. They outlive a daemon that
	// ends without a quit command.
	ServerProcesses bool
}

// GPU is a device of the fake.
type GPU struct {
	mps.GPU
	Name, PCI string
}

// H200 returns a device like the H200 of the recordings.
func H200(ordinal int) GPU {
	return GPU{
		GPU: mps.GPU{Ordinal: ordinal, UUID: fmt.Sprintf("GPU-403fa439-6cf5-29e7-1299-e82c5fcfc6f%x", (0xa+ordinal)%16),
			Memory: 143155 * sharing.MiB, SMs: 132},
		Name: "NVIDIA H200", PCI: fmt.Sprintf("0000:00.%02x.00", 6+ordinal),
	}
}

// Daemon is a fake control daemon. It is safe for concurrent use.
type Daemon struct {
	opt Options

	mu       sync.Mutex
	gone     bool
	servers  []*server
	nextPID  int
	settings settings
	faults   []*Fault
	commands []string
	spawn    func() (*process, error) // starts a server's process; nil: there is none
}

// process is a server's.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended
}

type server struct {
	pid int
	uid int
	settings
	process *process // nil: there is none
	clients []*client
	nextCtx int
}

type client struct {
	Process
	id int
}

// New returns a running fake.
func New(opts Options) *Daemon {
	opts.PipeDirectory = cmp.Or(opts.PipeDirectory, mps.DefaultPipe)
	if opts.GPUs == nil {
		opts.GPUs = []GPU{H200(0)}
	}
	d := &Daemon{opt: opts, nextPID: firstPID, settings: settings{100, map[string]string{}}}
	return d
}

// GPUs returns the devices in the form of mps.Options.
func (d *Daemon) GPUs() []mps.GPU {
	var out []mps.GPU
	for _, g := range d.opt.GPUs {
		out = append(out, g.GPU)
	}
	return out
}

// Commands returns every command that arrived, in order.
func (d *Daemon) Commands() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.commands)
}

// Stop ends the fake as if its process had died.
func (d *Daemon) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = true
}

// running reports whether the fake still runs: a quit command and Stop end it.
func (d *Daemon) running() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.gone
}

// pipeOf returns the pipe directory that an environment chooses.
func pipeOf(environ []string) string {
	return cmp.Or(lookup(environ, mps.EnvPipeDirectory), mps.DefaultPipe)
}

// lookup returns the last value of a variable in an environment, "" if there is none.
func lookup(environ []string, key string) (last string) {
	for _, kv := range environ {
		if value, ok := strings.CutPrefix(kv, key+"="); ok {
			last = value
		}
	}
	return last
}

// refresh forgets the servers whose processes have ended.
func (d *Daemon) refresh() {
	for _, s := range slices.Clone(d.servers) {
		if s.process == nil {
			continue
		}
		select {
		case <-s.process.done:
			d.removeServer(s)
		default:
		}
	}
}

func (d *Daemon) startServer(uid int) *server {
	s := &server{pid: d.nextPID, uid: uid, settings: settings{d.settings.pct, maps.Clone(d.settings.limits)}}
	d.nextPID++
	if d.spawn != nil {
		p, err := d.spawn()
		if err == nil {
			s.process, s.pid = p, p.cmd.Process.Pid
		}
	}
	d.servers = append(d.servers, s)
	return s
}

func (d *Daemon) server(pid string) *server {
	for _, s := range d.servers {
		if fmt.Sprint(s.pid) == pid {
			return s
		}
	}
	return nil
}

func (d *Daemon) removeServer(s *server) {
	if s.process != nil {
		_ = s.process.cmd.Process.Kill() // perhaps it has ended
		<-s.process.done
	}
	d.servers = slices.DeleteFunc(d.servers, func(x *server) bool { return x == s })
}

// settings holds the limits that the daemon sets for the next server, and a server for its clients to come.
type settings struct {
	pct    float64
	limits map[string]string // by device
}

// Process is a CUDA process.
type Process struct {
	PID     int // 0 = the fake invents one
	UID     int
	Env     []string // its environment, "KEY=VALUE"
	Devices []int    // ordinals it enumerates; nil = all that are served
}

// Inject adds a fault. Faults are tried in the order of injection; the first one that matches happens.
func (d *Daemon) Inject(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &f)
}

// Clear removes all faults.
func (d *Daemon) Clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = nil
}

func (d *Daemon) takeFault(op string) *Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, f := range d.faults {
		if !strings.HasPrefix(op, f.Command) {
			continue
		}
		hit := *f
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				d.faults = append(d.faults[:i:i], d.faults[i+1:]...)
			}
		}
		return &hit
	}
	return nil
}
