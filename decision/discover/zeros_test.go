// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/internal/race"
)

// counters are the metrics of dcgm-exporter for a busy GPU, in the order of the bits of a subset.
var counters = []struct {
	name string
	at   float64
}{{"DCGM_FI_DEV_GPU_UTIL", 97}, {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.9}, {"DCGM_FI_PROF_SM_ACTIVE", 0.8},
	{"DCGM_FI_PROF_DRAM_ACTIVE", 0.4}, {"DCGM_FI_DEV_POWER_USAGE", 610}}

// twoHours writes two hours of the counters, those of zero with 0 and those of missing not at all.
func twoHours(labels string, zero, missing int) string {
	var b strings.Builder
	write := func(name string, v float64) {
		fmt.Fprintf(&b, "# TYPE %s gauge\n", name)
		for i := range 120 {
			fmt.Fprintf(&b, "%s{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"n\"%s} %v %d\n", name, labels, v, 1795000000000+i*60000)
		}
	}
	for i, c := range counters {
		v := c.at
		if zero&(1<<i) != 0 {
			if v = 0; c.name == "DCGM_FI_DEV_POWER_USAGE" {
				v = 90
			}
		}
		if missing&(1<<i) == 0 {
			write(c.name, v)
		}
	}
	write("DCGM_FI_DEV_FB_USED", 60000)
	return b.String()
}

// TestZerosThatNobodyFilled: with every subset of a GPU's counters at zero, and every subset of them missing, a GPU of
// which one shows work is never reported as idle, and one of which none shows work is.
func TestZerosThatNobodyFilled(t *testing.T) {
	race.Long(t)
	const of = `,container="c",namespace="t",pod="p"`
	objects := list(aNode("n", "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3", "", "nvidia.com/gpu=1"), aPod("p", "n", "x=1"))
	all := 1<<len(counters) - 1
	for missing := range all + 1 {
		for zero := range all + 1 {
			if zero&missing != 0 || missing == all {
				continue
			}
			for _, labels := range []string{of, ""} { // an exporter that names pods, and one that names none
				works := (all &^ missing &^ zero) != 0
				d := joined(t, discover.Options{}, "objects.json", objects, "dcgm.txt", twoHours(labels, zero, missing))
				w := &d.Fleet.Workloads[0]
				busy, known := w.GPUBusy.Get()
				idle := found(d, "execution-idle") != nil || found(d, "idle-gpus") != nil
				if works && (known && busy < 0.3 || idle) {
					t.Errorf("zero %05b, missing %05b, labels %q: busy %v, idle %v: %+v", zero, missing, labels, w.GPUBusy, idle, d.Findings)
				}
				utilizations := all >> 1
				if !works && utilizations&^missing != 0 && labels != "" && !idle {
					t.Errorf("zero %05b, missing %05b: an idle GPU is not reported: %v %+v", zero, missing, w.GPUBusy, d.Findings)
				}
			}
		}
	}
}

// TestZerosOfMIG: NVML's utilization says nothing of MIG instances, nor of the GPU that they divide.
func TestZerosOfMIG(t *testing.T) {
	mixed := list(aNode("n", a100+"nvidia.com/gpu.count=1 nvidia.com/mig.strategy=mixed", "", "nvidia.com/mig-1g.10gb=7"),
		strings.Replace(aPod("p", "n", "x=1"), "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", 1))
	whole := list(aNode("n", a100+"nvidia.com/gpu.count=1", "", "nvidia.com/gpu=1"), aPod("p", "n", "x=1"))
	const profiled = 1<<1 | 1<<2 | 1<<3 | 1<<4 // missing
	pod, instance := `,namespace="t",pod="p"`, `,GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"`
	for _, c := range []struct {
		name, objects, pages string
		idle                 bool
		code                 string
	}{
		{"an instance", mixed, twoHours(instance+pod, 1, profiled), false, "utilization-not-measured"},
		{"an exporter that names no instance", mixed, twoHours(pod, 1, profiled), false, ""},
		{"the parent's series with the instance's", mixed, twoHours("", 1, profiled) + twoHours(instance+pod, 1, profiled), false, "utilization-not-measured"},
		{"an instance whose engine is idle", mixed, twoHours(instance+pod, 1|1<<1, profiled&^(1<<1)), true, ""},
		{"a whole GPU, of which the same means idleness", whole, twoHours(pod, 1, profiled), true, ""},
	} {
		d := joined(t, discover.Options{}, "objects.json", c.objects, "dcgm.txt", c.pages)
		if idle := found(d, "execution-idle") != nil || found(d, "idle-gpus") != nil; idle != c.idle {
			t.Errorf("%s: idle %v: %+v", c.name, idle, d.Findings)
		}
		if w := &d.Fleet.Workloads[0]; !c.idle && !w.GPUBusy.IsZero() {
			t.Errorf("%s: busy %v", c.name, w.GPUBusy)
		}
		if c.code != "" && found(d, c.code) == nil {
			t.Errorf("%s: %+v", c.name, d.Findings)
		}
	}
}
