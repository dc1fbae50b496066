// Command mps drives CUDA MPS: start a control daemon, limit its clients, run commands as clients, prove that they
// are clients, and stop. Without -real it plays all of it on a fake daemon and needs no GPU.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/sharing"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

const usage = `usage: mps [flags] [command]

commands (status if none is given):
  status    daemon, servers, clients and limits
  start     start a control daemon in the background
  limit     set and read back limits: -percent, -memory, -device, -server
  run -- CMD ...   run a command as an MPS client, and say whether it is one
  verify [PID ...] prove membership; without PIDs of every client
  terminate PID ...  end clients' work, so that killing them harms nobody
  stop      end the daemon; clients have -grace to leave

It never changes compute mode, clocks, persistence, MIG or compute policy.

exit: 0 done; 1 a process is no client; 2 bad input; 5 could not be done; 130 interrupted;
run: as the command

flags:
`

// errUsage marks bad input, exit status 2.
var errUsage = errors.New("bad input")

// config holds the flags.
type config struct {
	real, json     bool
	pipe, log      string
	control        string
	timeout, grace time.Duration
	wait           time.Duration
	percent        float64
	memory         sharing.Bytes
	device         string
	server         int
	limits         string
	args           []string
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer
	child          io.Writer  // of a command that runs
	runner         mps.Runner // talks to a real daemon; nil = its program
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &config{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr}
	return c.run(args)
}

func (c *config) run(args []string) int {
	// A command that runs writes to stderr too. Files take that as it is.
	if _, ok := c.stderr.(*os.File); !ok {
		c.stderr, _ = page.Check("mps", c.stderr, io.Discard)
	}
	c.child = c.stdout
	return page.Run(c.ctx, "mps", c.stdout, c.stderr, func(stdout io.Writer) error {
		c.stdout = stdout
		command, err := c.parse(args)
		if err == nil {
			err = c.dispatch(command)
		}
		switch {
		case errors.Is(err, errUsage), errors.Is(err, mps.ErrInvalid):
			return page.BadInput(err)
		case errors.Is(err, mps.ErrNotClient):
			return page.ExitWith(page.ExitNo, err)
		case err != nil && c.ctx.Err() != nil:
			return page.ExitWith(page.ExitInterrupted, err)
		}
		return err
	})
}

func (c *config) parse(args []string) (command string, err error) {
	fs := page.FlagSet("mps")
	fs.BoolVar(&c.real, "real", false, "use this machine's nvidia-cuda-mps-control instead of the fake")
	fs.BoolVar(&c.json, "json", false, "print JSON")
	fs.StringVar(&c.pipe, "pipe", "", "pipe directory (default "+mps.DefaultPipe+")")
	fs.StringVar(&c.log, "log", "", "log directory (default "+mps.DefaultLog+")")
	fs.StringVar(&c.control, "control", "", "path of the control program (default: on PATH)")
	fs.DurationVar(&c.timeout, "timeout", 10*time.Second, "for each command to the daemon")
	fs.DurationVar(&c.grace, "grace", 5*time.Second, "stop: time for clients to leave")
	fs.DurationVar(&c.wait, "wait", 3*time.Minute, "run: time for a command to become a client")
	fs.Float64Var(&c.percent, "percent", 0, "active thread percentage")
	fs.TextVar(&c.memory, "memory", sharing.Bytes(0), "pinned memory limit of each client, for example 8GiB")
	fs.StringVar(&c.device, "device", "0", "device of -memory: ordinal or UUID")
	fs.IntVar(&c.server, "server", 0, "limit: process ID of a server (default: servers to come)")
	fs.StringVar(&c.limits, "limits", "", "run: the client's own memory limits, for example 0=2G")
	if err := page.Parse(fs, args, usage, math.MaxInt, c.stdout); err != nil {
		return "", err
	}
	// Flags may also follow the command.
	rest := fs.Args()
	if len(rest) == 0 {
		rest = []string{"status"}
	}
	command = rest[0]
	if err := page.Parse(fs, rest[1:], usage, math.MaxInt, c.stdout); err != nil {
		return "", err
	}
	c.args = fs.Args()
	if len(c.args) > 0 && !slices.Contains([]string{"run", "verify", "terminate"}, command) {
		return "", fmt.Errorf("%w: %s takes no argument %q (see -h)", errUsage, command, c.args[0])
	}
	if p := c.percent; command != "limit" && !(p >= 0 && p <= 100) { // limit has its own words
		return "", fmt.Errorf("%w: -percent: %v is not between 0 and 100", errUsage, p)
	}
	return command, nil
}

func (c *config) dispatch(command string) error {
	commands := map[string]func(*mps.Client) error{
		"status": c.status, "start": c.start, "limit": c.limit, "run": c.runClient,
		"verify": c.verify, "terminate": c.terminate, "stop": c.stop,
	}
	f, ok := commands[command]
	if !ok {
		return fmt.Errorf("%w: unknown command %q (see -h)", errUsage, command)
	}
	if !c.real && !c.json {
		fmt.Fprintln(c.stdout, "simulated: a fake daemon, no GPU; -real uses this machine's")
	}
	cl, err := c.client()
	if err != nil {
		return err
	}
	return f(cl)
}

// client returns a client of the real daemon, or of a fake with two clients.
func (c *config) client() (*mps.Client, error) {
	o := mps.Options{PipeDirectory: c.pipe, Timeout: c.timeout, Runner: c.runner}
	if c.real {
		o.Runner = cmp.Or(o.Runner, mps.Runner(c.program()))
		return mps.NewClient(o)
	}
	fake := mpstest.New(mpstest.Options{PipeDirectory: c.pipe})
	o.Runner, o.GPUs = fake, fake.GPUs()
	cl, err := mps.NewClient(o)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"./chat", "./embed"} {
		if _, err := fake.Connect(mpstest.Process{Env: []string{mps.EnvPipeDirectory + "=" + cl.PipeDirectory()},
			Command: name}); err != nil {
			return nil, err
		}
	}
	return cl, nil
}

func (c *config) program() *mps.Program { return &mps.Program{Path: c.control} }

// print writes v as JSON, or calls table for people.
func (c *config) print(v any, table func(io.Writer)) error {
	if !c.json {
		table(c.stdout)
		return nil
	}
	return page.JSON(c.stdout, v)
}
