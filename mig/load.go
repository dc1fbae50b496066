package mig

import (
	"bytes"
	_ "embed" // the catalogue
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/cotenant/cotenant/sharing"
)

// The catalogue: one GPU an object and one profile a line. "engines" are copy,
// NVDEC, NVENC, JPEG, OFA; a placement is a start and the profile's size;
// "verified" has one letter each for name, id, memory, SMs, engines, maximum
// and placements: M measured, C captured, D documented, F family, I inferred,
// - unverified. What is left out is unknown.
//
//go:embed catalogue.json
var catalogueJSON []byte

type rawCatalogue struct {
	Schema   int        `json:"schema"`
	Unlisted []unlisted `json:"unlisted"`
	GPUs     []rawGPU   `json:"gpus"`
}

// unlisted is a GPU that is known to do MIG, or is said to, and whose profiles
// no source gives.
type unlisted struct {
	Name string   `json:"name"`
	PCI  []string `json:"pci"` // device ids
}

type rawGPU struct {
	Key      string   `json:"key"`
	Products []string `json:"products"`
	PCI      []struct {
		Device     string           `json:"device"`
		Name       string           `json:"name"`
		Subsystems []string         `json:"subsystems"`
		Source     sharing.SourceID `json:"source"`
	} `json:"pci"`
	Architecture      string       `json:"architecture"`
	Chip              string       `json:"chip"`
	ComputeCapability string       `json:"compute_capability"`
	MemoryGB          int          `json:"memory_gb"`
	MemoryMiB         *int64       `json:"memory_mib"`
	ComputeSlices     int          `json:"compute_slices"`
	Units             int          `json:"units"`
	SMs               *int         `json:"sms"`
	Engines           []*int       `json:"engines"`
	Resetless         bool         `json:"resetless"`
	MinDriver         string       `json:"min_driver"`
	CIRule            CIRule       `json:"ci_rule"`
	Verification      string       `json:"verification"`
	Notes             []string     `json:"notes"`
	Profiles          []rawProfile `json:"profiles"`
}

type rawProfile struct {
	Name      string             `json:"name"`
	Const     int                `json:"const"`
	ID        *int               `json:"id"`
	Slices    int                `json:"slices"`
	MemoryMiB *int64             `json:"memory_mib"`
	SMs       *int               `json:"sms"`
	Engines   []*int             `json:"engines"`
	Max       int                `json:"max"`
	Starts    []int              `json:"starts"`
	Size      int                `json:"size"`
	DefaultCI *int               `json:"default_ci"`
	MinDriver string             `json:"min_driver"`
	Aliases   []Alias            `json:"aliases"`
	Verified  string             `json:"verified"`
	Sources   []sharing.SourceID `json:"sources"`
	Notes     []string           `json:"notes"`
}

type catalogue struct {
	models   []*Model
	unlisted []unlisted
	index    lookupIndex
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
	c.index = newLookupIndex(c.models)
	return c, nil
}

func (r *rawGPU) model() (*Model, error) {
	src := sharing.SourceID("")
	if len(r.Profiles) > 0 && len(r.Profiles[0].Sources) > 0 {
		src = r.Profiles[0].Sources[0]
	}
	m := &Model{Key: r.Key, Products: r.Products, Architecture: r.Architecture, Chip: r.Chip,
		ComputeCapability: r.ComputeCapability, MarketingGB: r.MemoryGB, Memory: mebibytes(r.MemoryMiB, src),
		ComputeSlices: r.ComputeSlices, Units: r.Units, SMs: cell(r.SMs, src), Engines: engines(r.Engines, src),
		Resetless: r.Resetless, MinDriver: r.MinDriver, CIRule: r.CIRule, Verification: r.Verification,
		Notes: r.Notes, byName: map[string]*Profile{}}
	for _, p := range r.PCI {
		m.PCI = append(m.PCI, PCIDevice{Device: p.Device, Filter: strings.ToUpper(p.Device[2:])[:4], Subsystems: p.Subsystems, Name: p.Name, Source: p.Source})
		last := &m.PCI[len(m.PCI)-1]
		last.Filter = "0x" + last.Filter + "10DE"
	}
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
		for _, a := range p.Aliases {
			if m.byName[a.Name] == nil {
				m.byName[a.Name] = p
			}
		}
	}
	m.grid = newGrid(m)
	m.sizeOrder = sizeOrder(m.Profiles)
	return m, nil
}

func (r *rawProfile) profile(m *Model, index int) (*Profile, error) {
	name, err := ParseName(r.Name)
	if err != nil {
		return nil, err
	}
	verified, err := parseVerified(r.Verified)
	if err != nil {
		return nil, err
	}
	src := sharing.SourceID("")
	if len(r.Sources) > 0 {
		src = r.Sources[0]
	}
	p := &Profile{Name: r.Name, Const: r.Const, ID: cell(r.ID, src), ComputeSlices: r.Slices, PlacementUnits: r.Size,
		Memory: mebibytes(r.MemoryMiB, src), SMs: cell(r.SMs, src), Engines: engines(r.Engines, src),
		MaxInstances: r.Max, DefaultCI: cell(r.DefaultCI, src), MinDriver: r.MinDriver, Aliases: r.Aliases,
		Verified: verified, Sources: r.Sources, Notes: r.Notes, model: m, index: index, parsed: name}
	for _, s := range r.Starts {
		p.Placements = append(p.Placements, Placement{Start: s, Size: r.Size})
	}
	return p, nil
}

func parseVerified(s string) (Verified, error) {
	var v Verified
	to := []*Verification{&v.Name, &v.ID, &v.Memory, &v.SMs, &v.Engines, &v.MaxInstances, &v.Placements}
	if len(s) != len(to) {
		return v, fmt.Errorf("%q has not %d letters", s, len(to))
	}
	for i := range to {
		level := strings.IndexByte("-IFDCM", s[i])
		if level < 0 {
			return v, fmt.Errorf("%q is no verification letter", s[i])
		}
		*to[i] = Verification(level)
	}
	return v, nil
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

func engines(v []*int, src sharing.SourceID) Engines {
	if len(v) != 5 {
		return Engines{}
	}
	return Engines{Copy: cell(v[0], src), NVDEC: cell(v[1], src), NVENC: cell(v[2], src), JPEG: cell(v[3], src), OFA: cell(v[4], src)}
}
