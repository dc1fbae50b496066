// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package telemetry_test

import (
	"testing"
	"time"
)

func cpuTime(tb testing.TB) time.Duration {
	tb.Skip("processor time is read on unix only")
	return 0
}
