// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"regexp"
	"strconv"
	"strings"
)

// deviceClients is one device with the clients that enumerate it.
type deviceClients struct {
	ordinal int
	clients []int // their process IDs in the daemon's order, one for each context
}

// parseDeviceClients reads the answer of get_device_client_list: for each device a line "[0] 00:00.0, NVIDIA H200"
// followed by lines "711.1", as driver 580 prints it, or the clients on the device's own line, as the program of
// driver 595 has it.
func parseDeviceClients(text string) ([]deviceClients, error) {
	var devices []deviceClients
	for i, line := range lines(text) {
		m := deviceHeading.FindStringSubmatch(line)
		contexts, ok := parseContexts(line)
		switch {
		case strings.TrimSpace(line) == "":
		case m != nil:
			n, _ := strconv.Atoi(m[1]) // of at most four digits
			d := deviceClients{ordinal: n}
			d.clients, _ = parseContexts(m[2]) // otherwise it is the device's name
			devices = append(devices, d)
		case ok && len(devices) > 0:
			d := &devices[len(devices)-1]
			d.clients = append(d.clients, contexts...)
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

// parseDeviceQuery reads the default enumeration in an answer of device_query, which comes before those of the servers:
// a heading and the devices.
func parseDeviceQuery(text string) ([]GPU, error) {
	var out []GPU
	for i, line := range lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "Server "):
			return out, nil
		case line == "" || line == "Default" || strings.HasPrefix(line, "Device Ordinal"):
			continue
		}
		m := deviceLine.FindStringSubmatch(line)
		if m == nil || !isUUID(m[2]) {
			return nil, garbled("device enumeration", i+1, line)
		}
		n, _ := strconv.Atoi(m[1]) // of at most four digits
		out = append(out, GPU{Ordinal: n, UUID: m[2]})
	}
	return out, nil
}

// deviceLine is a row of the enumeration: the ordinal, the PCI address, the UUID, the name and the attributes.
var deviceLine = regexp.MustCompile(`^(\d{1,4})\s+\S+\s+(\S+)\s+\S`)
