// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package nvmlret

import (
	"errors"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func TestError(t *testing.T) {
	if err := Error("Init", "", nvml.SUCCESS); err != nil {
		t.Errorf("success is %v", err)
	}
	err := Error("GetPowerUsage", "GPU-1", nvml.ERROR_GPU_IS_LOST)
	if !errors.Is(err, nvml.ERROR_GPU_IS_LOST) || err.Error() != "nvml GetPowerUsage of GPU-1: ERROR_GPU_IS_LOST" {
		t.Errorf("err = %v", err)
	}
	if err := Error("Init", "", nvml.ERROR_UNKNOWN); err.Error() != "nvml Init: ERROR_UNKNOWN" {
		t.Errorf("err = %v", err)
	}
}
