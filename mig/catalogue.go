// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"bytes"
	"cmp"
	_ "embed" // the catalogue
	"encoding/json"
	"fmt"
	"sync"

	"github.com/cotenant/cotenant/sharing"
)

// Placement locates a GPU instance: a span of a GPU's placement units, as NVML counts them. The id of an instance does
// not reveal its placement.
type Placement struct {
	Start int `json:"start"` // first unit
	Size  int `json:"size"`  // number of units
}

// End returns the unit after the last one.
func (p Placement) End() int { return p.Start + p.Size }

// String writes the placement as nvidia-smi does: "{4}:4" is "4:4".
func (p Placement) String() string { return fmt.Sprintf("%d:%d", p.Start, p.Size) }

// Engines counts the engines of an instance or of a GPU. A count without a source is unknown.
type Engines struct {
	Copy, NVDEC, NVENC, JPEG, OFA sharing.Cell[int]
}

// The rules of Model.CIRule. They are from driver source and unverified on hardware.
const (
	ciRuleSingle     = "single-CI"         // one compute instance in each GPU instance
	ciRuleContiguous = "ampere-contiguous" // any contiguous run of compute slices
)

// PCIDevice is a PCI identity of a model.
type PCIDevice struct {
	Device     string           // PCI device id, "0x2335"
	Subsystems []string         // subsystem ids seen on this model, "0x18BF"; may be empty
	Name       string           // the name in the PCI id database
	Source     sharing.SourceID // where the id comes from
}

// Model is one GPU of the catalogue: boards that partition the same way. Its fields must not be modified.
type Model struct {
	Key               string   // short stable name, "h200-141gb-sxm"
	Products          []string // product names; text in parentheses is added by this catalogue
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
	// CIRule restricts the places of compute instances in a GPU instance: "single-CI", one in each; "ampere-contiguous",
	// any contiguous run of compute slices; "cts-aligned", starts are multiples of the slot size (Hopper and later); empty
	// where unknown.
	CIRule       string `json:"ci_rule"`
	Verification string // the extent of verification, in words
	Notes        []string
	Profiles     []*Profile // in the catalogue's order

	byName    map[string]*Profile
	grid      *grid // nil where placements are unknown
	sizeOrder []int // indexes of Profiles, in the order of placing
}

// Profile is one GPU-instance profile of a model. Its fields must not be modified.
type Profile struct {
	Name string // canonical name; drivers may use an alias
	// Const is the NVML constant (NVML_GPU_INSTANCE_PROFILE_*). It identifies the profile on a device; the name does not.
	Const int
	// ID is the profile id that NVML and nvidia-smi print (19 for 1g on seven-slice GPUs). It is opaque: read it from the
	// device if there is one.
	ID             sharing.Cell[int]
	ComputeSlices  int `json:"slices"` // G
	PlacementUnits int `json:"size"`   // of a placement; 0 where unknown
	// Memory is a sample of NVML's figure; it differs by some percent between drivers.
	Memory       sharing.Cell[sharing.Bytes]
	SMs          sharing.Cell[int] // not proportional to slices
	Engines      Engines
	MaxInstances int         `json:"max"` // most that fit on an empty GPU; 0 where unknown
	Placements   []Placement // the allowed placements; nil where unknown
	// DefaultCI is the compute-instance profile with the most SMs that spans the instance, as known for the GPU family.
	DefaultCI sharing.Cell[int]
	MinDriver string   `json:"min_driver"`
	Aliases   []string `json:"-"` // other names by which drivers call it
	// Verified has one letter each for the name, ID, memory, SMs, engines, MaxInstances and Placements: M measured by this
	// project on this board, C published capture of this board, D documented, F equal on all captured boards of the
	// family, I inferred from the chip or from driver source, - no source.
	Verified string
	Sources  []sharing.SourceID
	Notes    []string

	model  *Model
	index  int
	parsed Name
}

// Model returns the GPU that the profile belongs to.
func (p *Profile) Model() *Model { return p.model }

// String returns the profile's canonical name, "?" for nil.
func (p *Profile) String() string {
	if p == nil {
		return "?"
	}
	return p.Name
}

// The catalogue: one GPU an object and one profile a line. "engines" are copy, NVDEC, NVENC, JPEG, OFA; a placement
// is a start and the profile's size. What is left out is unknown.
//
//go:embed catalogue.json
var catalogueJSON []byte

type rawCatalogue struct {
	Schema   int        `json:"schema"`
	Unlisted []unlisted `json:"unlisted"`
	GPUs     []rawGPU   `json:"gpus"`
}

// unlisted is a GPU that supports MIG, or is reported to, without a source for its profiles.
type unlisted struct {
	Name string   `json:"name"`
	PCI  []string `json:"pci"` // device ids
}

// rawGPU and rawProfile read a Model and a Profile; their own fields have another form in the catalogue.
type rawGPU struct {
	*Model
	MemoryMiB *int64       `json:"memory_mib"`
	SMs       *int         `json:"sms"`
	Engines   []*int       `json:"engines"`
	Profiles  []rawProfile `json:"profiles"`
}

type rawProfile struct {
	*Profile
	ID        *int   `json:"id"`
	MemoryMiB *int64 `json:"memory_mib"`
	SMs       *int   `json:"sms"`
	Engines   []*int `json:"engines"`
	Starts    []int  `json:"starts"`
	DefaultCI *int   `json:"default_ci"`
	Aliases   []struct {
		Name string
		When string // which drivers use it
	} `json:"aliases"`
}

type catalogue struct {
	models   []*Model
	unlisted []unlisted
}

// loaded is the catalogue, read once. That the embedded file reads without an
// error is held by a test; were it damaged, every lookup would return the error.
var loaded = sync.OnceValues(func() (*catalogue, error) { return loadCatalogue(catalogueJSON) })

func loadCatalogue(data []byte) (*catalogue, error) {
	var raw rawCatalogue
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&raw); err != nil {
		return nil, fmt.Errorf("mig: catalogue: %w", err)
	}
	c := &catalogue{unlisted: raw.Unlisted}
	for i := range raw.GPUs {
		m, err := raw.GPUs[i].model()
		if err != nil {
			return nil, fmt.Errorf("mig: catalogue: %s: %w", raw.GPUs[i].Key, err)
		}
		c.models = append(c.models, m)
	}
	return c, nil
}

func (r *rawGPU) model() (*Model, error) {
	m, src := r.Model, sharing.SourceID("")
	if len(r.Profiles) > 0 {
		src = r.Profiles[0].source()
	}
	m.Memory, m.SMs, m.Engines, m.byName = mebibytes(r.MemoryMiB, src), cell(r.SMs, src), engines(r.Engines, src),
		map[string]*Profile{}
	for i := range r.Profiles {
		p, err := r.Profiles[i].profile(m, i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Profiles[i].Name, err)
		}
		m.Profiles = append(m.Profiles, p)
	}
	for _, p := range m.Profiles {
		m.byName[p.Name] = p
	}
	for _, p := range m.Profiles {
		for _, name := range p.Aliases {
			m.byName[name] = cmp.Or(m.byName[name], p)
		}
	}
	m.prepare()
	return m, nil
}

func (r *rawProfile) profile(m *Model, index int) (*Profile, error) {
	p := r.Profile
	var err error
	if p.parsed, err = ParseName(p.Name); err != nil {
		return nil, err
	}
	src := r.source()
	p.ID, p.Memory, p.SMs, p.Engines, p.DefaultCI = cell(r.ID, src), mebibytes(r.MemoryMiB, src), cell(r.SMs, src),
		engines(r.Engines, src), cell(r.DefaultCI, src)
	for _, s := range r.Starts {
		p.Placements = append(p.Placements, Placement{Start: s, Size: p.PlacementUnits})
	}
	for _, a := range r.Aliases {
		p.Aliases = append(p.Aliases, a.Name)
	}
	p.model, p.index = m, index
	return p, nil
}

// source is the first of the profile's sources, or "".
func (r *rawProfile) source() sharing.SourceID {
	return append(r.Sources, "")[0]
}

func cell(v *int, src sharing.SourceID) sharing.Cell[int] {
	if v == nil {
		return sharing.Cell[int]{}
	}
	return sharing.KnownCell(*v, src)
}

func mebibytes(v *int64, src sharing.SourceID) sharing.Cell[sharing.Bytes] {
	if v == nil {
		return sharing.Cell[sharing.Bytes]{}
	}
	return sharing.KnownCell(sharing.Bytes(*v)*sharing.MiB, src)
}

func engines(v []*int, src sharing.SourceID) (e Engines) {
	if len(v) == 5 {
		e = Engines{cell(v[0], src), cell(v[1], src), cell(v[2], src), cell(v[3], src), cell(v[4], src)}
	}
	return e
}

func (e Engines) list() [5]sharing.Cell[int] {
	return [5]sharing.Cell[int]{e.Copy, e.NVDEC, e.NVENC, e.JPEG, e.OFA}
}
