// Guard watches tenants that share GPUs, compares what they see with what was
// predicted, and proposes what to do about it: keep, notice, cap, move, split
// or reap, each with its evidence and the effect to expect. It acts only with
// -apply.
//
// Without flags it takes a simulated cluster of 200 GPUs through a day, once
// guarded and once left alone.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
