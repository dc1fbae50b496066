// SPDX-License-Identifier: Apache-2.0

package mps_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/sharing"
)

func TestClientEnvironment(t *testing.T) {
	gpus := []mps.GPU{mpstest.H200(0).GPU}
	env := mps.ClientEnvironment{
		PipeDirectory: "/tmp/nvidia-mps", DaemonPipeDirectory: "/tmp/nvidia-mps", GPUs: gpus, VisibleDevices: []string{gpus[0].UUID},
		ActiveThreadPercentage: 33.3334, PinnedMemLimits: []mps.DeviceLimit{{Device: "0", Limit: 1536 * sharing.MiB}},
	}
	got, err := env.Environ([]string{"HOME=/home/u", mps.EnvThreads + "=100", "CUDA_MPS_SM_PARTITION=GPU-1/x", mps.EnvVisibleDevices + "=1,2"})
	want := []string{"HOME=/home/u", "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps", "CUDA_VISIBLE_DEVICES=" + gpus[0].UUID, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=33.3334",
		"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1536M"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
}

func TestClientEnvironmentTraps(t *testing.T) {
	one := []mps.GPU{mpstest.H200(0).GPU}
	trap := []mps.DeviceLimit{{Device: "0", Limit: 2 * gib}, {Device: "1", Limit: 4 * gib}}
	for name, c := range map[string]struct {
		env  mps.ClientEnvironment
		want string
	}{
		"invisible GPU":  {mps.ClientEnvironment{GPUs: one, PinnedMemLimits: trap}, "PinnedMemLimits[1].Device: the client does not see device \"1\""},
		"GPUs not known": {mps.ClientEnvironment{PinnedMemLimits: trap[:1]}, "GPUs: memory limits cannot be checked"},
		"chosen away":    {mps.ClientEnvironment{GPUs: []mps.GPU{one[0], mpstest.H200(1).GPU}, VisibleDevices: []string{one[0].UUID}, PinnedMemLimits: trap}, "PinnedMemLimits[1].Device"},
		"twice":          {mps.ClientEnvironment{GPUs: one, PinnedMemLimits: []mps.DeviceLimit{{Device: "0", Limit: gib}, {Device: one[0].UUID, Limit: gib}}}, "last entry would win"},
		"above the GPU":  {mps.ClientEnvironment{GPUs: one, PinnedMemLimits: []mps.DeviceLimit{{Device: "0", Limit: 999 * gib}}}, "larger than the GPU"},
		"another daemon": {mps.ClientEnvironment{DaemonPipeDirectory: "/run/mps"}, "would run without MPS"},
		"ordinals":       {mps.ClientEnvironment{VisibleDevices: []string{"0"}}, "renumbered"},
		"relative":       {mps.ClientEnvironment{PipeDirectory: "mps"}, "relative"},
		"newline":        {mps.ClientEnvironment{PipeDirectory: "/tmp/a\nLD_PRELOAD=x"}, "control characters"},
		"long":           {mps.ClientEnvironment{PipeDirectory: "/" + strings.Repeat("x", 100)}, "too long for a socket"},
		"percentage":     {mps.ClientEnvironment{ActiveThreadPercentage: 100.1}, "out of range"},
		"limit":          {mps.ClientEnvironment{GPUs: one, PinnedMemLimits: []mps.DeviceLimit{{Device: "0", Limit: -1}}}, "is no limit"},
	} {
		env, err := c.env.Build()
		if !errors.Is(err, mps.ErrInvalid) || !strings.Contains(err.Error(), c.want) || env != nil {
			t.Errorf("%s: %v, %v", name, env, err)
		}
	}
}
