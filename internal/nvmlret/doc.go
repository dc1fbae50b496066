// SPDX-License-Identifier: Apache-2.0

// Package nvmlret turns NVML's return codes into errors, in one place: a nvml.SUCCESS that is stored in an error is
// not nil. It is empty where go-nvml does not build.
package nvmlret
