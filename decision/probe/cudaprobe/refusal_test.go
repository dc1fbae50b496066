// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package cudaprobe_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

// driver builds the driver library of testdata and returns its folder.
func driver(t *testing.T, flags ...string) string {
	t.Helper()
	folder := t.TempDir()
	out, err := exec.Command("cc", append(flags, "-shared", "-fPIC", "-o", filepath.Join(folder, "libcuda.so.1"), "testdata/driver.c")...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("there is no C compiler")
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return folder
}

// TestRefusals opens GPUs that cannot be probed, behind a fake driver library: each is refused with the fault and a
// remedy.
func TestRefusals(t *testing.T) {
	current, old := driver(t), driver(t, "-DOLD")
	for _, c := range []struct {
		name, library, setting, value string
		want                          string
	}{
		{"no device", current, "FAKE_INIT", "100", "CUDA_VISIBLE_DEVICES"},
		{"a driver for CUDA 10.2", current, "FAKE_VERSION", "10020", "made for CUDA 10.2; driver 450"},
		{"a driver without a function", old, "", "", "no cuGraphInstantiate_v2; driver 450"},
		{"a driver older than the PTX", current, "FAKE_LOAD", "222", "the kernels need driver 450"},
		{"prohibited mode", current, "FAKE_MODE", "2", "prohibits contexts"},
		{"another process in exclusive mode", current, "FAKE_CONTEXT", "46", "another process holds the GPU"},
		{"no memory for a context", current, "FAKE_CONTEXT", "2", "no memory of the GPU is left; stop what holds it"},
		{"Pascal", current, "FAKE_MAJOR", "6", "older than Volta"},
		{"an instance", current, "FAKE_NAME", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "does not change MIG"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("LD_LIBRARY_PATH", c.library)
			if c.setting != "" {
				t.Setenv(c.setting, c.value)
			}
			_, err := cudaprobe.Open(t.Context(), cudaprobe.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

// TestFailedKernel: a context in which a kernel failed cannot be used any more,
// so the next measurement has a new one.
func TestFailedKernel(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", driver(t))
	t.Setenv("FAKE_FAIL_AFTER", "400") // more than tuning waits for
	site := must.Get(cudaprobe.Open(t.Context(), cudaprobe.Options{}))(t)
	defer func() { must.Do(t, site.Close()) }()
	steps := probe.Task{Kind: probe.KindCompute, Kernel: time.Microsecond, For: time.Second}
	if _, err := site.Run(t.Context(), sharing.MechanismTimeSlicing, steps); err == nil || !strings.Contains(err.Error(), "cuStreamSynchronize") {
		t.Fatalf("a kernel that fails: %v", err)
	}
	steps.For = 0
	if r, err := site.Run(t.Context(), sharing.MechanismTimeSlicing, steps); err != nil || len(r[0].Steps) != 1 {
		t.Errorf("after a kernel that failed: %+v, %v", r, err)
	}
}
