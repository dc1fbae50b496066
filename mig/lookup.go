// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Models returns every GPU of the catalogue. The slice is the caller's, the models are shared.
func Models() []*Model {
	c, err := loaded()
	if err != nil {
		return nil
	}
	return slices.Clone(c.models)
}

// lookupError is returned for a name or PCI id that is not that of exactly one GPU
// of the catalogue. It is a sharing.ErrUnknownGPU or an ErrAmbiguousGPU.
type lookupError struct {
	Name    string
	Matches []string // keys of the GPUs that match; empty when none does
	hint    string
}

// keys lists the catalogue.
func keys() string {
	var out []string
	for _, m := range Models() {
		out = append(out, m.Key)
	}
	return strings.Join(out, ", ")
}

func (e *lookupError) Error() string {
	if len(e.Matches) > 0 {
		return fmt.Sprintf("mig: ambiguous GPU %q: it may be %s; use one of these, or a PCI id with its subsystem",
			problem.Clip(e.Name), strings.Join(e.Matches, ", "))
	}
	return fmt.Sprintf("mig: unknown GPU %q; %s", problem.Clip(e.Name),
		cmp.Or(e.hint, "it is not among those with MIG: "+keys()))
}

func (e *lookupError) Is(target error) bool {
	if len(e.Matches) > 0 {
		return target == ErrAmbiguousGPU
	}
	return target == sharing.ErrUnknownGPU
}

// names are the key and the products' names.
func (m *Model) names() []string { return append([]string{m.Key}, m.Products...) }

// called reports whether one of the names is folded.
func (m *Model) called(folded string) bool {
	return slices.ContainsFunc(m.names(), func(name string) bool { return sharing.FoldGPUName(name) == folded })
}

// Lookup finds a GPU by product name ("NVIDIA A100-SXM4-80GB"), key ("a100-80gb") or PCI id ("0x2335", "0x233510DE",
// "0x2BB310DE:0x204D10DE", "10de:2335"). Names match loosely: case, "NVIDIA ", separators and a suffix in parentheses
// are ignored, and sharing.LookupGPU's short forms ("A100 80GB") are accepted. The error is a
// [sharing.ErrUnknownGPU] or an ErrAmbiguousGPU.
func Lookup(name string) (*Model, error) {
	c, err := loaded()
	if err != nil {
		return nil, err
	}
	if f, ok := parsePCI(name); ok {
		return c.oneOf(name, f.among(c.models))
	}
	folded := sharing.FoldGPUName(name)
	if i := slices.IndexFunc(c.models, func(m *Model) bool { return sharing.FoldGPUName(m.Key) == folded }); i >= 0 {
		return c.models[i], nil
	}
	matches := c.byProduct(name)
	if len(matches) == 0 {
		matches = c.where(func(m *Model) bool { return m.called(folded) })
	}
	return c.oneOf(name, matches)
}

func (c *catalogue) where(is func(*Model) bool) []*Model {
	return slices.DeleteFunc(slices.Clone(c.models), func(m *Model) bool { return !is(m) })
}

// byProduct finds the GPUs that the product table of package sharing knows by
// the name, so that both mean the same board by it.
func (c *catalogue) byProduct(name string) []*Model {
	var products []string
	g, err := sharing.LookupGPU(name)
	var ambiguous *sharing.AmbiguousGPUError
	switch {
	case err == nil:
		products = []string{g.Name}
	case errors.As(err, &ambiguous):
		products = ambiguous.Matches
	}
	found := map[*Model]bool{}
	for _, product := range products {
		g, err := sharing.LookupGPU(product)
		if err != nil {
			continue
		}
		for _, id := range g.PCIIDs {
			f, _ := parsePCI(id)
			among := f.among(c.models)
			for _, m := range among {
				// Boards that share a PCI id are distinguished by name.
				found[m] = found[m] || len(among) == 1 || m.called(sharing.FoldGPUName(product))
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return c.where(func(m *Model) bool { return found[m] })
}

// oneOf is the only match, or an error with the candidates.
func (c *catalogue) oneOf(name string, matches []*Model) (*Model, error) {
	if len(matches) == 1 {
		return matches[0], nil
	}
	e := &lookupError{Name: name}
	for _, m := range matches {
		e.Matches = append(e.Matches, m.Key)
	}
	if len(matches) > 0 {
		return nil, e
	}
	f, isPCI := parsePCI(name)
	var known []string
	for _, m := range c.models {
		for _, n := range m.names() {
			known = append(known, strings.TrimPrefix(n, "NVIDIA "))
		}
	}
	if near := problem.Nearest(name, known); near != "" && !isPCI {
		e.hint = fmt.Sprintf("did you mean %q?", near)
	}
	if g, err := sharing.LookupGPU(name); err == nil && g.MIG.Value == sharing.AnswerNo {
		e.hint = g.Name + " has no MIG"
	}
	for _, u := range c.unlisted {
		if isPCI && f.Vendor == nvidiaVendor && slices.Contains(u.PCI, fmt.Sprintf("0x%04X", f.Device)) ||
			sharing.FoldGPUName(u.Name) == sharing.FoldGPUName(name) {
			e.hint = fmt.Sprintf("no source gives the MIG profiles of %s: ask the device", u.Name)
		}
	}
	return nil, e
}

// Profile returns the profile with a name. Aliases and the prefix "MIG " are accepted, and the name of a compute
// instance ("1c.3g.40gb") gives the profile of its GPU instance. The error is an ErrInvalid with the nearest names.
func (m *Model) Profile(name string) (*Profile, error) {
	if p := m.byName[name]; p != nil {
		return p, nil
	}
	n, err := ParseName(name)
	if err != nil {
		return nil, err
	}
	if p := m.byName[n.gpuInstance().String()]; p != nil {
		return p, nil
	}
	return nil, m.unknownProfile(name)
}

// profileByConst returns the profile of an NVML constant (NVML_GPU_INSTANCE_PROFILE_*), or nil without it.
func (m *Model) profileByConst(nvmlConst int) *Profile {
	for _, p := range m.Profiles {
		if p.Const == nvmlConst {
			return p
		}
	}
	return nil
}

func (m *Model) unknownProfile(name string) error {
	if len(m.Profiles) == 0 {
		return invalid(fmt.Errorf("the catalogue has no profiles of %s; ask the device", m.Key))
	}
	msg := fmt.Sprintf("%s has no profile %q", m.Key, problem.Clip(name))
	if near := m.nearest(name); near != "" {
		return invalid(fmt.Errorf("%s; did you mean %q?", msg, near))
	}
	return invalid(fmt.Errorf("%s (it has %s)", msg, strings.Join(m.ProfileNames(), ", ")))
}

// nearest returns the profile of the same slices and attributes with the nearest
// memory, or the name that is nearest in letters, or "".
func (m *Model) nearest(name string) string {
	n, err := ParseName(name)
	if err != nil {
		return problem.Nearest(name, m.ProfileNames())
	}
	best, distance := "", 0
	for _, p := range m.Profiles {
		q := p.parsed
		d := max(q.GB-n.GB, n.GB-q.GB)
		if q.Slices == n.Slices && slices.Equal(q.Attributes, n.Attributes) && slices.Equal(q.Without, n.Without) &&
			(best == "" || d < distance) {
			best, distance = p.Name, d
		}
	}
	return best
}

// ProfileNames returns the canonical names of the model's profiles in the catalogue's order.
func (m *Model) ProfileNames() []string {
	names := make([]string, len(m.Profiles))
	for i, p := range m.Profiles {
		names[i] = p.Name
	}
	return names
}

// String returns the model's key.
func (m *Model) String() string {
	if m == nil {
		return "no GPU"
	}
	return m.Key
}

// DeviceFilter selects GPUs by PCI identity, as mig-parted's device-filter
// does: "0x233510DE", or "0x2BB310DE:0x204D10DE" with the subsystem.
type DeviceFilter struct {
	Device, Vendor uint16
	// Subsystem and SubsystemVendor are used only if HasSubsystem is set; otherwise the filter matches every subsystem.
	Subsystem, SubsystemVendor uint16
	HasSubsystem               bool
}

const filterRemedy = `write 0x<device><vendor>, for example "0x233510DE" or "0x2BB310DE:0x204D10DE"`

const hexID = `([0-9A-Fa-f]{4})`

var filterForm = regexp.MustCompile(`^0[xX]` + hexID + hexID + `(?::0[xX]` + hexID + hexID + `)?$`)

// ParseDeviceFilter reads a filter: 0x, four hexadecimal digits of the device
// and four of the vendor, and optionally the same for the subsystem after ":".
func ParseDeviceFilter(s string) (DeviceFilter, error) {
	m := filterForm.FindStringSubmatch(s)
	if m == nil {
		return DeviceFilter{}, invalid(fmt.Errorf("%q is not a device filter (%s)", problem.Clip(s), filterRemedy))
	}
	return DeviceFilter{Device: hexWord(m[1]), Vendor: hexWord(m[2]), Subsystem: hexWord(m[3]),
		SubsystemVendor: hexWord(m[4]), HasSubsystem: m[3] != ""}, nil
}

// hexWord reads the four hexadecimal digits that a form found; none are 0.
func hexWord(s string) uint16 {
	v, _ := strconv.ParseUint(s, 16, 16)
	return uint16(v)
}

// String writes the filter with upper-case digits, as mig-parted's own files do.
func (f DeviceFilter) String() string {
	s := fmt.Sprintf("0x%04X%04X", f.Device, f.Vendor)
	if f.HasSubsystem {
		s += fmt.Sprintf(":0x%04X%04X", f.Subsystem, f.SubsystemVendor)
	}
	return s
}

const nvidiaVendor = 0x10DE

// Models returns the catalogue's GPUs that a device with this identity may be, in the catalogue's order; none if the
// catalogue lacks the device. A subsystem distinguishes GPUs that share a device id; if none of them lists the
// subsystem, all are returned.
func (f DeviceFilter) Models() []*Model {
	c, err := loaded()
	if err != nil {
		return nil
	}
	return f.among(c.models)
}

func (f DeviceFilter) among(models []*Model) []*Model {
	if f.Vendor != nvidiaVendor {
		return nil
	}
	device := fmt.Sprintf("0x%04X", f.Device)
	sub := fmt.Sprintf("0x%04x", f.Subsystem)
	var all, listed []*Model
	for _, m := range models {
		for _, p := range m.PCI {
			if !strings.EqualFold(p.Device, device) {
				continue
			}
			all = append(all, m)
			if f.HasSubsystem && slices.ContainsFunc(p.Subsystems, func(s string) bool { return strings.EqualFold(s, sub) }) {
				listed = append(listed, m)
			}
		}
	}
	if len(listed) > 0 {
		return listed
	}
	return all
}

var pciForm = regexp.MustCompile(`^(?:([0-9A-Fa-f]{4}):|0[xX])([0-9A-Fa-f]{4})$`)

// parsePCI reads the spellings of a PCI identity that Lookup accepts.
func parsePCI(s string) (DeviceFilter, bool) {
	if m := pciForm.FindStringSubmatch(s); m != nil {
		f := DeviceFilter{Device: hexWord(m[2]), Vendor: nvidiaVendor}
		if m[1] != "" {
			f.Vendor = hexWord(m[1])
		}
		return f, true
	}
	f, err := ParseDeviceFilter(s)
	return f, err == nil
}
