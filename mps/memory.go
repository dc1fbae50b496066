package mps

import (
	"fmt"
	"math"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Allocatable is the memory that a client can allocate under a limit.
type Allocatable struct {
	Low, High sharing.Bytes // limit less the largest and the smallest overhead measured
	Basis     sharing.Basis
	Sources   []sharing.SourceID
}

// allocated are measurements of what CUDA's own allocations take of a limit: two on an H200 with driver 580, three
// by NVIDIA on an RTX PRO 6000 Blackwell with driver 615.
var allocated = []struct{ limit, overhead sharing.Bytes }{
	{8 * sharing.GiB, 768 * sharing.MiB}, {2 * sharing.GiB, 768 * sharing.MiB},
	{10 * sharing.GiB, 512 * sharing.MiB}, {5 * sharing.GiB, 256 * sharing.MiB}, {2 * sharing.GiB, 512 * sharing.MiB},
}

// AllocatableUnder returns the range that one client process can allocate under a pinned memory limit: CUDA's own
// allocations count against it, so the measured points stop 256 to 768 MiB short, 768 on the H200. Low is 0 when
// the limit may leave nothing.
func AllocatableUnder(limit sharing.Bytes) (Allocatable, error) {
	var l problem.List
	if checkMemLimit(&l, "limit", limit, 0); l.Len() > 0 {
		return Allocatable{}, invalid(&l)
	}
	a := Allocatable{Low: limit, Basis: sharing.BasisDerived, Sources: []sharing.SourceID{"cotenant-h200-mps",
		"dynamo-mps-limits"}}
	for _, p := range allocated {
		a.Low, a.High = min(a.Low, limit-p.overhead), max(a.High, limit-p.overhead)
		if p.limit == limit {
			a.Basis = sharing.BasisMeasured
		}
	}
	a.Low, a.High = max(a.Low, 0), max(a.High, 0)
	return a, nil
}

// Enforcer names the mechanism that enforces a tenant's memory limit. The zero value is EnforcerMPS.
type Enforcer uint8

// The enforcers.
const (
	EnforcerMPS    Enforcer = iota // pinned memory limit: the client still sees the whole GPU as total
	EnforcerHAMi                   // HAMi-core: the client sees the limit as total
	EnforcerCgroup                 // cgroup dmem limit of CUDA 13.4: the client sees the limit as total
)

var enforcerNames = enum.Of[Enforcer](ErrInvalid, "enforcer", "mps", "hami", "cgroup")

// ServingFramework is a serving framework with a memory fraction of its own. The zero value is ServingVLLM.
type ServingFramework uint8

// The frameworks.
const (
	ServingVLLM ServingFramework = iota
	ServingTGI
	ServingSGLang
)

var servingNames = enum.Of[ServingFramework](ErrInvalid, "framework", "vllm", "tgi", "sglang")

// Flag returns the framework's option.
func (f ServingFramework) Flag() string {
	return [...]string{"--gpu-memory-utilization", "--cuda-memory-fraction", "--mem-fraction-static"}[min(int(f), 2)]
}

// FractionAdvice is a memory fraction for a framework.
type FractionAdvice struct {
	Flag string
	// Recommended is the fraction to start with, rounded down to two decimals; Max is the one never to exceed.
	Recommended, Max float64
	Why              string
	Basis            sharing.Basis
	Source           sharing.SourceID
}

// MemoryFraction advises which memory fraction to give a framework that runs
// as one process under limit on a GPU of total memory.
//
// Under MPS vLLM and TGI measure against the whole GPU, so the fraction is
// limit/total; SGLang measures against what is free when it starts, which is
// the limit. Under HAMi or a cgroup the total is the limit, and the usual 0.85
// to 0.9 is right (dynamo-mps-limits).
func MemoryFraction(f ServingFramework, e Enforcer, limit, total sharing.Bytes) (FractionAdvice, error) {
	var l problem.List
	l.If(!servingNames.Has(f), "framework", "use ServingVLLM, ServingTGI or ServingSGLang", "%v is not known", f)
	l.If(!enforcerNames.Has(e), "enforcer", "use EnforcerMPS, EnforcerHAMi or EnforcerCgroup", "%v is not known", e)
	checkMemLimit(&l, "limit", limit, total)
	l.If(total <= 0, "total", "give the GPU's memory", "%d bytes is no memory", int64(total))
	if err := invalid(&l); err != nil {
		return FractionAdvice{}, err
	}
	a := FractionAdvice{Flag: f.Flag(), Recommended: 0.85, Max: 0.9, Basis: sharing.BasisDocumented,
		Source: "dynamo-mps-limits",
		Why:    fmt.Sprintf("under %v the total that %v sees is the limit", e, f)}
	if e != EnforcerMPS {
		return a, nil
	}
	if f == ServingSGLang {
		a.Why = "SGLang measures against what is free when it starts; under MPS that is the limit, though the total is " +
			"the whole GPU"
		a.Basis = sharing.BasisInferred
		return a, nil
	}
	alloc, err := AllocatableUnder(limit)
	if err != nil {
		return FractionAdvice{}, err
	}
	// 0.93 is NVIDIA Dynamo's margin: 56 of 80 GiB is 0.70, of which it gives 0.65.
	const margin = 0.93
	a.Max = floor2(float64(limit) / float64(total))
	a.Recommended = floor2(min(margin*float64(limit), float64(alloc.Low)) / float64(total))
	a.Basis = sharing.BasisDerived
	a.Why = fmt.Sprintf("under MPS %v still sees %v as total, so the fraction is of the whole GPU, not of the limit", f,
		total)
	if a.Recommended == 0 {
		return FractionAdvice{}, fmt.Errorf("%w: limit: %v of %v leaves %v no memory after what CUDA itself takes (up to "+
			"%v); use a larger limit",
			ErrInvalid, limit, total, f, limit-alloc.Low)
	}
	return a, nil
}

func floor2(x float64) float64 { return math.Floor(x*100+1e-9) / 100 }

// LimitPerProcess returns the limit to set so that a container of several
// client processes stays within its budget: MPS limits each process, so n
// processes under one limit may take n times as much
// (k8s-device-plugin-issue-720). It is rounded
// down to MiB.
func LimitPerProcess(budget sharing.Bytes, processes int) (sharing.Bytes, error) {
	if processes <= 0 || budget/sharing.Bytes(max(processes, 1)) < sharing.MiB {
		return 0, fmt.Errorf("%w: %v for %d processes is less than 1MiB each", ErrInvalid, budget, processes)
	}
	return budget / sharing.Bytes(processes) / sharing.MiB * sharing.MiB, nil
}
