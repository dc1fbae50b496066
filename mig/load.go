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

// unlisted is a GPU that is known to do MIG, or is said to, and whose profiles no source gives.
type unlisted struct {
	Name string   `json:"name"`
	PCI  []string `json:"pci"` // device ids
}

// rawGPU and rawProfile read a Model and a Profile; their own fields are what the catalogue writes otherwise.
type rawGPU struct {
	*Model
	MemoryMiB *int64       `json:"memory_mib"`
	SMs       *int         `json:"sms"`
	Engines   []*int       `json:"engines"`
	Profiles  []rawProfile `json:"profiles"`
}

type rawProfile struct {
	*Profile
	ID        *int         `json:"id"`
	MemoryMiB *int64       `json:"memory_mib"`
	SMs       *int         `json:"sms"`
	Engines   []*int       `json:"engines"`
	Starts    []int        `json:"starts"`
	DefaultCI *int         `json:"default_ci"`
	Verified  verification `json:"verified"`
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
		for _, a := range p.Aliases {
			if m.byName[a.Name] == nil {
				m.byName[a.Name] = p
			}
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
	p.Verified = Verified(r.Verified)
	src := r.source()
	p.ID, p.Memory, p.SMs, p.Engines, p.DefaultCI = cell(r.ID, src), mebibytes(r.MemoryMiB, src), cell(r.SMs, src),
		engines(r.Engines, src), cell(r.DefaultCI, src)
	for _, s := range r.Starts {
		p.Placements = append(p.Placements, Placement{Start: s, Size: p.PlacementUnits})
	}
	p.model, p.index = m, index
	return p, nil
}

// source is the first of the profile's sources, or "".
func (r *rawProfile) source() sharing.SourceID {
	return append(r.Sources, "")[0]
}

// verification is a Verified as the catalogue writes it.
type verification Verified

func (v *verification) UnmarshalText(text []byte) error {
	to := []*Verification{&v.Name, &v.ID, &v.Memory, &v.SMs, &v.Engines, &v.MaxInstances, &v.Placements}
	for i := range to {
		level := strings.IndexByte("-IFDCM", append(text, ' ')[min(i, len(text))])
		if level < 0 || len(text) != len(to) {
			return fmt.Errorf("%q has not %d letters of verification", text, len(to))
		}
		*to[i] = Verification(level)
	}
	return nil
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
