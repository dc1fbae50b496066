// Calibrate measures in under a minute how long a time slice of this machine's GPU
// is, what a switch costs and what clients of MPS do to one another, and writes
// the predictor for that GPU and driver. Without -real it does so on a simulated
// GPU.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
	"github.com/cotenant/cotenant/examples/internal/page"
)

func main() {
	if code, is := cudaprobe.Child(); is {
		os.Exit(code)
	}
	page.OutlivePipe()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := app{stdout: os.Stdout, stderr: os.Stderr, open: openMachine}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
