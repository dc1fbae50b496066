// SPDX-License-Identifier: Apache-2.0

package mpstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/cotenant/cotenant/mps"
)

// Roles that envRole gives a test binary.
const (
	envRole    = "COTENANT_MPSTEST_ROLE"
	envOptions = "COTENANT_MPSTEST_OPTIONS"

	roleControl = "control"
	roleClient  = "client"
	roleServer  = "server"

	// endAtOnce saves the second that a race-enabled binary waits when it exits.
	endAtOnce = "GORACE=atexit_sleep_ms=0"

	serverProgram = "nvidia-cuda-mps-server"
	pidFile       = "nvidia-cuda-mps-control.pid"
)

// serverLife bounds the life of a server process that nobody ends.
const serverLife = 2 * time.Minute

// ClientRole in its environment makes a test binary that calls ControlProgram play a CUDA process: it connects, prints
// its View as one line of JSON (with the PID that the daemon knows), and ends at the end of its standard input or on
// SIGTERM.
const ClientRole = envRole + "=" + roleClient

// ControlProgram makes the running test binary act as nvidia-cuda-mps-control or as a CUDA process, if
// Program or ClientRole started it so. Call it first in TestMain, and exit with the code if ok:
//
//	if code, ok := mpstest.ControlProgram(); ok {
//		os.Exit(code)
//	}
func ControlProgram() (code int, ok bool) {
	switch os.Getenv(envRole) {
	case roleControl:
		return control(os.Args[1:], os.Stdin, os.Stdout), true
	case roleClient:
		return clientProcess(os.Stdin, os.Stdout), true
	case roleServer:
		time.Sleep(serverLife)
		return 0, true
	}
	return 0, false
}

// Program returns the running test binary as a control program with these options, passed as JSON; PipeDirectory comes
// from the environment, as for the real one. TestMain must call ControlProgram.
func Program(opts Options) (*mps.Program, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(opts)
	if err != nil {
		return nil, err
	}
	return &mps.Program{Path: exe, Env: []string{envRole + "=" + roleControl, envOptions + "=" + string(b), endAtOnce}},
		nil
}

// Socket is an mps.Runner that talks to a stand-in daemon process over its socket, without running a program for each
// command, which is slow. The daemon is the one of the invocation's pipe directory.
var Socket mps.Runner = socketRunner{}

type socketRunner struct{}

func (socketRunner) Run(ctx context.Context, in mps.Invocation) (out mps.Output, err error) {
	conn, err := net.Dial("unix", socket(pipeOf(in.Env)))
	if err != nil {
		return mps.Output{Stdout: noDaemon, ExitCode: 1}, nil
	}
	defer conn.Close() // the answer is complete, or lost
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	err = rpc.NewClient(conn).Call("Daemon.Control", in, &out)
	if ctx.Err() != nil {
		return mps.Output{}, context.Cause(ctx)
	}
	if err != nil {
		return mps.Output{}, fmt.Errorf("%w: %w", mps.ErrCrashed, err)
	}
	return out, nil
}

func pipeDir() string { return pipeOf(os.Environ()) }

// socket returns the path by which stand-ins talk to one another, over net/rpc.
func socket(dir string) string { return filepath.Join(dir, "control") }

// control plays nvidia-cuda-mps-control.
func control(args []string, stdin io.Reader, stdout io.Writer) int {
	if slices.Contains(args, "-f") {
		return runDaemon(stdout)
	}
	in := mps.Invocation{Args: args, Env: []string{mps.EnvPipeDirectory + "=" + pipeDir()}}
	if len(args) == 0 {
		text, err := io.ReadAll(stdin)
		if err != nil {
			return say(stdout, err.Error(), 3)
		}
		in.Stdin = string(text)
	}
	out, err := Socket.Run(context.Background(), in)
	if err != nil {
		return say(stdout, "Lost the connection to the MPS control daemon: "+err.Error(), 2)
	}
	return say(stdout, out.Stdout, out.ExitCode)
}

func say(w io.Writer, text string, code int) int {
	if _, err := io.WriteString(w, text); err != nil {
		return 4
	}
	return code
}

// runDaemon plays -f.
func runDaemon(stdout io.Writer) int {
	l, err := listen(pipeDir())
	if err == nil {
		err = os.WriteFile(filepath.Join(pipeDir(), pidFile), []byte(strconv.Itoa(os.Getpid())), 0o666)
	}
	if err != nil {
		return say(stdout, "An instance of this daemon is already running: "+err.Error()+"\n", 1)
	}
	var o Options
	if err := json.Unmarshal([]byte(os.Getenv(envOptions)), &o); err != nil {
		return say(stdout, err.Error(), 1)
	}
	o.PipeDirectory = pipeDir()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	d := New(o)
	if o.ServerProcesses {
		d.spawn = spawnServer
	}
	if err := serve(ctx, l, d); err != nil {
		return 1
	}
	return 0
}

// listen makes the socket, in place of one that a killed daemon left.
func listen(dir string) (net.Listener, error) {
	if err := lock(dir); err != nil {
		return nil, err
	}
	if err := os.Remove(socket(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", socket(dir))
}

// spawnServer starts a process that acts as a server.
func spawnServer() (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: &exec.Cmd{Path: exe, Args: []string{serverProgram}, Env: append(os.Environ(), envRole+"="+
		roleServer)}, done: make(chan struct{})}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // killed
	}()
	return p, nil
}

// serve answers stand-ins until ctx ends or the daemon gets a quit command.
func serve(ctx context.Context, l net.Listener, d *Daemon) error {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { l.Close() }) // ends Accept; its error is distinguished from others below
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			c := &connection{ctx: ctx, d: d}
			s := rpc.NewServer()
			if err := s.RegisterName("Daemon", c); err != nil {
				return
			}
			s.ServeConn(conn)
			d.leave(c.pid)
			if c.last { // not before its answer has been read
				cancel()
			}
		})
	}
}

// connection serves one stand-in. Calls follow one another.
type connection struct {
	ctx context.Context
	d   *Daemon
	pid int // of the client that is connected
	// last is set by the command that ends the daemon.
	last bool
}

func (c *connection) Control(in mps.Invocation, out *mps.Output) (err error) {
	before := c.d.running()
	*out, err = c.d.Run(c.ctx, in)
	c.last = c.last || before && !c.d.running()
	return err
}

func (c *connection) Connect(p Process, v *View) (err error) {
	if *v, err = c.d.Connect(p); v.Client {
		c.pid = p.PID
	}
	return err
}

// clientProcess plays a CUDA process. Without a daemon it runs without MPS, as in life.
func clientProcess(stdin io.Reader, stdout io.Writer) int {
	pid, g := os.Getpid(), H200(0)
	view := View{PID: pid, SMs: g.SMs, Total: g.Memory, Allocatable: g.Memory}
	if daemon, err := rpc.Dial("unix", socket(pipeDir())); err == nil {
		defer daemon.Close()
		p := Process{PID: pid, UID: os.Getuid(), Env: os.Environ()}
		if err := daemon.Call("Daemon.Connect", p, &view); err != nil {
			return say(stdout, err.Error()+"\n", 7)
		}
	}
	if err := json.NewEncoder(stdout).Encode(view); err != nil {
		return 4
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	go func() { // ends with the process at the latest
		defer stop()
		_, _ = io.Copy(io.Discard, stdin)
	}()
	<-ctx.Done()
	return 0
}
