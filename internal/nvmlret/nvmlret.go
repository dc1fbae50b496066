// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package nvmlret

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Error returns nil for nvml.SUCCESS, and else an error that names the call and the device (which may be empty) and
// wraps the code, so that errors.Is(err, nvml.ERROR_GPU_IS_LOST) works.
func Error(op, device string, r nvml.Return) error {
	switch {
	case r == nvml.SUCCESS:
		return nil
	case device == "":
		return fmt.Errorf("nvml %s: %w", op, r)
	}
	return fmt.Errorf("nvml %s of %s: %w", op, device, r)
}
