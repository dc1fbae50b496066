package mig

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// DeviceFilter selects GPUs by PCI identity, as mig-parted's device-filter
// does: "0x233510DE", or "0x2BB310DE:0x204D10DE" with the subsystem.
type DeviceFilter struct {
	Device, Vendor uint16
	// Subsystem and SubsystemVendor count only where HasSubsystem is set;
	// a filter without them matches every subsystem.
	Subsystem, SubsystemVendor uint16
	HasSubsystem               bool
}

const filterRemedy = `write 0x<device><vendor>, for example "0x233510DE" or "0x2BB310DE:0x204D10DE"`

// ParseDeviceFilter reads a filter: 0x, four hexadecimal digits of the device
// and four of the vendor, and optionally the same for the subsystem after ":".
func ParseDeviceFilter(s string) (DeviceFilter, error) {
	var f DeviceFilter
	main, sub, hasSub := strings.Cut(s, ":")
	var ok bool
	if f.Device, f.Vendor, ok = filterWord(main); ok && hasSub {
		f.HasSubsystem = true
		f.Subsystem, f.SubsystemVendor, ok = filterWord(sub)
	}
	if !ok {
		return DeviceFilter{}, invalid(fmt.Errorf("%q is not a device filter (%s)", problem.Clip(s), filterRemedy))
	}
	return f, nil
}

func filterWord(s string) (device, vendor uint16, ok bool) {
	if len(s) != 10 || s[0] != '0' || s[1] != 'x' && s[1] != 'X' {
		return 0, 0, false
	}
	v, err := strconv.ParseUint(s[2:], 16, 32)
	return uint16(v >> 16), uint16(v), err == nil
}

// String writes the filter with upper-case digits, as mig-parted's own files do.
func (f DeviceFilter) String() string {
	s := fmt.Sprintf("0x%04X%04X", f.Device, f.Vendor)
	if f.HasSubsystem {
		s += fmt.Sprintf(":0x%04X%04X", f.Subsystem, f.SubsystemVendor)
	}
	return s
}

// MarshalText writes the filter.
func (f DeviceFilter) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads what ParseDeviceFilter reads.
func (f *DeviceFilter) UnmarshalText(b []byte) error {
	v, err := ParseDeviceFilter(string(b))
	if err == nil {
		*f = v
	}
	return err
}

const nvidiaVendor = 0x10DE

// Models returns the catalogue's GPUs that a device with this identity may be,
// in the catalogue's order; none when the device is not in the catalogue. A
// subsystem tells apart GPUs that share a device id; a subsystem that none of
// them lists leaves them all.
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

// parsePCI reads the spellings of a PCI identity that Lookup accepts.
func parsePCI(s string) (DeviceFilter, bool) {
	if f, err := ParseDeviceFilter(s); err == nil {
		return f, true
	}
	var f DeviceFilter
	if vendor, device, ok := strings.Cut(s, ":"); ok && len(vendor) == 4 && len(device) == 4 {
		v, err1 := strconv.ParseUint(vendor, 16, 16)
		d, err2 := strconv.ParseUint(device, 16, 16)
		f.Vendor, f.Device = uint16(v), uint16(d)
		return f, err1 == nil && err2 == nil
	}
	if len(s) == 6 && (strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X")) {
		d, err := strconv.ParseUint(s[2:], 16, 16)
		f.Vendor, f.Device = nvidiaVendor, uint16(d)
		return f, err == nil
	}
	return f, false
}
