// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"path"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

// Inventory lists a node's GPUs and their settings as its driver reports them: telemetrynvml reads one, and a reader of
// nvidia-smi's output can make one. Settings that the driver does not report are missing. Serial numbers are left out.
type Inventory struct {
	Driver string // its version, e.g. "580.159.04"; empty where it is not known
	GPUs   []GPU
}

// GPU is one GPU of an Inventory.
type GPU struct {
	Index sharing.Optional[int]
	UUID  string // "GPU-..."
	Name  string // "NVIDIA H100 80GB HBM3"
	// PCIBus is the PCI address in lower case, e.g. "00000000:04:00.0".
	PCIBus string
	PCIID  string // vendor and device as sharing's table writes them: "10DE:2330"

	// ComputeCapability and Architecture describe a GPU that sharing's table does not have; either may be missing.
	ComputeCapability sharing.ComputeCapability
	Architecture      sharing.Architecture

	// Lost is set if the driver can no longer reach the GPU: it needs a reset or a reboot.
	Lost bool
	// Denied means that the driver refused figures of the whole GPU, as inside a container that has a MIG device.
	Denied      bool
	MemoryTotal sharing.Optional[sharing.Bytes] // the board's
	MIG         sharing.Answer                  // whether MIG mode is on; unknown for a GPU without MIG
	Instances   []MIGInstance
	// ProcessesListed answers whether the processes were listed; unless it is yes, ignore an empty list.
	ProcessesListed sharing.Answer
	Processes       []Process
	// MPS answers whether an MPS server or its clients are among the processes. It is unknown if processes are hidden, as
	// inside containers.
	MPS sharing.Answer
}

// Model finds the GPU in sharing's table, by its name and otherwise by its PCI id. A GPU outside the table is described
// by its memory and capability, see [sharing.DescribeGPU].
func (g *GPU) Model() (*sharing.GPU, error) {
	m, err := sharing.LookupGPU(g.Name)
	for _, text := range []string{g.PCIID, sharing.DescribeGPU(g.Name, g.MemoryTotal.Or(0), g.ComputeCapability,
		g.Architecture)} {
		if err != nil && text != "" {
			if by, otherErr := sharing.LookupGPU(text); otherErr == nil {
				return by, nil
			}
		}
	}
	return m, err
}

// MIGInstance is a GPU instance of a GPU in MIG mode.
type MIGInstance struct {
	ID      sharing.Optional[int]
	UUID    string // "MIG-..." of its MIG device
	Profile string // "1g.10gb"; empty where it is not reported
}

const mpsServer = "nvidia-cuda-mps-server" // the name of the process in which MPS clients' kernels run

// ProgramName is the base name of a process's program: the command line up to the first blank, without directories.
// Arguments may hold secrets and are dropped.
func ProgramName(commandLine string) string {
	program, _, _ := strings.Cut(commandLine, " ")
	if program == "" {
		return ""
	}
	return path.Base(program)
}

// SeesMPS answers from a GPU's processes whether MPS runs on it: yes if its server is among them, unknown if processes
// may be hidden.
func (g *GPU) SeesMPS() sharing.Answer {
	named := func(name string) bool {
		return slices.ContainsFunc(g.Processes, func(p Process) bool { return p.Name == name })
	}
	switch {
	case named(mpsServer):
		return sharing.AnswerYes
	case g.ProcessesListed != sharing.AnswerYes || named(""): // a name is hidden
		return sharing.AnswerUnknown
	}
	return sharing.AnswerNo
}
