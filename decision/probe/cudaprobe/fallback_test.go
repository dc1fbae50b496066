// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !cgo

package cudaprobe_test

import (
	"testing"

	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
)

func TestOpenSaysWhyThereIsNoDriver(t *testing.T) {
	if _, err := cudaprobe.Open(t.Context(), cudaprobe.Options{}); err == nil || len(err.Error()) < 50 {
		t.Errorf("err = %v", err)
	}
	if _, is := cudaprobe.Child(); is {
		t.Error("a process of the probe where there are none")
	}
}
