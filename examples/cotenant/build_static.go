// SPDX-License-Identifier: Apache-2.0

//go:build !cgo || !linux

package main

// build describes this build.
func build() string {
	return "static, without NVML and CUDA (the real GPU needs cotenant-gpu, for Linux)"
}
