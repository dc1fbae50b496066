// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux

package main

// build describes this build.
func build() string { return "with NVML and CUDA (cotenant-gpu)" }
