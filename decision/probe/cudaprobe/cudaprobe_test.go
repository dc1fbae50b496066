// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package cudaprobe_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
	"github.com/cotenant/cotenant/internal/must"
)

// early is the error of Open before Child was called.
var early error

func TestMain(m *testing.M) {
	_, early = cudaprobe.Open(context.Background(), cudaprobe.Options{})
	if code, is := cudaprobe.Child(); is {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// A program that does not call Child would start itself for ever.
func TestOpenNeedsChild(t *testing.T) {
	if early == nil || !strings.Contains(early.Error(), "cudaprobe.Child") {
		t.Errorf("err = %v", early)
	}
}

func TestOpenSaysWhyThereIsNoDriver(t *testing.T) {
	if out, err := exec.Command("ldconfig", "-p").Output(); err != nil || strings.Contains(string(out), "libcuda.so.1") {
		t.Skip("there is a driver, or nobody knows")
	}
	_, err := cudaprobe.Open(t.Context(), cudaprobe.Options{})
	if err == nil || !strings.Contains(err.Error(), "libcuda.so.1") || !strings.Contains(err.Error(), "install") {
		t.Errorf("err = %v", err)
	}
}

// TestKernels: the PTX was made of the source next to it, needs no more than Volta, and has the kernels.
func TestKernels(t *testing.T) {
	ptx := must.Get(os.ReadFile("kernels/kernels.ptx"))(t)
	source := must.Get(os.ReadFile("kernels/kernels.cu"))(t)
	for _, want := range []string{fmt.Sprintf("sha256 of kernels.cu: %x\n", sha256.Sum256(source)), "\n.version 6.0\n", "\n.target sm_70\n",
		".entry spin(", ".entry compute(", ".entry stream("} {
		if !strings.Contains(string(ptx), want) {
			t.Errorf("kernels.ptx does not hold %q; run kernels/build.sh", want)
		}
	}
}
