// SPDX-License-Identifier: Apache-2.0

// Package cudaprobe runs package probe's tasks on this machine's GPU. It talks to the CUDA driver library, which it
// loads when it is opened: no CUDA toolkit is needed, only an installed driver (450 or newer) and a GPU from Volta
// on. It needs linux and cgo; elsewhere it builds too, and Open returns the reason.
//
// The kernels are PTX in the tree, next to the source that they are made of
// (kernels/kernels.cu); the driver compiles them for the GPU that is there.
//
// # Processes
//
// Each of several contexts at once has a process of its own: the program starts
// itself again. So main must ask first whether it is such a process:
//
//	if code, is := cudaprobe.Child(); is {
//		os.Exit(code)
//	}
//
// For measurements under MPS it starts a control daemon with a pipe directory of its own, and stops it in Close. It
// changes no compute mode, time-slice policy, MIG, clocks, power or persistence.
// Experimental: its API may change.
package cudaprobe

import "github.com/cotenant/cotenant/mps"

//go:generate kernels/build.sh

// noDriver begins the errors where no CUDA driver can be used.
const noDriver = "cudaprobe: the CUDA driver is not available"

// Options select the GPU to probe. The zero value probes the first GPU.
type Options struct {
	// Device is the GPU's index, as NVML counts; its UUID, where that is known better.
	Device int
	UUID   string
	// Program is the MPS control program; nil finds it on the PATH, or next to the driver.
	Program *mps.Program
	// Pipe is the pipe directory of an MPS daemon that runs already and serves this GPU; "" has one started.
	Pipe string
	// Others are processes that hold the GPU already, as NVML lists them.
	Others []string
}
