// SPDX-License-Identifier: Apache-2.0

//go:build linux && nightly

package main

import (
	"testing"
	"time"
)

func TestTenThousandPodsInsideTheLimit(t *testing.T) {
	if peak := insideLimit(t, 10_000, 300, 2*time.Minute); peak > shippedLimit(t) {
		t.Errorf("%.0f MiB", peak)
	}
}
