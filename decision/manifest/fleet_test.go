package manifest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// mixedFleet has a group of every mechanism that can be configured.
func mixedFleet() Fleet {
	return Fleet{
		Groups: []Group{
			{Pool: "prod", Mechanism: sharing.MechanismMIG, GPU: "A100-SXM4-80GB", GPUs: 4, GPUsPerNode: 2, Layouts: []Layout{
				{GPUs: 3, Instances: map[string]int{"1g.20gb": 4}, Tenants: []Tenant{{"chat", 4}}},
				{GPUs: 1, Instances: map[string]int{"3g.40gb": 1, "1g.20gb": 1}, Tenants: []Tenant{{"chat", 1}, {"search", 1}}}}},
			{Pool: "prod", Mechanism: sharing.MechanismExclusive, GPU: "A100-SXM4-80GB", GPUs: 2, GPUsPerNode: 2},
			{Pool: "serve", Mechanism: sharing.MechanismMPS, GPU: "H100 80GB HBM3", GPUs: 2, GPUsPerNode: 2, Replicas: 3},
			{Pool: "nested", Mechanism: sharing.MechanismMIGWithMPS, GPU: "H100 80GB HBM3", GPUs: 1, Replicas: 2, Layouts: []Layout{{Instances: map[string]int{"3g.40gb": 2}}}},
			{Pool: "dev", Mechanism: sharing.MechanismTimeSlicing, GPU: "Tesla T4", GPUs: 4, GPUsPerNode: 4, Replicas: 4},
			{Pool: "edge", Mechanism: sharing.MechanismHAMi, GPU: "L4", GPUs: 8, GPUsPerNode: 8},
			{Pool: "edge", Mechanism: sharing.MechanismHAMiWithMPS, GPU: "L4", GPUs: 8, GPUsPerNode: 8},
			{Pool: "emu", Mechanism: sharing.MechanismMIGLikeEmulation, GPU: "L40S", GPUs: 1, GPUsPerNode: 1, Replicas: 2},
			{Pool: "vdi", Mechanism: sharing.MechanismVGPU, GPUs: 2, VGPUType: "A100D-10C", VGPUScheduler: VGPUScheduler{Policy: EqualShare, TimeSlice: 3 * time.Millisecond}},
			{Pool: "vdi", Mechanism: sharing.MechanismMIGBackedVGPU, GPUs: 1, VGPUType: "A100D-1-10C"},
			{Pool: "lab", Mechanism: sharing.MechanismResearch, GPUs: 1},
			{Pool: "hub", Mechanism: sharing.MechanismInServer, GPU: "L40S", GPUs: 1, GPUsPerNode: 1},
		},
		Workloads: []Workload{
			{Name: "chat", Namespace: "ml", Pool: "prod", Mechanism: sharing.MechanismMIG, Replicas: 13, Profile: "1g.20gb", Framework: Framework{Name: "vllm"}, Image: "vllm/vllm-openai:v0.11.0", Args: []string{"--model", "m"}},
			{Name: "search", Namespace: "ml", Pool: "prod", Mechanism: sharing.MechanismMIG, Profile: "3g.40gb", Framework: Framework{Name: "tgi", MemoryFraction: 0.9}},
			{Name: "train", Pool: "prod", Mechanism: sharing.MechanismExclusive, GPUs: 2},
			{Name: "embed", Namespace: "ml", Pool: "serve", Mechanism: sharing.MechanismMPS, Replicas: 4, Memory: 20 * sharing.GiB, ComputePercent: 30, Framework: Framework{Name: "vllm"}},
			{Name: "rerank", Namespace: "search", Pool: "serve", Mechanism: sharing.MechanismMPS, Replicas: 2, Memory: 10 * sharing.GiB, Framework: Framework{Name: "sglang", Processes: 2}},
			{Name: "nest", Pool: "nested", Mechanism: sharing.MechanismMIGWithMPS, Replicas: 4, Profile: "3g.40gb", Memory: 15 * sharing.GiB, ComputePercent: 50, Framework: Framework{Name: "vllm"}},
			{Name: "notebook", Pool: "dev", Mechanism: sharing.MechanismTimeSlicing, Replicas: 16, Memory: 3 * sharing.GiB, Framework: Framework{Name: "vllm"}},
			{Name: "on", Pool: "edge", Mechanism: sharing.MechanismHAMi, Replicas: 4, Memory: 8 * sharing.GiB, ComputePercent: 30, Framework: Framework{Name: "vllm", CUDAGraphs: sharing.AnswerYes}},
			{Name: "asr", Pool: "edge", Mechanism: sharing.MechanismHAMiWithMPS, Replicas: 2, Memory: 8 * sharing.GiB},
			{Name: "emulated", Pool: "emu", Mechanism: sharing.MechanismMIGLikeEmulation, Replicas: 2, Memory: 20 * sharing.GiB, ComputePercent: 50, Framework: Framework{Name: "vllm"}},
			{Name: "desk", Pool: "vdi", Mechanism: sharing.MechanismVGPU},
			{Name: "desk-mig", Pool: "vdi", Mechanism: sharing.MechanismMIGBackedVGPU},
			{Name: "novel", Pool: "lab", Mechanism: sharing.MechanismResearch},
			{Name: "adapters", Pool: "hub", Mechanism: sharing.MechanismInServer},
		},
	}
}

func TestFleetValidate(t *testing.T) {
	f := mixedFleet()
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Fleet)
		want   []string
	}{
		"empty": {func(f *Fleet) { *f = Fleet{} }, []string{"groups: is empty"}},
		"names": {func(f *Fleet) {
			f.Groups[0].Pool = "Prod_1"
			f.Workloads[2].Name = "a/b\nc"
			f.Workloads[0].Namespace = "../x"
		}, []string{`groups[0].pool: "Prod_1"`, `workloads[2].name: "a/b\nc"`, `workloads[0].namespace: "../x"`}},
		"long workload": {func(f *Fleet) { f.Workloads[6].Name = strings.Repeat("a", 60) }, []string{"workloads[6].name: with the number of a shared device"}},
		"long":          {func(f *Fleet) { f.Groups[4].Pool = strings.Repeat("a", 60) }, []string{"groups[4].pool: with the mechanism it makes a label of 73 characters"}},
		"duplicates":    {func(f *Fleet) { f.Groups[1] = f.Groups[0]; f.Workloads[1].Name = "chat" }, []string{"groups[1]: repeats groups[0]", "workloads[1].name: repeats workloads[0]"}},
		"none":          {func(f *Fleet) { f.Groups[1].Mechanism = sharing.MechanismNone }, []string{"groups[1].mechanism: none is not a way to run"}},
		"gpu":           {func(f *Fleet) { f.Groups[1].GPU = "A100-SXM4-8OGB" }, []string{"groups[1].gpu"}},
		"counts":        {func(f *Fleet) { f.Groups[1].GPUs = 0; f.Groups[2].Replicas = 1 }, []string{"groups[1].gpus: must be 1 to", "groups[2].replicas: mps needs clients that share"}},
		"layout":        {func(f *Fleet) { f.Groups[0].Layouts[1].Instances["3g.40gb"] = 2 }, []string{"groups[0].layouts[1].instances"}},
		"layout size":   {func(f *Fleet) { f.Groups[0].GPUs = 5 }, []string{"groups[0].layouts: describe 4 GPUs of 5"}},
		"no layout":     {func(f *Fleet) { f.Groups[3].Layouts = nil }, []string{"groups[3].layouts: MIG needs a layout"}},
		"not MIG":       {func(f *Fleet) { f.Groups[0].GPU = "L40S" }, []string{"groups[0].gpu"}},
		"instances":     {func(f *Fleet) { f.Groups[2].Layouts = []Layout{{GPUs: 2, Instances: map[string]int{"1g.10gb": 7}}} }, []string{"groups[2].layouts[0].instances: MIG instances in a group that shares by mps"}},
		"profile": {func(f *Fleet) {
			f.Workloads[0].Profile = "1g.10gb"
			f.Workloads[1].Profile = ""
			f.Workloads[2].Profile = "7g.80gb"
		}, []string{`workloads[0].profile: no GPU of prod-mig has an instance "1g.10gb"`, "workloads[1].profile: is missing", "workloads[2].profile: has a meaning for mig"}},
		"two shared": {func(f *Fleet) { f.Workloads[6].GPUs = 2 }, []string{"workloads[6].gpus: 2 shared GPUs are no more than one"}},
		"no group":   {func(f *Fleet) { f.Workloads[2].Pool = "elsewhere" }, []string{`workloads[2].pool: no group of pool "elsewhere" shares by exclusive`}},
		"too large": {func(f *Fleet) {
			f.Workloads[6].Memory = 100 * sharing.GiB
			f.Workloads[7].Memory = 5
			f.Workloads[5].Memory = 60 * sharing.GiB
		}, []string{"workloads[6].memory: 100GiB is more than the device's", "workloads[7].memory: a limit of 5B is below 1MiB", "workloads[5].memory: 60GiB is more than the device's"}},
		"fractions": {func(f *Fleet) { f.Workloads[3].ComputePercent = 101; f.Workloads[3].Framework.MemoryFraction = -1 }, []string{"compute_percent", "memory_fraction"}},
		"tenant":    {func(f *Fleet) { f.Groups[0].Layouts[0].Tenants[0] = Tenant{"chut", 0} }, []string{`tenants[0].workload: "chut" is not known`, "tenants[0].replicas"}},
		"vgpu": {func(f *Fleet) {
			f.Groups[8].VGPUType = "A100D-1-10C"
			f.Groups[9].VGPUScheduler.Policy = FixedShare
			f.Groups[4].VGPUType = "T4-2C"
		}, []string{"groups[8].vgpu_type: vgpu", "groups[9].vgpu_scheduler", "groups[4].vgpu_type: has a meaning"}},
		"vgpu nothing": {func(f *Fleet) { f.Groups[8].VGPUType = "" }, []string{`groups[8].vgpu_type: "" is not a vGPU type`}},
	} {
		t.Run(name, func(t *testing.T) {
			f := mixedFleet()
			c.change(&f)
			files, ws, err := Build(f, Options{})
			if files != nil || ws != nil || !errors.Is(err, ErrInvalid) {
				t.Fatalf("got %d files, %d warnings, %v", len(files), len(ws), err)
			}
			for _, w := range c.want {
				w = strings.TrimSuffix(w, "vgpu")
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error lacks %q:\n%v", w, err)
				}
			}
		})
	}
}
