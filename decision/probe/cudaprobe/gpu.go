// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package cudaprobe

/*
#include <stdlib.h>
#include "driver.h"
*/
import "C"

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/sharing"
)

//go:embed kernels/kernels.ptx
var ptx string

// gpu is a context on a device, with the kernels in it. All of it belongs to one thread.
type gpu struct {
	stream                 C.CUstream
	spin, compute, reading C.CUfunction
	sms                    int
	held                   []func() // releases the memory and graphs of the task under way
}

func openGPU(device C.CUdevice, sms int) (*gpu, error) {
	g := &gpu{sms: sms}
	var context C.CUcontext
	if err := check("cuCtxCreate", C.c_context(&context, device)); err != nil {
		return nil, err
	}
	text := C.CString(ptx)
	defer C.free(unsafe.Pointer(text))
	log := (*C.char)(C.calloc(1, 4096))
	defer C.free(unsafe.Pointer(log))
	var module C.CUmodule
	r := C.c_load(&module, unsafe.Pointer(text), log, 4096)
	if err := check("cuModuleLoadDataEx", r); err != nil {
		return nil, fmt.Errorf("%w %s", err, strings.TrimSpace(C.GoString(log)))
	}
	for name, f := range map[string]*C.CUfunction{"spin": &g.spin, "compute": &g.compute,
		"stream": &g.reading} {
		c := C.CString(name)
		err := check("cuModuleGetFunction "+name, C.c_function(f, module, c))
		C.free(unsafe.Pointer(c))
		if err != nil {
			return nil, err
		}
	}
	return g, check("cuStreamCreate", C.c_stream(&g.stream))
}

// memory returns the device memory that is free.
func (g *gpu) memory() (sharing.Bytes, error) {
	var unused, total C.size_t
	err := check("cuMemGetInfo", C.c_memory(&unused, &total))
	return sharing.Bytes(unused), err
}

// alloc returns zeroed memory, until release.
func (g *gpu) alloc(n int64) (p C.CUdeviceptr, err error) {
	if err = check("cuMemAlloc", C.c_alloc(&p, C.size_t(n))); err == nil {
		g.held = append(g.held, func() { C.c_release(p) })
		err = check("cuMemsetD8", C.c_fill(p, C.size_t(n)))
	}
	return p, err
}

func (g *gpu) release() {
	for _, free := range slices.Backward(g.held) {
		free()
	}
	g.held = nil
}

func (g *gpu) wait() error { return check("cuStreamSynchronize", C.c_wait(g.stream)) }

// stamps reads n numbers of device memory.
func stamps(from C.CUdeviceptr, n int) ([]uint64, error) {
	if n == 0 {
		return nil, nil
	}
	out := make([]uint64, n)
	return out, check("cuMemcpyDtoH", C.c_read(unsafe.Pointer(&out[0]), from, C.size_t(8*n)))
}

// mostStamps bounds the records of one task.
const mostStamps = 1 << 16

// leastGap is the gap of a spinning thread's clock from which on it was off the GPU, in ns.
const leastGap = 5000

func (g *gpu) runSpin(t probe.Task) (r probe.Reading, err error) {
	gaps, err := g.alloc(16*mostStamps + 24)
	if err != nil {
		return r, err
	}
	span := gaps + 16*mostStamps
	for _, d := range []time.Duration{time.Millisecond, t.For} { // the first makes the kernel ready
		code := C.c_spin(g.spin, g.stream, gaps, span, mostStamps, C.ulonglong(d), leastGap)
		if err := errors.Join(check("launching spin", code), g.wait()); err != nil {
			return r, err
		}
	}
	v, err := stamps(span, 3)
	if err != nil {
		return r, err
	}
	if v[2] > mostStamps {
		return r, fmt.Errorf("cudaprobe: the spinning thread was off the GPU %d times, more than can be recorded", v[2])
	}
	r.Span = interval(v)
	r.Off, err = intervals(gaps, int(v[2]))
	return r, err
}

func interval(v []uint64) probe.Interval {
	return probe.Interval{From: time.Duration(v[0]), To: time.Duration(v[1])}
}

func intervals(from C.CUdeviceptr, n int) ([]probe.Interval, error) {
	v, err := stamps(from, 2*n)
	out := make([]probe.Interval, n)
	for i := range out {
		out[i] = interval(v[2*i:])
	}
	return out, err
}

// runSteps launches the same work again and again and waits for each.
func (g *gpu) runSteps(t probe.Task, launch func() error) (r probe.Reading, err error) {
	for range 2 { // make it ready
		if err = errors.Join(launch(), g.wait()); err != nil {
			return r, err
		}
	}
	for began := time.Now(); len(r.Steps) == 0 || time.Since(began) < t.For; {
		at := time.Now()
		if err = errors.Join(launch(), g.wait()); err != nil {
			return r, err
		}
		r.Steps = append(r.Steps, time.Since(at))
		if t.Pause > 0 {
			time.Sleep(t.Pause)
		}
	}
	return r, nil
}

// kernels returns a function that launches a step's kernels, in one graph when there are several.
func (g *gpu) kernels(n int, one func() error) (launch func() error, err error) {
	if n <= 1 {
		return one, nil
	}
	if err = check("cuStreamBeginCapture", C.c_capture(g.stream)); err != nil {
		return nil, err
	}
	for i := 0; i < n && err == nil; i++ {
		err = one()
	}
	var graph C.CUgraph
	if err = errors.Join(err, check("cuStreamEndCapture", C.c_captured(g.stream, &graph))); err != nil {
		return nil, err
	}
	var exec C.CUgraphExec
	if err = check("cuGraphInstantiate", C.c_graph(&exec, graph)); err != nil {
		return nil, err
	}
	g.held = append(g.held, func() { C.c_graphDestroy(exec) })
	return func() error { return check("cuGraphLaunch", C.c_graphLaunch(exec, g.stream)) }, nil
}

const blockThreads = 256

// grid is a task's blocks and threads in each.
func (g *gpu) grid(t probe.Task) (blocks, threads C.uint) {
	if t.PerSM == 0 {
		return 1, 1
	}
	return C.uint(t.PerSM * g.sms), blockThreads
}

func (g *gpu) runCompute(t probe.Task, rates map[string]float64) (probe.Reading, error) {
	blocks, threads := g.grid(t)
	iters := C.uint(float64(t.Kernel) / rates[computeRate(t.PerSM)])
	sink, err := g.alloc(16)
	if err != nil {
		return probe.Reading{}, err
	}
	launch, err := g.kernels(t.Kernels, func() error {
		return check("launching compute", C.c_compute(g.compute, g.stream, blocks, threads, iters, sink))
	})
	if err != nil {
		return probe.Reading{}, err
	}
	if t.Exchange {
		return g.runExchange(t, launch)
	}
	return g.runSteps(t, launch)
}

// runExchange copies a little to the GPU before each launch and reads a little
// from it after, from and to memory that is not pinned.
func (g *gpu) runExchange(t probe.Task, launch func() error) (r probe.Reading, err error) {
	const size = 512
	tokens, err := g.alloc(size)
	if err != nil {
		return r, err
	}
	host := C.calloc(1, size)
	defer C.free(host)
	return g.runSteps(t, func() error {
		return errors.Join(check("cuMemcpyHtoDAsync", C.c_toDevice(tokens, host, size, g.stream)), launch(),
			check("cuMemcpyDtoHAsync", C.c_fromDevice(host, tokens, size, g.stream)))
	})
}

func (g *gpu) runStream(t probe.Task) (r probe.Reading, err error) {
	words, err := g.alloc(t.Bytes + 16)
	if err != nil {
		return r, err
	}
	blocks, threads := g.grid(t)
	launch, err := g.kernels(t.Kernels, func() error {
		return check("launching stream", C.c_readAll(g.reading, g.stream, blocks, threads, words, C.ulonglong(t.Bytes/16),
			words+C.CUdeviceptr(t.Bytes)))
	})
	if err != nil {
		return r, err
	}
	r, err = g.runSteps(t, launch)
	r.Bytes = t.Bytes * int64(max(1, t.Kernels))
	return r, err
}

// do runs a task.
func (g *gpu) do(t probe.Task, rates map[string]float64) (probe.Reading, error) {
	defer g.release()
	time.Sleep(t.Delay)
	switch t.Kind {
	case probe.KindSpin:
		return g.runSpin(t)
	case probe.KindCompute:
		return g.runCompute(t, rates)
	case probe.KindStream:
		return g.runStream(t)
	}
	return probe.Reading{}, fmt.Errorf("cudaprobe: cannot run a %s", t.Kind)
}

// Names of rates: ns of the GPU for each iteration of a kernel, by its grid.
func computeRate(perSM int) string { return fmt.Sprintf("compute-%d", perSM) }

// tune finds the rates, with no other process on the GPU.
func (g *gpu) tune() (map[string]float64, error) {
	defer g.release()
	words, err := g.alloc(16)
	if err != nil {
		return nil, err
	}
	rates := map[string]float64{}
	of := func(name string, launch func(iters C.uint) C.CUresult) error {
		const few, many = 20_000, 120_000
		best := map[C.uint]time.Duration{}
		for range 12 { // the clocks rise meanwhile
			for _, iters := range []C.uint{few, many} {
				at := time.Now()
				if err := errors.Join(check("launching "+name, launch(iters)), g.wait()); err != nil {
					return err
				}
				if d := time.Since(at); best[iters] == 0 || d < best[iters] {
					best[iters] = d
				}
			}
		}
		rates[name] = float64(best[many]-best[few]) / (many - few)
		if rates[name] <= 0 {
			return fmt.Errorf("cudaprobe: %s kernels take no longer with more work", name)
		}
		return nil
	}
	for _, perSM := range []int{0, 1, 8} {
		if err == nil {
			err = of(computeRate(perSM), func(iters C.uint) C.CUresult {
				blocks, threads := g.grid(probe.Task{PerSM: perSM})
				return C.c_compute(g.compute, g.stream, blocks, threads, iters, words)
			})
		}
	}
	return rates, err
}
