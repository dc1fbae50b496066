package mig

import (
	"fmt"
	"slices"
)

// Balanced returns the mix that mig-parted calls all-balanced: two 1g, one 2g and, on seven-slice GPUs, one 3g,
// each in the plain variant of which most fit. The error is ErrNotSupported for GPUs of other sizes.
func (m *Model) Balanced() ([]Count, error) {
	var sizes []Count
	switch m.ComputeSlices {
	case 7:
		sizes = []Count{{"1g", 2}, {"2g", 1}, {"3g", 1}}
	case 4:
		sizes = []Count{{"1g", 2}, {"2g", 1}}
	default:
		return nil, fmt.Errorf("%w: a balanced mix is defined for seven and four compute slices, and %s has %d",
			ErrNotSupported, m.Key, m.ComputeSlices)
	}
	for i := range sizes {
		p := m.base(int(sizes[i].Profile[0] - '0'))
		if p == nil {
			return nil, fmt.Errorf("%w: %s has no plain %s profile", ErrNotSupported, m.Key, sizes[i].Profile)
		}
		sizes[i].Profile = p.Name
	}
	return sizes, nil
}

// base returns the plain profile of some slices of which most fit, or nil.
func (m *Model) base(slices int) *Profile {
	var best *Profile
	for _, p := range m.Profiles {
		if p.ComputeSlices == slices && len(p.parsed.Attributes) == 0 && len(p.parsed.Without) == 0 &&
			(best == nil || p.MaxInstances > best.MaxInstances) {
			best = p
		}
	}
	return best
}

// GenerateParted returns a mig-parted configuration for nodes with these GPUs: all-disabled, all-enabled,
// all-balanced where there is such a mix, and for each profile all-<profile> with as many as fit. With more than
// one model every entry has the device filters of its model, all of them. Models whose profiles are not known are
// refused.
func GenerateParted(models ...*Model) (*PartedConfig, error) {
	c := &PartedConfig{Configs: map[string][]PartedEntry{
		"all-disabled": {{Devices: DeviceSelector{All: true}}},
		"all-enabled":  {{Devices: DeviceSelector{All: true}, MIGEnabled: true, MIGDevices: map[string]int{}}},
	}}
	var list problems
	list.If(len(models) == 0, "models", "name at least one GPU", "is empty")
	for i, m := range models {
		if m == nil || len(m.Profiles) == 0 {
			list.Addf(fmt.Sprintf("models[%d]", i), "ask the device", "the catalogue has no profiles of %s", m)
			continue
		}
		if slices.Contains(models[:i], m) {
			list.Addf(fmt.Sprintf("models[%d]", i), "name it once", "%s stands there twice", m.Key)
			continue
		}
		var filter []DeviceFilter
		if len(models) > 1 {
			filter = m.filters()
		}
		add := func(label string, devices map[string]int) {
			c.Configs[label] = append(c.Configs[label], PartedEntry{Filter: filter, Devices: DeviceSelector{All: true},
				MIGEnabled: true, MIGDevices: devices})
		}
		if counts, err := m.Balanced(); err == nil {
			devices := map[string]int{}
			for _, n := range counts {
				devices[n.Profile] = n.N
			}
			add("all-balanced", devices)
		}
		for _, p := range m.Profiles {
			if p.MaxInstances > 0 {
				add("all-"+labelPart(p.parsed), map[string]int{p.Name: p.MaxInstances})
			}
		}
	}
	if err := list.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// Filters returns the device filters of the model's PCI identities. A device id
// that other models share is given with the subsystems of this one.
func (m *Model) filters() []DeviceFilter {
	var out []DeviceFilter
	for _, p := range m.PCI {
		f, _ := parsePCI(p.Device) // as the catalogue writes it
		if len(f.Models()) < 2 {
			out = append(out, f)
			continue
		}
		for _, s := range p.Subsystems {
			if sub, ok := parsePCI(s); ok {
				g := f
				g.HasSubsystem, g.Subsystem, g.SubsystemVendor = true, sub.Device, nvidiaVendor
				out = append(out, g)
			}
		}
	}
	return out
}
