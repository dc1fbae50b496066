// SPDX-License-Identifier: Apache-2.0

// Cotenant is the operators' program: it decides how workloads share GPUs, reads
// a cluster, probes, measures, watches and changes, each as a command of its own.
//
//	go run ./examples/cotenant help
//	go run ./examples/cotenant COMMAND -h
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
	"github.com/cotenant/cotenant/examples/internal/page"
)

// command is one word after the program's name.
type command struct {
	name, summary string
	// run executes the command. Its error decides the exit code: nil is 0, an
	// exitError has its own, a cancelled ctx is 130, and anything else is 5.
	run func(ctx context.Context, fl *call, std stdio) error
}

// commands lists every command in the order of the help.
func commands() []command {
	return []command{
		{"plan", "show what a cluster should change, what is idle, and what blocks further savings", runPlan},
		{"decide", "decide how the workloads of a fleet share its GPUs, and write the configuration", runDecide},
		{"diff", "show what would change in a cluster, or where a new workload would run", runDiff},
		{"discover", "read a cluster or a machine into a fleet file", runDiscover},
		{"bench", "load-test LLM endpoints and compare runs", runBench},
		{"guard", "watch shared GPUs for tenants that slow others down, and act on evidence", runGuard},
		{"canary", "answer Argo Rollouts or Flagger whether a new replica may share its GPU", runCanary},
		{"mig", "plan MIG partitions of GPUs, and apply them", runMig},
		{"probe", "measure how a GPU behaves when processes share it", runProbe},
		{"predict", "predict the performance of workloads on a shared GPU from isolated measurements", runPredict},
		{"copies", "predict whether more copies of a server on one GPU pay off", runCopies},
		{"measure", "run workloads isolated and co-located, and compare with the prediction", runMeasure},
		{"monitor", "show what GPUs do and which are held idle", runMonitor},
		{"gpus", "list the mechanisms that each GPU supports, and the drivers they need", runGPUs},
		{"isolation", "list the isolation between neighbours under each mechanism", runIsolation},
		{"cost", "compute what sharing nodes saves; -report writes a calculator page", runCost},
		{"version", "print the version and the features of this build", runVersion},
	}
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
func run(ctx context.Context, args []string, std stdio) int {
	first := append(args, "help")[0]
	if strings.TrimLeft(first, "-") == "version" && strings.HasPrefix(first, "-") {
		args, first = append([]string{"version"}, args[1:]...), "version"
	}
	if first == "help" && len(args) > 1 {
		first, args = args[1], []string{args[1], "-h"}
	}
	name, do := "cotenant", func(context.Context, *call, stdio) error {
		return badInput(fmt.Errorf("%q is no command; see cotenant help", first))
	}
	if slices.Contains([]string{"help", "-h", "-help", "--help"}, first) {
		do = func(_ context.Context, _ *call, std stdio) error { return printText(std.out, help()) }
	}
	for _, c := range commands() {
		if c.name == first {
			name, do, args = "cotenant "+first, c.run, args[1:]
		}
	}
	return page.Run(ctx, name, std.out, std.err, func(out io.Writer) error {
		errs, _ := page.Check(name, std.err, io.Discard)
		return do(ctx, newCall(first, args), stdio{std.in, out, errs})
	})
}

func help() string {
	text := "Decides which workloads share a GPU, writes the configuration, and measures the effect.\n\n" +
		"usage: cotenant COMMAND [flags]\n\n"
	for _, c := range commands() {
		text += fmt.Sprintf("  %-10s %s\n", c.name, c.summary)
	}
	return text + `
cotenant COMMAND -h lists the flags of a command.

exit codes: 0 done; 1 the answer is no; 2 bad input; 3 measured, but not valid;
5 failed (disk, driver, network); 130 interrupted
`
}

// version is set by the release's linker flags; otherwise the module's is shown.
var version string

func runVersion(_ context.Context, fl *call, std stdio) error {
	if err := fl.parse(0, std); err != nil {
		return err
	}
	v := version
	if info, ok := debug.ReadBuildInfo(); ok && v == "" {
		if v = info.Main.Version; v == "(devel)" || v == "" { // built in a checkout
			v = "devel"
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					v += "-" + s.Value[:min(12, len(s.Value))]
				}
			}
		}
	}
	_, err := fmt.Fprintf(std.out, "cotenant %s %s/%s %s, %s\n", v, runtime.GOOS, runtime.GOARCH, runtime.Version(),
		build())
	return err
}
