//go:build cgo && linux

package main

// build says which of the two builds this is.
func build() string { return "with NVML and CUDA (cotenant-gpu)" }
