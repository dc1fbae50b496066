package mpstest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cotenant/cotenant/mps"
)

// Roles that envRole gives a test binary.
const (
	envRole    = "COTENANT_MPSTEST_ROLE"
	envOptions = "COTENANT_MPSTEST_OPTIONS"
	envFault   = "COTENANT_MPSTEST_FAULT"

	roleControl = "control"
	roleClient  = "client"
)

// ClientRole in its environment makes a test binary that calls ControlProgram
// play a CUDA process. ClientCommand sets it.
const ClientRole = envRole + "=" + roleClient

// ControlProgram makes the running test binary stand in for
// nvidia-cuda-mps-control or for a CUDA process, if Program or ClientCommand
// started it so. Call it first in TestMain, and exit with the code if ok. play
// may change what a daemon plays by the arguments that it is started with:
//
//	if code, ok := mpstest.ControlProgram(); ok {
//		os.Exit(code)
//	}
func ControlProgram(play ...func(args []string, opts *Options)) (code int, ok bool) {
	switch os.Getenv(envRole) {
	case roleControl:
		return control(os.Args[1:], os.Stdin, os.Stdout, play), true
	case roleClient:
		return cudaProcess(os.Stdin, os.Stdout), true
	}
	return 0, false
}

// ProgramOptions are what a stand-in program plays. The fields of Options that
// JSON can carry apply; PipeDirectory and LogDirectory come from the
// environment, as in life.
type ProgramOptions struct {
	Partitions, PartitioningOn, BarePartitionID bool
	MaxContexts                                 int
	KillEffect                                  KillEffect
	StartDelay                                  time.Duration
	GPUs                                        []GPU
}

// Program returns the running test binary as a control program that plays o.
// Its TestMain must call ControlProgram.
func Program(o ProgramOptions) (*mps.Program, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return &mps.Program{Path: exe, Env: []string{envRole + "=" + roleControl, envOptions + "=" + string(b)}}, nil
}

// WithFault returns a copy of a stand-in program whose every run has the fault.
func WithFault(p *mps.Program, f Fault) (*mps.Program, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	q := *p
	q.Env = append(slices.Clone(p.Env), envFault+"="+string(b))
	return &q, nil
}

// ClientCommand returns a command that plays a CUDA process with the given
// environment on top of this process's: it connects, prints its View as one
// line of JSON, and answers each line on its standard input with "ok", or with
// what its CUDA call would fail with. It ends in order at the end of its input
// or on SIGTERM.
func ClientCommand(ctx context.Context, env []string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(append(os.Environ(), env...), ClientRole)
	return cmd, nil
}

// Socket is an mps.Runner that asks a stand-in daemon process over its socket,
// without running a program for each command, which takes long on a slow
// machine. The daemon is the one of the invocation's pipe directory.
type Socket struct{}

// Run plays one run of the control program.
func (Socket) Run(ctx context.Context, in mps.Invocation) (mps.Output, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket(pipeOf(in.Env)))
	if err != nil {
		return mps.Output{Stdout: noDaemon, ExitCode: 1}, nil
	}
	defer conn.Close() // the answer is complete, or lost
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	r, err := ask(conn, bufio.NewReader(conn), request{Control: &in})
	if ctx.Err() != nil {
		return mps.Output{}, context.Cause(ctx)
	}
	if err != nil {
		return mps.Output{}, fmt.Errorf("%w: %w", mps.ErrCrashed, err)
	}
	return r.Output, nil
}

// request and reply are what stand-ins say to one another over the socket
// "control" in the pipe directory, one line of JSON each.
type request struct {
	Control *mps.Invocation `json:",omitempty"`
	Connect *Process        `json:",omitempty"`
	Work    int             `json:",omitempty"` // PID
	Bye     int             `json:",omitempty"` // PID
}

type reply struct {
	Output mps.Output
	View   View
	Error  string `json:",omitempty"`
}

func pipeDir() string { return pipeOf(os.Environ()) }

func socket(dir string) string { return filepath.Join(dir, "control") }

// control plays nvidia-cuda-mps-control.
func control(args []string, stdin io.Reader, stdout io.Writer, play []func([]string, *Options)) int {
	if text := os.Getenv(envFault); text != "" && !daemonMode(args) {
		var f Fault
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			return say(stdout, err.Error(), 3)
		}
		if code, done := playFault(f, stdout); done {
			return code
		}
	}
	if daemonMode(args) {
		return startDaemon(args, stdout, play)
	}
	in := mps.Invocation{Args: args, Env: []string{mps.EnvPipeDirectory + "=" + pipeDir()}}
	if slices.Equal(args, []string{"-h"}) {
		return say(stdout, New(options()).help(), 0)
	}
	if len(args) == 0 {
		text, err := io.ReadAll(stdin)
		if err != nil {
			return say(stdout, err.Error(), 3)
		}
		in.Stdin = string(text)
	}
	conn, err := net.Dial("unix", socket(pipeDir()))
	if err != nil {
		return say(stdout, noDaemon, 1)
	}
	defer conn.Close() // the process ends here
	r, err := ask(conn, bufio.NewReader(conn), request{Control: &in})
	if err != nil {
		return say(stdout, "Lost the connection to the MPS control daemon: "+err.Error(), 2)
	}
	return say(stdout, r.Output.Stdout, r.Output.ExitCode)
}

func say(w io.Writer, text string, code int) int {
	if _, err := io.WriteString(w, text); err != nil {
		return 4
	}
	return code
}

func daemonMode(args []string) bool {
	return slices.Contains(args, "-f") || slices.Contains(args, "-d")
}

// playFault plays faults of the program itself, with real means.
func playFault(f Fault, stdout io.Writer) (code int, done bool) {
	switch f.Kind {
	case Hang:
		time.Sleep(time.Hour) // the caller's time-out kills it
		return 5, true
	case Slow:
		time.Sleep(f.Delay)
	case Garbage:
		return say(stdout, garbage, 0), true
	case Flood:
		return say(stdout, flood(), 0), true
	case Death:
		say(stdout, "10", 0)
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			return 6, true
		}
		time.Sleep(time.Hour)
	}
	return 0, false
}

func options() Options {
	var p ProgramOptions
	if err := json.Unmarshal([]byte(os.Getenv(envOptions)), &p); err != nil {
		p = ProgramOptions{}
	}
	return Options{PipeDirectory: pipeDir(), LogDirectory: os.Getenv(mps.EnvLogDirectory), GPUs: p.GPUs,
		Partitions: p.Partitions, PartitioningOn: p.PartitioningOn, BarePartitionID: p.BarePartitionID,
		MaxContexts: p.MaxContexts, KillEffect: p.KillEffect, StartDelay: p.StartDelay}
}

// startDaemon plays -f, and -d by running itself with -f in the background.
func startDaemon(args []string, stdout io.Writer, play []func([]string, *Options)) int {
	if i := slices.Index(args, "-d"); i >= 0 {
		child := exec.Command(os.Args[0], append([]string{"-f"}, slices.Delete(slices.Clone(args), i, i+1)...)...)
		if err := child.Start(); err != nil {
			return say(stdout, err.Error(), 1)
		}
		for range 500 {
			if c, err := net.Dial("unix", socket(pipeDir())); err == nil {
				return say(stdout, "", closeCode(c.Close()))
			}
			time.Sleep(10 * time.Millisecond)
		}
		return 1
	}
	l, err := net.Listen("unix", socket(pipeDir()))
	if err != nil {
		return say(stdout, "An instance of this daemon is already running: "+err.Error()+"\n", 1)
	}
	o := options()
	o.PartitioningOn = o.PartitioningOn || slices.Contains(args, "-S")
	for _, f := range play {
		f(args, &o)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return closeCode(serve(ctx, l, New(o)))
}

func closeCode(err error) int {
	if err != nil {
		return 1
	}
	return 0
}

// serve answers stand-ins until ctx ends or the daemon is told to quit.
func serve(ctx context.Context, l net.Listener, d *Daemon) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { l.Close() }) // ends Accept, whose error is told from others below
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
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			answer(ctx, conn, d)
			if !d.Running() {
				cancel()
			}
		})
	}
}

// answer serves one connection. A CUDA process that disconnects without a word
// was killed.
func answer(ctx context.Context, conn net.Conn, d *Daemon) {
	defer conn.Close() // nothing is written after an error
	pid := 0
	defer func() {
		if pid != 0 {
			d.Kill(pid)
		}
	}()
	in, enc := bufio.NewReader(conn), json.NewEncoder(conn)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var q request
		var r reply
		if err := json.Unmarshal(line, &q); err != nil {
			return
		}
		switch {
		case q.Control != nil:
			r.Output, err = d.Run(ctx, *q.Control)
		case q.Connect != nil:
			if r.View, err = d.Connect(*q.Connect); r.View.Client {
				pid = q.Connect.PID
			}
		case q.Work != 0:
			err = d.Work(q.Work)
		case q.Bye != 0:
			d.Exit(q.Bye)
			pid = 0
		}
		if err != nil {
			r.Error = err.Error()
		}
		if err := enc.Encode(r); err != nil || q.Control != nil {
			return
		}
	}
}

func ask(conn net.Conn, in *bufio.Reader, q request) (reply, error) {
	var r reply
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return r, err
	}
	line, err := in.ReadBytes('\n')
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(line, &r)
}

// cudaProcess plays a CUDA process.
func cudaProcess(stdin io.Reader, stdout io.Writer) int {
	pid := os.Getpid()
	var in *bufio.Reader
	conn, err := net.Dial("unix", socket(pipeDir()))
	g := H200(0)
	r := reply{View: View{PID: pid, SMs: g.SMs, Total: g.Memory, Allocatable: g.Memory}}
	if err == nil { // otherwise it runs without MPS and says nothing
		in = bufio.NewReader(conn)
		r, err = ask(conn, in, request{Connect: &Process{PID: pid, UID: os.Getuid(), Env: os.Environ(), Command: os.Args[0]}})
		if err == nil && r.Error != "" {
			err = errors.New(r.Error)
		}
		if err != nil {
			return say(stdout, err.Error()+"\n", 7)
		}
	}
	if err := json.NewEncoder(stdout).Encode(r.View); err != nil {
		return 4
	}
	work := make(chan string)
	go func() { // ends with the process at the latest
		defer close(work)
		for s := bufio.NewScanner(stdin); s.Scan(); {
			work <- strings.TrimSpace(s.Text())
		}
	}()
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	for {
		select {
		case <-term:
			return bye(conn, in, pid)
		case _, more := <-work:
			if !more {
				return bye(conn, in, pid)
			}
			text := "ok"
			if conn != nil {
				if r, err := ask(conn, in, request{Work: pid}); err != nil {
					text = "CUDA_ERROR_MPS_CONNECTION_FAILED"
				} else if r.Error != "" {
					text = r.Error
				}
			}
			if _, err := fmt.Fprintln(stdout, text); err != nil {
				return 4
			}
		}
	}
}

func bye(conn net.Conn, in *bufio.Reader, pid int) int {
	if conn == nil {
		return 0
	}
	if _, err := ask(conn, in, request{Bye: pid}); err != nil {
		return 0 // the daemon went first
	}
	return closeCode(conn.Close())
}
