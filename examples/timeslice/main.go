// Command timeslice shows what tenants of a time-sliced GPU do to each other:
// latency against the number of tenants, as a table, JSON and SVG, and which
// tenant is hurt and why. It simulates, and needs no GPU.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
