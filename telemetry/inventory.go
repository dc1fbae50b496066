package telemetry

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// Inventory lists a node's GPUs and their settings, as its driver says: telemetrynvml reads one, and so does
// whoever reads what nvidia-smi printed. What the driver does not say is missing. Serial numbers are left out.
type Inventory struct {
	// Driver and CUDA are versions, e.g. "580.159.04" and "13.0"; empty where they are not known.
	Driver string
	CUDA   string
	// At is the time of the reading by the node's clock. nvidia-smi prints no zone: its times are taken for UTC.
	At   Optional[time.Time]
	GPUs []GPU
}

// GPU is one GPU of an Inventory.
type GPU struct {
	Index Optional[int]
	UUID  string // "GPU-..."
	Name  string // "NVIDIA H100 80GB HBM3"
	// PCIBus is the PCI address in lower case, e.g. "00000000:04:00.0".
	PCIBus string
	PCIID  string // vendor and device as sharing's table writes them: "10DE:2330"

	MemoryTotal    Optional[sharing.Bytes] // the board's memory; MemoryReserved is the driver's part of it
	MemoryReserved Optional[sharing.Bytes]
	MemoryUsed     Optional[sharing.Bytes]
	MemoryFree     Optional[sharing.Bytes]

	// MIG and MIGPending say whether MIG mode is on, and whether it will be
	// after the next reset. Both are unknown of a GPU that has no MIG mode.
	MIG         sharing.Answer
	MIGPending  sharing.Answer
	ComputeMode ComputeMode
	Persistence sharing.Answer

	UtilPercent        Optional[float64]
	MemUtilPercent     Optional[float64]
	PowerWatts         Optional[float64]
	PowerLimitWatts    Optional[float64]
	TemperatureCelsius Optional[float64]

	Instances []MIGInstance
	// ProcessesListed says whether the processes could be seen; without that an empty list means nothing.
	ProcessesListed sharing.Answer
	Processes       []Process
	// MPS says whether an MPS server or its clients are among the processes.
	// It is unknown where they are hidden, as inside containers.
	MPS sharing.Answer
}

// Model finds the GPU in sharing's table, by its name and otherwise by its PCI id.
func (g *GPU) Model() (*sharing.GPU, error) {
	m, err := sharing.LookupGPU(g.Name)
	if err != nil && g.PCIID != "" {
		if by, pciErr := sharing.LookupGPU(g.PCIID); pciErr == nil {
			return by, nil
		}
	}
	return m, err
}

// MIGInstance is a MIG instance of a GPU: a GPU instance with one of its
// compute instances, or a GPU instance alone.
type MIGInstance struct {
	// Index is the MIG device's index; ID and Compute are the ids of the GPU instance and the compute instance.
	Index   Optional[int]
	ID      Optional[int]
	Compute Optional[int]
	UUID    string // "MIG-..."
	Profile string // "1g.10gb"; empty where it is not said
	// Start and Size are the placement in memory slices.
	Start       Optional[int]
	Size        Optional[int]
	SMs         Optional[int]
	MemoryTotal Optional[sharing.Bytes]
	MemoryUsed  Optional[sharing.Bytes]
	MemoryFree  Optional[sharing.Bytes]
}

// ComputeMode says how many processes may hold a context on a GPU. The zero ComputeMode is ComputeModeUnknown.
type ComputeMode uint8

// The compute modes.
const (
	ComputeModeUnknown          ComputeMode = iota
	ComputeModeDefault                      // any number
	ComputeModeExclusiveThread              // one thread; deprecated by NVIDIA
	ComputeModeProhibited                   // none
	ComputeModeExclusiveProcess             // one, e.g. an MPS server
)

var computeModeNames = enum.Of[ComputeMode](errUnknown, "compute mode", "unknown", "default", "exclusive-thread",
	"prohibited", "exclusive-process")

// UnmarshalText reads a mode's name, in nvidia-smi's writing too ("Exclusive_Process").
func (c *ComputeMode) UnmarshalText(b []byte) error {
	return computeModeNames.Parse(c, []byte(strings.ReplaceAll(strings.ToLower(string(b)), "_", "-")))
}

const mpsServer = "nvidia-cuda-mps-server" // the name of the process in which MPS clients' kernels run

// ProgramName is the base name of a process's program: what stands before the first blank of its command line,
// without directories. Arguments may hold secrets and are never kept.
func ProgramName(commandLine string) string {
	program, _, _ := strings.Cut(commandLine, " ")
	if program == "" {
		return ""
	}
	return path.Base(program)
}

// SeesMPS answers from a GPU's processes whether MPS runs on it: yes where its
// server is among them, unknown where processes may be hidden.
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
