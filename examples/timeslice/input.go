package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cotenant/cotenant/timeslice"
)

// maxTenants bounds the tenants, for the closed loop's exact form and the table.
const maxTenants = 16

// readTenants reads the file at path, or stdin for "-"; without a path it
// returns the built-in tenants.
func readTenants(path string, stdin io.Reader) ([]timeslice.Tenant, error) {
	if path == "" {
		return builtIn, nil
	}
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // only read from
		stdin = f
	}
	data, err := io.ReadAll(io.LimitReader(stdin, 2<<20)) // more than ParseTenants takes
	if err != nil {
		return nil, err
	}
	tenants, err := timeslice.ParseTenants(data)
	if err == nil && len(tenants) > maxTenants {
		err = fmt.Errorf("tenants: must be 1 to %d, are %d", maxTenants, len(tenants))
	}
	return tenants, err
}

// builtIn are two chat models that decode at 1 and 4 clients, a classifier
// that is asked 20 times a second, and a training job that never pauses.
var builtIn = []timeslice.Tenant{
	{Name: "chat-1b", Step: timeslice.Constant(1700 * time.Microsecond), Think: timeslice.Constant(100 * time.Microsecond),
		Steps: 64, Pause: timeslice.Exponential(8 * time.Millisecond)},
	{Name: "chat-8b", Step: timeslice.Constant(6500 * time.Microsecond), Think: timeslice.Constant(350 * time.Microsecond),
		Steps: 64, Pause: timeslice.Exponential(15 * time.Millisecond)},
	{Name: "classifier", Step: timeslice.Dist{Mean: 900 * time.Microsecond, CV: 0.2},
		Think: timeslice.Constant(50 * time.Microsecond), Steps: 4, RatePerSecond: 20},
	{Name: "training", Step: timeslice.Constant(120 * time.Millisecond)},
}
