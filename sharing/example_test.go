// SPDX-License-Identifier: Apache-2.0

package sharing_test

import (
	"fmt"
	"os"

	"github.com/cotenant/cotenant/sharing"
)

// Compare the fault isolation of MPS and MIG on an H200, with sources.
func Example() {
	gpu, err := sharing.LookupGPU("NVIDIA H200")
	if err != nil {
		fmt.Println(err)
		return
	}
	driver, err := sharing.ParseDriver("580.159.04")
	if err != nil {
		fmt.Println(err)
		return
	}
	env := sharing.Environment{GPU: gpu, Driver: driver}
	for _, m := range []sharing.Mechanism{sharing.MechanismMPS, sharing.MechanismMIG} {
		p := sharing.IsolationIn(m, sharing.AxisFault, env)
		source, _ := sharing.SourceByID(p.Source)
		fmt.Printf("%s: %s\n  %s\n  [%s] %s\n", m, p.Level, p.Text, p.Source, source.Title)
	}
	// Output:
	// mps: none
	//   a fatal GPU fault ends every client of the GPUs that the culprit uses; the server takes new clients only when all of those have exited
	//   [nvidia-mps-guide] NVIDIA Multi-Process Service, release r575
	// mig: hardware
	//   a fault stays in its instance; what resets the whole GPU reaches all
	//   [nvidia-mig-guide] NVIDIA MIG User Guide: concepts
}

func ExampleLookupGPU() {
	for _, name := range []string{"nvidia-a100-sxm4-80gb", "0x20B210DE", "A100", "A10O"} {
		gpu, err := sharing.LookupGPU(name)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%s: %s, compute capability %s, %s, MIG %s\n", gpu.Name, gpu.Architecture, gpu.ComputeCapability.Value, gpu.Memory.Value, gpu.MIG.Value)
	}
	// Output:
	// A100-SXM4-80GB: ampere, compute capability 8.0, 80GiB, MIG yes
	// A100-SXM4-80GB: ampere, compute capability 8.0, 80GiB, MIG yes
	// sharing: GPU "A100" is ambiguous: it can be "A100 80GB PCIe", "A100-PCIE-40GB", "A100-SXM4-40GB" or "A100-SXM4-80GB"
	// sharing: unknown GPU "A10O"; did you mean "A10", "A100 80GB PCIe" or "A100-PCIE-40GB"? Or describe it: gpu: {name: My GPU, memory: 16GiB, bandwidth: 448, sms: 46, compute: "8.6"}
}

func ExampleIsolationIn() {
	gpu, err := sharing.LookupGPU("H200")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, env := range []sharing.Environment{
		{GPU: gpu, Driver: sharing.Driver{Major: 580, Minor: 65, Patch: 6}, Modes: map[sharing.Mode]sharing.Answer{sharing.ModeStaticSMPartitions: sharing.AnswerYes}},
		{GPU: gpu, Driver: sharing.Driver{Major: 610, Minor: 43, Patch: 2}, Modes: map[sharing.Mode]sharing.Answer{sharing.ModeStaticSMPartitions: sharing.AnswerYes}},
		{GPU: gpu, Driver: sharing.Driver{Major: 610, Minor: 43, Patch: 2}},
	} {
		compute := sharing.IsolationIn(sharing.MechanismMPS, sharing.AxisCompute, env)
		fault := sharing.IsolationIn(sharing.MechanismMPS, sharing.AxisFault, env)
		fmt.Printf("driver %s, static partitions %s: compute %s, fault %s\n", env.Driver, env.Modes[sharing.ModeStaticSMPartitions], compute.Level, fault.Level)
	}
	// Output:
	// driver 580.65.06, static partitions yes: compute partial, fault none
	// driver 610.43.02, static partitions yes: compute driver, fault partial
	// driver 610.43.02, static partitions unknown: compute partial, fault none
}

func ExampleTraps() {
	for _, trap := range sharing.Traps() {
		if trap.Severity == sharing.SeverityCritical {
			fmt.Printf("%s: %s\n", trap.ID, trap.Statement)
		}
	}
	// Output:
	// mps-is-not-isolation: MPS isolates its clients like separate GPUs.
	// hami-can-be-bypassed: HAMi isolates like MIG.
	// emulation-is-not-mig: An MPS percentage plus the framework's memory fraction is MIG.
	// mps-fault-spreads: One MPS client's fault is its own affair.
	// mps-pipe-directory: A container without the right pipe directory fails.
	// mps-limit-dropped: A wrong entry in the pinned memory limit is ignored.
	// mps-namespace-limits: The limits of an MPS server hold for its namespaces.
}

func ExampleMPSClientLimit() {
	gpu, err := sharing.LookupGPU("L40S")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, version := range []string{"580.65.06", "590.44.01"} {
		driver, err := sharing.ParseDriver(version)
		if err != nil {
			fmt.Println(err)
			return
		}
		limit, why := sharing.MPSClientLimit(gpu, driver)
		fmt.Printf("%s: %d (%s)\n", version, limit.Value, why.Text)
	}
	limit, why := sharing.MPSClientLimit(gpu, sharing.Driver{})
	fmt.Printf("plan with %d, for sure: %s\n", limit.Value, why.Answer)
	// Output:
	// 580.65.06: 48 (Volta and later take 48 contexts up to CUDA 13.0; the 49th fails, measured on driver 580)
	// 590.44.01: 60 (Volta and later take 60 contexts from CUDA 13.1)
	// plan with 48, for sure: unknown
}

func ExampleAvailable() {
	gpu, err := sharing.LookupGPU("L4")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range []sharing.Mechanism{sharing.MechanismMIG, sharing.MechanismMPS} {
		f := sharing.Available(m, sharing.Environment{GPU: gpu})
		fmt.Printf("%s: %s, %s [%s]\n", m, f.Answer, f.Text, f.Source)
	}
	f := sharing.Delivers(sharing.DeliveryDevicePlugin, sharing.MechanismMIGWithMPS)
	fmt.Printf("mig+mps by the device plugin: %s, %s\n", f.Answer, f.Text)
	// Output:
	// mig: no, this GPU has no MIG [nvidia-smi]
	// mps: yes, MPS runs on this GPU (Linux and QNX only) [nvidia-mps-guide]
	// mig+mps by the device plugin: no, it refuses MPS on MIG devices
}

// An output that names sources ends with where to find them.
func ExampleCitations() {
	cites := sharing.Citations{Rest: "-format json"}
	for _, m := range []sharing.Mechanism{sharing.MechanismMPS, sharing.MechanismMIG, sharing.MechanismHAMi} {
		p := sharing.Isolation(m, sharing.AxisFault)
		fmt.Printf("%s: %s%s\n", m, p.Level, cites.Ref(p.Source))
	}
	if err := cites.WriteText(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// mps: none [nvidia-mps-guide]
	// mig: hardware [nvidia-mig-guide]
	// hami: none [dynamo-gpu-sharing]
	// SOURCES
	//   nvidia-mps-guide    docs.nvidia.com/deploy/pdf/CUDA_Multi_Process_Service_Overview.pdf
	//   nvidia-mig-guide    docs.nvidia.com/datacenter/tesla/mig-user-guide/latest/concepts.html
	//   dynamo-gpu-sharing  github.com/ai-dynamo/dynamo@f7ca9bb54a08:…/gpu-sharing/gpu-sharing-results.mdx
}
