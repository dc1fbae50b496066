// Command measure finds out how workloads get on together on one GPU: it runs
// each of them alone, predicts what they will see side by side, runs them side
// by side under time-slicing, under MPS and under MPS with percentages and
// memory limits, and says how good the prediction was and what to decide.
//
// Without -real it does so on a simulated GPU. With -input it decides a fleet and
// simulates the GPUs that the decision fills, under what was recommended and what
// was not.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
