// Monitor shows what GPUs do: a table as it goes, CSV, and at the end who was
// idle, what that cost, and what the usual reaping policies would give back.
//
// Without flags it takes a simulated node of four GPUs through a day; with
// -real it reads NVML until Ctrl-C.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
