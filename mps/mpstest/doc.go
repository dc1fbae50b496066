// SPDX-License-Identifier: Apache-2.0

// Package mpstest is a fake MPS control daemon for tests, in the manner of net/http/httptest. It answers as the daemon
// of NVIDIA's driver 580 was recorded to answer, refusals that exit 0 and silent rejections included, and for newer
// features as documented.
//
// Daemon is the fake in this process: it is an mps.Runner, takes injected faults, and Connect plays a CUDA process's
// first call. ControlProgram makes a test binary replace nvidia-cuda-mps-control and CUDA processes, so that a whole
// start, use, kill and stop can be tested with real processes.
//
// Process IDs that the fake invents are above any that Linux assigns, so that a mistake can never signal a real
// process. The fake needs no GPU, and none of its answers is a measurement. Experimental: its API may change.
package mpstest
