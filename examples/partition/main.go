// Command partition plans how GPUs are partitioned with MIG, and does it. It
// works on a simulated GPU unless told otherwise and needs no GPU.
//
//	partition check [-gpu NAME] [-json] FILE
//	partition pack -gpu NAME -demand 1g.10gb=40,3g.40gb=12 [-json] [-svg FILE]
//	partition plan -gpu NAME [-have LAYOUT] -want COUNTS [-allow-busy] [-json]
//	partition apply (as plan) [-dry-run] [-real] [-device UUID] [-json]
//	partition generate -gpu NAME[,NAME] [-balanced]
//	partition enumerate -gpu NAME [-profiles a,b,c] [-json]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/mig"
)

const usage = `partition plans how GPUs are partitioned with MIG, and does it.

  partition check [-gpu NAME] [-json] FILE       does a mig-parted configuration fit?
  partition pack -gpu NAME -demand COUNTS        on how few GPUs does a demand fit?
  partition plan -gpu NAME -want COUNTS          what has to change? (-have: what is there)
  partition apply -gpu NAME -want COUNTS         change it (simulated GPU, or -real)
  partition generate -gpu NAME[,NAME]            write a mig-parted configuration
  partition enumerate -gpu NAME                  count the layouts

COUNTS are like 1g.10gb=40,3g.40gb=12 (=1 may be left out), layouts like
3g.40gb@4,1g.10gb@0!busy. FILE may be - for standard input, and may hold
Kubernetes manifests. "partition COMMAND -h" lists the flags.

exit: 0 done; 1 the answer is no, or a device refused; 2 bad input

GPUs:

`

// Exit codes.
const (
	exitOK         = 0
	exitInfeasible = 1 // the answer is no, or a device refused
	exitBadInput   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// errInfeasible ends a command whose answer, already printed, is no.
var errInfeasible = errors.New("infeasible")

// deviceError is a failure of a device, not of the input.
type deviceError struct{ err error }

func (e *deviceError) Error() string { return e.err.Error() }
func (e *deviceError) Unwrap() error { return e.err }

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	stdout, done := page.Check("partition", stdout, stderr)
	defer done(&code)
	commands := map[string]func(context.Context, []string, *console) error{
		"check": check, "pack": pack, "plan": plan, "apply": apply, "generate": generate, "enumerate": enumerate,
	}
	c := &console{in: stdin, out: stdout, err: stderr}
	if len(args) == 0 || args[0] == "-h" || args[0] == "-help" || args[0] == "--help" || args[0] == "help" {
		text := usage
		for _, m := range mig.Models() {
			text += fmt.Sprintf("  %-36s %s\n", m.Key, strings.Join(m.Products, ", "))
		}
		if len(args) == 0 {
			fmt.Fprint(stderr, page.Fold(text))
			return exitBadInput
		}
		fmt.Fprint(stdout, page.Fold(text))
		return exitOK
	}
	command := commands[args[0]]
	if command == nil {
		fmt.Fprintf(stderr, "partition: unknown command %q (known: check, pack, plan, apply, generate, enumerate)\n", args[0])
		return exitBadInput
	}
	err := command(ctx, args[1:], c)
	var dev *deviceError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errInfeasible):
		return exitInfeasible
	case errors.As(err, &dev):
		fmt.Fprintln(stderr, "partition:", err)
		return exitInfeasible
	}
	fmt.Fprintln(stderr, "partition:", err)
	return exitBadInput
}

type console struct {
	in       io.Reader
	out, err io.Writer
}

// flags returns a flag set that leaves errors to parse.
func (c *console) flags(name, what string) *flags {
	fs := &flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	fs.SetOutput(io.Discard)
	fs.help = func() {
		fmt.Fprint(c.out, page.Fold(fmt.Sprintf("partition %s: %s\n", name, what)), page.Flags(fs.FlagSet))
	}
	return fs
}

type flags struct {
	*flag.FlagSet
	help func()
}

// parse reads flags that may stand before and after at most atMost arguments.
// For -h it prints help on standard output and returns flag.ErrHelp.
func (fs *flags) parse(args []string, atMost int) ([]string, error) {
	var rest []string
	for {
		if err := fs.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				fs.help()
				return nil, err
			}
			return nil, fmt.Errorf("%s: %w (-h lists the flags)", fs.Name(), err)
		}
		if fs.NArg() == 0 {
			break
		}
		rest = append(rest, fs.Arg(0))
		args = fs.Args()[1:]
	}
	if len(rest) > atMost {
		return nil, fmt.Errorf("%s: unexpected argument %q", fs.Name(), rest[atMost])
	}
	return rest, nil
}

// lookup finds the GPU of -gpu.
func lookup(name string) (*mig.Model, error) {
	if name == "" {
		return nil, errors.New("name the GPU, for example -gpu A100-SXM4-80GB (partition -h lists them)")
	}
	return mig.Lookup(name)
}
