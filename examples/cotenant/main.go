// Cotenant is the operators' program: it decides how workloads share GPUs, reads
// a cluster, probes, measures, watches and changes, each as a command of its own.
//
//	go run ./examples/cotenant help
//	go run ./examples/cotenant COMMAND -h
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
	"github.com/cotenant/cotenant/examples/internal/page"
)

// The exit codes of every command.
const (
	exitDone        = 0
	exitNo          = 1 // the answer is no
	exitBadInput    = 2
	exitInvalid     = 3 // measured, but not valid
	exitCannot      = 5 // disk, driver or network failed
	exitInterrupted = 130
)

// stdio holds the standard streams of a command.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// command is one word after the program's name.
type command struct {
	name, summary string
	// run executes the command. Its error decides the exit code: nil is 0, an
	// exitError has its own, a cancelled ctx is 130, and anything else is 5.
	run func(ctx context.Context, args []string, std stdio) error
}

// commands lists every command in the order of the help.
func commands() []command {
	return []command{
		{"decide", "how the workloads of a fleet share its GPUs, and the configuration", runDecide},
		{"advise", "look at a cluster again and again, and say what it would do by now", runAdvise},
		{"diff", "show what would change of what runs, or where a new workload would land", runDiff},
		{"discover", "make a fleet file of what a cluster or machine says of itself", runDiscover},
		{"bench", "put load on LLM endpoints and compare runs", runBench},
		{"capacity", "find the fewest GPUs for a trace of requests and its objectives", runCapacity},
		{"guard", "watch who disturbs whom on shared GPUs, and act on evidence", runGuard},
		{"canary", "put a replica beside others, test all, promote it or take it back", runCanary},
		{"mig", "plan how GPUs are partitioned with MIG, and do it", runMig},
		{"probe", "measure what a GPU does when processes share it", runProbe},
		{"measure", "run workloads alone and side by side, predicted first", runMeasure},
		{"rows", "check measured rows before they are given to others", runRows},
		{"monitor", "show what GPUs do and who holds them idle", runMonitor},
		{"version", "print the version and what this build can reach", runVersion},
	}
}

// exitError is an error with the exit code that it causes; without err the command has said why.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.err) }

func (e *exitError) Unwrap() error { return e.err }

// badInput marks an error as the caller's: exit code 2.
func badInput(err error) error { return exitWith(exitBadInput, err) }

// exitWith gives an error its exit code, unless it has one or is nil.
func exitWith(code int, err error) error {
	if err == nil || errors.As(err, new(*exitError)) {
		return err
	}
	return &exitError{code, err}
}

func main() {
	if code, is := cudaprobe.Child(); is {
		os.Exit(code)
	}
	page.OutlivePipe()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// run dispatches to the command that args names and returns its exit code.
func run(ctx context.Context, args []string, std stdio) (code int) {
	first := append(args, "help")[0]
	if first == "help" && len(args) > 1 {
		first, args = args[1], []string{args[1], "-h"}
	}
	name, do := "cotenant", func(context.Context, []string, stdio) error {
		return badInput(fmt.Errorf("%q is no command; see cotenant help", first))
	}
	if slices.Contains([]string{"help", "-h", "-help", "--help"}, first) {
		do = func(_ context.Context, _ []string, std stdio) error { return printText(std.out, help()) }
	}
	for _, c := range commands() {
		if c.name == first {
			name, do, args = "cotenant "+first, c.run, args[1:]
		}
	}
	var done func(*int)
	std.out, done = page.Check(name, std.out, std.err)
	defer done(&code)
	err := do(ctx, args, std)
	var coded *exitError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitDone
	case errors.As(err, &coded):
		code = coded.code
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		code = exitInterrupted
	default:
		code = exitCannot
	}
	if coded == nil || coded.err != nil {
		page.Fail(name, std.err, err)
	}
	return code
}

func help() string {
	text := "Decides which workloads share a GPU, does it, and measures what it does.\n\n" +
		"usage: cotenant COMMAND [flags]\n\n"
	for _, c := range commands() {
		text += fmt.Sprintf("  %-10s %s\n", c.name, c.summary)
	}
	return text + `
cotenant COMMAND -h tells the flags of each.

exit: 0 done; 1 the answer is no; 2 bad input; 3 measured but not valid; 5 could
not be done (disk, driver, network); 130 interrupted
`
}

// flagSet returns the empty flags of a command; parse reads them.
func flagSet(name string) *flag.FlagSet {
	fl := flag.NewFlagSet(name, flag.ContinueOnError)
	fl.SetOutput(io.Discard) // exit reports the error, once
	return fl
}

// parse reads the flags of a command, at most maxArgs arguments after them. Asked for help it prints usage and the
// flags to standard output and returns flag.ErrHelp.
func parse(fl *flag.FlagSet, args []string, usage string, maxArgs int, std stdio) error {
	err := fl.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(std.out, usage, "\nflags:\n", page.Flags(fl))
		return err
	case err != nil:
		return badInput(fmt.Errorf("%w (see -h)", err))
	case maxArgs > 0 && len(fl.Arg(maxArgs)) > 1 && strings.HasPrefix(fl.Arg(maxArgs), "-"):
		return badInput(fmt.Errorf("flag %s stands after %s; flags come first", fl.Arg(maxArgs), fl.Arg(maxArgs-1)))
	case fl.NArg() > maxArgs:
		return badInput(fmt.Errorf("unexpected argument %q (see -h)", fl.Arg(maxArgs)))
	}
	return nil
}

// isPlugin reports whether kubectl started the program as its plugin: under the name kubectl-cotenant.
func isPlugin() bool {
	return strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == "kubectl-cotenant"
}

// terminal returns whether an output is one, and its width, which $COLUMNS overrides; 0 where it cannot be told.
func terminal(w io.Writer) (is bool, columns int) {
	if file, ok := w.(interface{ Fd() uintptr }); ok {
		if is = term.IsTerminal(int(file.Fd())); is {
			columns, _, _ = term.GetSize(int(file.Fd()))
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		columns = n
	}
	return is, columns
}
