package mpsv3

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mps"
)

// DefaultPipeRoot is the pipe directory of a daemon that root runs when none is
// set; that of other users is mps.DefaultPipe.
const DefaultPipeRoot = "/run/nvidia-mps"

// Dialect makes mps.Start and mps.StartDetached start a daemon that speaks v3.
// NewClient(d.Client()) then talks to it.
type Dialect struct {
	ConfigFile string // absolute path of the TOML to apply, see Setup; "" = none
}

// Launch implements mps.Dialect.
func (d Dialect) Launch(opts mps.DaemonOptions) (args, environ []string, err error) {
	var l problem.List
	if opts.StaticPartitioning {
		l.Addf("StaticPartitioning", "leave it out: v3 needs no such mode", "it belongs to v2")
	}
	if d.ConfigFile != "" && !strings.HasPrefix(d.ConfigFile, "/") {
		l.Addf("ConfigFile", "use an absolute path", "%q is relative", problem.Clip(d.ConfigFile))
	}
	// -q means "quit" under v3 and "ready devices" under v2, so it never stands
	// beside these.
	args = []string{"-p", "3"}
	if opts.MultiUser {
		args = append(args, "-m")
	}
	if d.ConfigFile != "" {
		args = append(args, "-a", d.ConfigFile)
	}
	return args, []string{mps.EnvProtocol + "=3"}, invalid(&l)
}

// Servers implements mps.Dialect.
func (Dialect) Servers(ctx context.Context, c *mps.Client) (pids []int, err error) {
	servers, err := NewClient(c).Servers(ctx)
	for _, s := range servers {
		if s.PID != 0 {
			pids = append(pids, s.PID)
		}
	}
	return pids, err
}

// Clients implements mps.Dialect.
func (Dialect) Clients(ctx context.Context, c *mps.Client) (pids []int, err error) {
	clients, err := NewClient(c).Clients(ctx, "")
	for _, p := range clients {
		pids = append(pids, p.PID)
	}
	return pids, err
}

// Quit implements mps.Dialect.
func (Dialect) Quit(ctx context.Context, c *mps.Client) (graceful bool, err error) {
	err = NewClient(c).Quit(ctx)
	return err == nil, err
}

// ClientEnvironment describes the environment of a client of a namespace. The
// pipe directories in it are the daemon's own; the client's becomes
// <pipe>/<server>/<namespace>.
type ClientEnvironment struct {
	mps.ClientEnvironment
	Server, Namespace string
}

// Build checks the environment as mps.ClientEnvironment does and returns it as
// "KEY=VALUE". Besides, a percentage of the client's own is refused where its
// namespace's overrides it.
func (e ClientEnvironment) Build() ([]string, error) {
	set, err := e.ClientEnvironment.Build()
	return e.join(set, err)
}

// Environ returns base with Build's variables in their place, see
// mps.ClientEnvironment.Environ.
func (e ClientEnvironment) Environ(base []string) ([]string, error) {
	set, err := e.ClientEnvironment.Environ(base)
	return e.join(set, err)
}

// join puts the namespace's pipe directory in place of the daemon's.
func (e ClientEnvironment) join(environ []string, err error) ([]string, error) {
	var l problem.List
	if e.Server != "" {
		checkName(&l, "Server", e.Server)
	}
	if e.Namespace != "" {
		checkName(&l, "Namespace", e.Namespace)
		if e.Server == "" {
			l.Addf("Namespace", "name its Server", "a namespace belongs to a server")
		}
		if e.ActiveThreadPercentage != 0 {
			l.Addf("ActiveThreadPercentage", "set it on the namespace (Client.SetNamespace)",
				"the namespace's percentage overrides the client's, so this one would do nothing")
		}
	}
	if err := errors.Join(err, invalid(&l)); err != nil {
		return nil, err
	}
	for i, kv := range environ {
		if dir, ok := strings.CutPrefix(kv, mps.EnvPipeDirectory+"="); ok {
			environ[i] = mps.EnvPipeDirectory + "=" + path.Join(dir, e.Server, e.Namespace)
		}
	}
	return environ, nil
}
