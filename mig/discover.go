// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cotenant/cotenant/sharing"
)

// DeviceProfile is a GPU-instance profile as a device reports it.
type DeviceProfile struct {
	Const        int // NVML constant
	ID           int
	Slices       int
	MaxInstances int
	Memory       sharing.Bytes
	SMs          int
	Copy         int
	NVDEC, NVENC int
	JPEG, OFA    int
	Placements   []Placement
}

// DeviceIdentity holds a device's name, PCI identity and size.
type DeviceIdentity struct {
	Name      string
	PCI       DeviceFilter
	Memory    sharing.Bytes
	Resetless sharing.Answer
}

const deviceSource sharing.SourceID = "nvidia-nvml-api" // the source of facts that a device itself answered

// Discover returns the model of a live GPU. The device's own data takes precedence: where its ids and placements agree
// with the catalogue's entry, Discover returns that entry, with its aliases and history; otherwise, and for GPUs
// outside the catalogue, it returns a new model made of the device's data alone, with the key "<name>@device". Profiles
// are matched by NVML constant. GPUs with the same data have the same model. It fails when the device reports no
// profiles or their units don't form a grid.
func Discover(id DeviceIdentity, profiles []DeviceProfile) (*Model, error) {
	if len(profiles) == 0 {
		return nil, fmt.Errorf("%w: %s reports no MIG profiles", ErrNotSupported, id.Name)
	}
	candidates := id.PCI.Models()
	for _, m := range candidates {
		if m.agrees(profiles) {
			return m, nil
		}
	}
	sorted := slices.Clone(profiles)
	slices.SortFunc(sorted, func(a, b DeviceProfile) int {
		return cmp.Or(cmp.Compare(a.Slices, b.Slices), cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.Const, b.Const))
	})
	m, err := newDiscovered(id, candidates, sorted)
	if err != nil {
		return nil, err
	}
	known, _ := discovered.LoadOrStore(fmt.Sprintf("%+v %+v", id, sorted), m)
	return known.(*Model), nil
}

// discovered has the model of each set of answers, so that models can be
// compared by pointer however often a device is opened.
var discovered sync.Map

func newDiscovered(id DeviceIdentity, candidates []*Model, profiles []DeviceProfile) (*Model, error) {
	m := &Model{Key: deviceKey(id.Name) + "@device", Products: []string{id.Name},
		byName: map[string]*Profile{},
		Memory: sharing.KnownCell(id.Memory, deviceSource), Resetless: id.Resetless == sharing.AnswerYes,
		Verification: "answered by the device"}
	if len(candidates) == 1 {
		c := candidates[0]
		m.Architecture, m.Chip, m.ComputeCapability, m.CIRule = c.Architecture, c.Chip, c.ComputeCapability, c.CIRule
	}
	whole := profiles[len(profiles)-1]
	for _, d := range profiles {
		p := m.discovered(d, id.Memory, len(m.Profiles))
		for m.byName[p.Name] != nil { // two constants may share a name: make it unique
			p.Name += fmt.Sprintf("+c%d", d.Const)
			p.parsed.Attributes = append(p.parsed.Attributes, fmt.Sprintf("c%d", d.Const))
		}
		m.Profiles = append(m.Profiles, p)
		m.byName[p.Name] = p
		for _, pl := range d.Placements {
			m.Units = max(m.Units, pl.End())
		}
	}
	m.ComputeSlices = whole.Slices
	m.SMs = sharing.KnownCell(whole.SMs, deviceSource)
	m.Engines = deviceEngines(whole)
	if m.prepare(); m.grid == nil {
		return nil, fmt.Errorf("%w: %s reports %d units and %d profiles", ErrPlacementsUnknown, id.Name, m.Units,
			len(m.Profiles))
	}
	return m, nil
}

// deviceKey is a name in lower case, without "NVIDIA" and any parenthesis, its words joined by hyphens.
func deviceKey(name string) string {
	name, _, _ = strings.Cut(strings.TrimPrefix(strings.ToLower(name), "nvidia "), "(")
	return strings.Join(strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(" -_\t/", r) }), "-")
}

// agrees reports whether a device's answers are the catalogue's in everything that planning rests on.
func (m *Model) agrees(profiles []DeviceProfile) bool {
	if m.grid == nil || len(profiles) != len(m.Profiles) {
		return false
	}
	for _, d := range profiles {
		p := m.profileByConst(d.Const)
		if p == nil || p.ComputeSlices != d.Slices || p.ID.Known && p.ID.Value != d.ID ||
			!slices.Equal(p.Placements, d.Placements) {
			return false
		}
	}
	return true
}

// profileAttributes maps NVML constants to their suffixes of a name.
var profileAttributes = map[int]string{7: "+me", 8: "+me", 10: "+gfx", 11: "+gfx", 12: "+gfx", 13: "-me", 14: "-me",
	15: "+me.all", 16: "+me.all", 17: "+gfx"}

func (m *Model) discovered(d DeviceProfile, total sharing.Bytes, index int) *Profile {
	name := Name{ComputeSlices: d.Slices, Slices: d.Slices, GB: nominalGB(d.Memory, total)}
	if a := profileAttributes[d.Const]; a != "" {
		if a[0] == '+' {
			name.Attributes = []string{a[1:]}
		} else {
			name.Without = []string{a[1:]}
		}
	}
	p := &Profile{Name: name.String(), Const: d.Const, ID: sharing.KnownCell(d.ID, deviceSource), ComputeSlices: d.Slices,
		Memory: sharing.KnownCell(d.Memory, deviceSource), SMs: sharing.KnownCell(d.SMs, deviceSource),
		Engines: deviceEngines(d), MaxInstances: d.maxInstances(), Placements: slices.Clone(d.Placements),
		Sources: []sharing.SourceID{deviceSource}, Verified: "MMMMMMM", model: m, index: index, parsed: name}
	if len(d.Placements) > 0 {
		p.PlacementUnits = d.Placements[0].Size
	}
	return p
}

// maxInstances returns the driver's number, where it can be true: it has reported
// wrong numbers (of the A30, around which mig-parted works too).
func (d DeviceProfile) maxInstances() int {
	if d.MaxInstances < 1 || d.MaxInstances > len(d.Placements) {
		return len(d.Placements)
	}
	return d.MaxInstances
}

func deviceEngines(d DeviceProfile) Engines {
	return engines([]*int{&d.Copy, &d.NVDEC, &d.NVENC, &d.JPEG, &d.OFA}, deviceSource)
}

// nominalGB returns the figure that drivers put into the name of a profile with mem of a GPU's total memory: its
// eighths, rounded up, of the whole GiB. It reproduces the catalogue's names, but drivers have used others (GB200).
func nominalGB(mem, total sharing.Bytes) int {
	if mem <= 0 || total <= 0 {
		return 0
	}
	eighths := (8*int64(mem)/int64(sharing.MiB) + int64(total/sharing.MiB) - 1) / int64(total/sharing.MiB)
	gib := (int64(total) + int64(sharing.GiB) - 1) / int64(sharing.GiB)
	return int((eighths*gib + 4) / 8)
}
