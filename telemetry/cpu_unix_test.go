// SPDX-License-Identifier: Apache-2.0

//go:build unix

package telemetry_test

import (
	"syscall"
	"testing"
	"time"
)

// cpuTime is the processor time of this process so far.
func cpuTime(tb testing.TB) time.Duration {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
