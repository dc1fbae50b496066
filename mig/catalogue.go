package mig

import (
	"fmt"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// Placement locates a GPU instance: a span of a GPU's placement units, as
// NVML counts them. The id of an instance does not tell its placement.
type Placement struct {
	Start int `json:"start"` // first unit
	Size  int `json:"size"`  // number of units
}

// End returns the unit after the last one.
func (p Placement) End() int { return p.Start + p.Size }

// String writes the placement as nvidia-smi does: "{4}:4" is "4:4".
func (p Placement) String() string { return fmt.Sprintf("%d:%d", p.Start, p.Size) }

// Engines counts the engines of an instance or of a GPU. A count that no source gives is unknown.
type Engines struct {
	Copy, NVDEC, NVENC, JPEG, OFA sharing.Cell[int]
}

// Verification says how well a fact of the catalogue is known. The zero value is Unverified.
type Verification uint8

// The levels, weakest first.
const (
	VerificationUnverified Verification = iota // no source was seen
	VerificationInferred                       // from a part with the same chip, or from driver source
	// true of every board of the family that was captured, not captured on this one
	VerificationFamily
	VerificationDocumented // a guide, a driver's name table or a shipped configuration
	VerificationCaptured   // nvidia-smi or NVML output captured on this board and published
	VerificationMeasured   // measured by us on this board
)

var verificationNames = enum.Of[Verification](ErrInvalid, "verification level", "unverified", "inferred", "family",
	"documented", "captured", "measured")

// Verified says how well each group of a profile's facts is known.
type Verified struct {
	Name, ID, Memory, SMs, Engines, MaxInstances, Placements Verification
}

// CIRule restricts the places of compute instances in a GPU instance.
type CIRule uint8

// The rules. They are from driver source and unverified on hardware.
const (
	CIRuleUnknown    CIRule = iota // not known
	CIRuleSingle                   // one compute instance in each GPU instance
	CIRuleContiguous               // any contiguous run of compute slices (Ampere)
	CIRuleAligned                  // starts are multiples of the slot size (Hopper and later)
)

var ciRuleNames = enum.Of[CIRule](ErrInvalid, "compute-instance rule", "unknown", "single-CI", "ampere-contiguous",
	"cts-aligned")

// PCIDevice is a PCI identity of a model.
type PCIDevice struct {
	Device     string           // PCI device id, "0x2335"
	Subsystems []string         // subsystem ids seen on this model, "0x18BF"; may be empty
	Name       string           // the name in the PCI id database
	Source     sharing.SourceID // where the id comes from
}

// Alias is another name of a profile, and when drivers use it.
type Alias struct {
	Name string
	When string
}

// Model is one GPU of the catalogue: boards that partition the same way. Its fields must not be modified.
type Model struct {
	Key               string   // short stable name, "h200-141gb-sxm"
	Products          []string // product names; text in parentheses is ours
	PCI               []PCIDevice
	Architecture      string // "Ampere", "Hopper", "Blackwell", ...
	Chip              string // "GH100"
	ComputeCapability string `json:"compute_capability"` // "9.0"; empty where unknown
	MarketingGB       int    `json:"memory_gb"`          // memory in the product name; 0 where unknown
	Memory            sharing.Cell[sharing.Bytes]
	ComputeSlices     int `json:"compute_slices"` // of the whole GPU; 0 where unknown
	Units             int // placement units of the grid; 0 where unknown
	SMs               sharing.Cell[int]
	Engines           Engines // of the whole GPU in MIG mode
	Resetless         bool    // MIG mode changes without a GPU reset (NVML field 184)
	MinDriver         string  `json:"min_driver"` // first driver, "R525.85.12"; empty where unknown
	CIRule            CIRule  `json:"ci_rule"`
	Verification      string  // what was verified, in words
	Notes             []string
	Profiles          []*Profile // in the catalogue's order

	byName    map[string]*Profile
	grid      *grid // nil where placements are unknown
	sizeOrder []int // indexes of Profiles, in the order of placing
}

// Profile is one GPU-instance profile of a model. Its fields must not be modified.
type Profile struct {
	Name string // canonical name; drivers may use an alias
	// Const is the NVML constant (NVML_GPU_INSTANCE_PROFILE_*). It identifies
	// the profile on a device; the name does not.
	Const int
	// ID is the profile id that NVML and nvidia-smi print (19 for 1g on
	// seven-slice GPUs). It is opaque: read it from the device when there is one.
	ID             sharing.Cell[int]
	ComputeSlices  int `json:"slices"` // G
	PlacementUnits int `json:"size"`   // of a placement; 0 where unknown
	// Memory is a sample of what NVML reports; it differs by some percent between drivers.
	Memory       sharing.Cell[sharing.Bytes]
	SMs          sharing.Cell[int] // not proportional to slices
	Engines      Engines
	MaxInstances int         `json:"max"` // most that fit on an empty GPU; 0 where unknown
	Placements   []Placement // where it may start; nil where unknown
	// DefaultCI is the compute-instance profile with the most SMs that spans the instance, as known for the family.
	DefaultCI sharing.Cell[int]
	MinDriver string `json:"min_driver"`
	Aliases   []Alias
	Verified  Verified
	Sources   []sharing.SourceID
	Notes     []string

	model  *Model
	index  int
	parsed Name
}

// Model returns the GPU that the profile belongs to.
func (p *Profile) Model() *Model { return p.model }

// String returns the profile's canonical name.
func (p *Profile) String() string { return p.Name }
