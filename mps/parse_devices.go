package mps

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/mps/internal/form"
)

// ServerDevices is the device enumeration of one server, or the default one.
type ServerDevices struct {
	Server  int // process ID; 0 for the default enumeration of servers to come
	Devices []DeviceInfo
}

// DeviceInfo is one device as device_query prints it.
type DeviceInfo struct {
	Ordinal    int
	PCI        string
	UUID       string
	Name       string
	Attributes string // "" where the daemon prints "N/A"
}

// parseDeviceQuery reads the answer of device_query, sections "Default" and "Server
// 673", each a heading and its devices.
func parseDeviceQuery(text string) ([]ServerDevices, error) {
	var out []ServerDevices
	for i, line := range form.Lines(text) {
		bad := garbled("device enumeration", i+1, line)
		trimmed := strings.TrimSpace(line)
		rest, isServer := strings.CutPrefix(trimmed, "Server ")
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "Device Ordinal"):
			continue
		case trimmed == "Default":
			out = append(out, ServerDevices{})
			continue
		case isServer:
			pid, ok := form.PID(strings.TrimSuffix(rest, ":"))
			if !ok {
				return nil, bad
			}
			out = append(out, ServerDevices{Server: pid})
			continue
		}
		d, ok := parseDevice(trimmed)
		if !ok {
			return nil, bad
		}
		if len(out) == 0 {
			out = append(out, ServerDevices{})
		}
		s := &out[len(out)-1]
		s.Devices = append(s.Devices, d)
	}
	return out, nil
}

var wideGap = regexp.MustCompile(`\s{2,}`)

func parseDevice(line string) (DeviceInfo, bool) {
	// A name holds single spaces, and a long one may leave only one before the attributes.
	words := strings.Fields(line)
	if len(words) < 5 {
		return DeviceInfo{}, false
	}
	rest := line
	for _, w := range words[:3] {
		rest = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), w))
	}
	parts := wideGap.Split(rest, 2)
	if len(parts) < 2 {
		last := len(words) - 1
		parts = []string{strings.Join(words[3:last], " "), words[last]}
	}
	f := append(words[:3:3], parts...)
	n, err := strconv.ParseUint(f[0], 10, 16)
	d := DeviceInfo{Ordinal: int(n), PCI: f[1], UUID: f[2], Name: f[3], Attributes: f[4]}
	if d.Attributes == "N/A" {
		d.Attributes = ""
	}
	return d, err == nil && form.IsUUID(d.UUID) && d.Name != "" && d.PCI != ""
}
