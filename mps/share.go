// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"fmt"
	"math"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// SMs come in steps of one TPC, and every client gets a least number, as seen on the H200.
const (
	stepSMs  = 2
	leastSMs = 8
)

// SMs returns the streaming multiprocessors that a client gets at an active thread percentage in (0, 100] on a GPU or
// MIG instance of total SMs: floor(percentage x total / 100), rounded down to whole steps of two, and at least eight;
// 100% is every SM. The rule is fitted to 30 points measured on an H200 of 132 SMs (testdata/h200-v2-transcript.txt)
// and agrees with three that NVIDIA measured on a GPU of 188 SMs (dynamo-mps-limits). On other GPUs it is inferred:
// verify it in the client by the device attribute MultiprocessorCount, which reflects the limit.
func SMs(total int, percentage float64) (int, error) {
	var l problem.List
	l.If(total <= 0 || total > 1<<16, "total", "give the SMs of the GPU", "%d is no number of SMs", total)
	if checkPercentage(&l, "percentage", percentage); l.Len() > 0 {
		return 0, l.Under(ErrInvalid)
	}
	if percentage == 100 {
		return total, nil
	}
	// The small term keeps a product like 43.999999999 of 100*44/132 at 44.
	n := int(math.Floor(percentage*float64(total)/100 + 1e-9))
	return max(n-n%stepSMs, min(leastSMs, total)), nil
}

// mostOverhead is the most that CUDA's own allocations take of a limit: 768 MiB of 8 and 2 GiB on an H200 with driver
// 580; NVIDIA measured 256 to 512 MiB on an RTX PRO 6000 Blackwell with driver 615 (dynamo-mps-limits).
const mostOverhead = 768 * sharing.MiB

// MemoryFlag returns the option of a serving framework that sets its memory fraction; ok is false for frameworks other
// than vllm, tgi and sglang.
func MemoryFlag(framework string) (flag string, ok bool) {
	flag, ok = map[string]string{"vllm": "--gpu-memory-utilization", "tgi": "--cuda-memory-fraction",
		"sglang": "--mem-fraction-static"}[framework]
	return flag, ok
}

// FractionOfLimit is the memory fraction for a framework that computes it from the memory limit, as all do under HAMi
// and MIG (dynamo-mps-limits).
const FractionOfLimit = 0.85

// MemoryFraction returns the memory fraction, above 0 and at most 1, for a framework (vllm, tgi or sglang) that runs as
// one process under a pinned memory limit on a GPU of total memory, rounded down to two decimals.
//
// vLLM and TGI take a fraction of the whole GPU, so it is limit/total less a margin: 7% of the limit, or CUDA's own
// memory, up to 768 MiB, if that is more. SGLang takes a fraction of the free memory at its start, which is the limit
// (inferred).
func MemoryFraction(framework string, limit, total sharing.Bytes) (float64, error) {
	var l problem.List
	_, known := MemoryFlag(framework)
	l.If(!known, "framework", "use vllm, tgi or sglang", "%q is not known", problem.Clip(framework))
	checkMemLimit(&l, "limit", limit, total)
	l.If(total <= 0, "total", "give the GPU's memory", "%d bytes is no memory", int64(total))
	if err := l.Under(ErrInvalid); err != nil {
		return 0, err
	}
	if framework == "sglang" {
		return FractionOfLimit, nil
	}
	alloc := max(limit-mostOverhead, 0) // a client process can allocate at least this much
	// 0.93 is NVIDIA Dynamo's margin: 56 of 80 GiB is 0.70, of which it gives 0.65.
	const margin = 0.93
	fraction := min(margin*float64(limit), float64(alloc)) / float64(total)
	fraction = math.Floor(fraction*100+1e-9) / 100
	if fraction == 0 {
		return 0, fmt.Errorf("%w: limit: %v of %v leaves %v no memory beyond CUDA's own (up to %v); use a "+
			"larger limit", ErrInvalid, limit, total, framework, limit-alloc)
	}
	return fraction, nil
}

// LimitPerProcess returns the limit to set so that a container of several client processes stays within its budget: MPS
// limits each process, so n processes under one limit may use n times as much (k8s-device-plugin-issue-720). It is
// rounded down to MiB.
func LimitPerProcess(budget sharing.Bytes, processes int) (sharing.Bytes, error) {
	if processes <= 0 || budget/sharing.Bytes(max(processes, 1)) < sharing.MiB {
		return 0, fmt.Errorf("%w: %v for %d processes is less than 1MiB each", ErrInvalid, budget, processes)
	}
	return budget / sharing.Bytes(processes) / sharing.MiB * sharing.MiB, nil
}
