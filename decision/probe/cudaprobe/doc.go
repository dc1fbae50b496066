// SPDX-License-Identifier: Apache-2.0

// Package cudaprobe runs package probe's tasks on this machine's GPU. It uses the CUDA driver library, which Open
// loads: it needs no CUDA toolkit, only an installed driver (450 or newer) and a GPU of Volta or later. It needs Linux
// and cgo; elsewhere it builds too, and Open returns an error.
//
// The kernels are PTX in the tree, compiled from kernels/kernels.cu; the driver compiles them for the present GPU.
//
// # Processes
//
// Each concurrent context needs a process of its own, for which the program starts itself again. So main must first
// check whether it is such a process:
//
//	if code, is := cudaprobe.Child(); is {
//		os.Exit(code)
//	}
//
// For measurements under MPS it starts a control daemon with its own pipe directory, and stops it in Close. It changes
// no compute mode, time-slice policy, MIG, clocks, power or persistence. Experimental: its API may change.
package cudaprobe

import "github.com/cotenant/cotenant/mps"

//go:generate kernels/build.sh

// noDriver begins the errors where no CUDA driver can be used.
const noDriver = "cudaprobe: the CUDA driver is not available"

// Options select the GPU to probe. The zero value probes the first GPU.
type Options struct {
	// Device is the GPU's index in NVML. UUID, if not empty, selects the GPU instead.
	Device int
	UUID   string
	// Program is the MPS control program; nil finds it on the PATH, or next to the driver.
	Program *mps.Program
	// Pipe is the pipe directory of a running MPS daemon that serves this GPU; "" starts one.
	Pipe string
	// Others are processes that already hold the GPU, as listed by NVML.
	Others []string
}
