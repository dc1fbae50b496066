package mps

import (
	"regexp"
	"strconv"
	"strings"
)

// DeviceClients is one device with the clients that enumerate it.
type DeviceClients struct {
	Ordinal int
	Clients []int // their process IDs in the daemon's order, one for each context
}

// parseDeviceClients reads the answer of get_device_client_list: for each device a line "[0] 00:00.0, NVIDIA H200"
// followed by lines "711.1", as driver 580 prints it, or the clients on the device's own line, as the program of
// driver 595 has it.
func parseDeviceClients(text string) ([]DeviceClients, error) {
	var devices []DeviceClients
	for i, line := range lines(text) {
		m := deviceHeading.FindStringSubmatch(line)
		contexts, ok := parseContexts(line)
		switch {
		case strings.TrimSpace(line) == "":
		case m != nil:
			n, _ := strconv.Atoi(m[1]) // of at most four digits
			d := DeviceClients{Ordinal: n}
			d.Clients, _ = parseContexts(m[2]) // otherwise it is the device's name
			devices = append(devices, d)
		case ok && len(devices) > 0:
			d := &devices[len(devices)-1]
			d.Clients = append(d.Clients, contexts...)
		default:
			return nil, garbled("list of devices and their clients", i+1, line)
		}
	}
	return devices, nil
}

var deviceHeading = regexp.MustCompile(`^\[(\d{1,4})\]\s*[0-9a-fA-F:.]+\s*(?:,\s*(.*?)\s*)?$`)

func parseContexts(s string) ([]int, bool) {
	var out []int
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		pidText, ctxText, dotted := strings.Cut(f, ".")
		pid, ok := readPID(pidText)
		if _, err := strconv.ParseUint(ctxText, 10, 31); !ok || dotted && err != nil {
			return nil, false
		}
		out = append(out, pid)
	}
	return out, len(out) > 0
}

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
	for i, line := range lines(text) {
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
			pid, ok := readPID(strings.TrimSuffix(rest, ":"))
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

// deviceLine is a row of the enumeration. A name holds single spaces, and a long one may leave only one before the
// attributes.
var deviceLine = regexp.MustCompile(`^(\d{1,5})\s+(\S+)\s+(\S+)\s+(?:(\S.*?)\s{2,}(\S.*)|(\S.*)\s(\S+))$`)

func parseDevice(line string) (DeviceInfo, bool) {
	m := deviceLine.FindStringSubmatch(line)
	if m == nil {
		return DeviceInfo{}, false
	}
	n, err := strconv.ParseUint(m[1], 10, 16)
	d := DeviceInfo{Ordinal: int(n), PCI: m[2], UUID: m[3], Name: m[4] + m[6], Attributes: m[5] + m[7]}
	if d.Attributes == "N/A" {
		d.Attributes = ""
	}
	return d, err == nil && isUUID(d.UUID)
}
