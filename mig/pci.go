package mig

import (
	"fmt"
	"regexp"
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

// Models returns the catalogue's GPUs that a device with this identity may be, in the catalogue's order; none when
// the device is not in the catalogue. A subsystem tells apart GPUs that share a device id; a subsystem that none of
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
