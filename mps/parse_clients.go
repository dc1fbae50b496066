package mps

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// DeviceClients is one device with the clients that enumerate it.
type DeviceClients struct {
	Ordinal int
	PCI     string          // the bus address as printed, e.g. "00:00.0"
	Name    string          // "" where the daemon prints none
	Clients []ClientContext // in the daemon's order
}

// ClientContext is one context of a client.
type ClientContext struct {
	PID     int
	Context Optional[int] // the number of the client's context, where the daemon prints it
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
			d := DeviceClients{Ordinal: n, PCI: m[2]}
			if d.Clients, ok = parseContexts(m[3]); !ok {
				d.Name = m[3]
			}
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

var deviceHeading = regexp.MustCompile(`^\[(\d{1,4})\]\s*([0-9a-fA-F:.]+)\s*(?:,\s*(.*?)\s*)?$`)

func parseContexts(s string) ([]ClientContext, bool) {
	var out []ClientContext
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		pidText, ctxText, dotted := strings.Cut(f, ".")
		pid, ok := readPID(pidText)
		c := ClientContext{PID: pid}
		if dotted && ok {
			n, err := strconv.ParseUint(ctxText, 10, 31)
			c.Context, ok = Some(int(n)), err == nil
		}
		if !ok {
			return nil, false
		}
		out = append(out, c)
	}
	return out, len(out) > 0
}

// Process is one client process as ps prints it.
type Process struct {
	PID        int
	ID         int    // the daemon's number of the client
	Server     int    // process ID of its server
	Device     string // the beginning of the GPU's UUID
	Namespace  string // inode of the client's Linux PID namespace; "" where not printed
	Attributes string // "" where not printed
	Command    string // as the tenant named it; quoted as in Go where it holds more than printable text
}

// parseProcesses reads the table of ps. Columns are found by their headings, since releases differ; a table without
// a heading line is an error, an empty answer is no clients. A line that is no row goes on with the name of the
// program before it, since only names can hold a newline.
func parseProcesses(text string) ([]Process, error) {
	const what = "table of client processes"
	ls := lines(text)
	if len(ls) == 0 {
		return nil, nil
	}
	head := strings.Fields(ls[0])
	if len(head) < 5 || head[0] != "PID" {
		return nil, garbled(what, 1, ls[0])
	}
	var out []Process
	for i, line := range ls[1:] {
		p, ok := parseProcess(headings(ls[0], line), strings.Fields(line))
		switch {
		case ok:
			out = append(out, p)
		case len(out) > 0:
			out[len(out)-1].Command += "\n" + line
		case line != "":
			return nil, garbled(what, i+2, line)
		}
	}
	for i := range out {
		out[i].Command = printable(out[i].Command)
	}
	return out, nil
}

// headings returns the headings of the columns that a row has: ATTRIBUTES may be
// blank. Where the row does not keep to the columns, a word too few is that one.
func headings(title, row string) []string {
	const blank = "ATTRIBUTES"
	head := strings.Fields(title)
	at := slices.Index(head, blank)
	if at < 0 {
		return head
	}
	aligned := true
	from, to := len(row), len(row)
	end := 0
	for i, h := range head {
		start := end + strings.Index(title[end:], h)
		end = start + len(h)
		start = min(start, len(row))
		aligned = aligned && (start == 0 || row[start-1] == ' ' || start == len(row))
		switch i {
		case at:
			from = start
		case at + 1:
			to = start
		}
	}
	if aligned && strings.TrimSpace(row[from:to]) == "" || !aligned && len(strings.Fields(row)) == len(head)-1 {
		return slices.Delete(head, at, at+1)
	}
	return head
}

func parseProcess(head, fields []string) (p Process, ok bool) {
	// COMMAND may hold spaces: what the other columns do not need is its. It may be empty too.
	if len(fields) == len(head)-1 && head[len(head)-1] == "COMMAND" {
		fields = append(fields, "")
	}
	extra := len(fields) - len(head)
	if extra < 0 {
		return p, false
	}
	var id string
	texts := map[string]*string{"ID": &id, "DEVICE": &p.Device, "NAMESPACE": &p.Namespace, "ATTRIBUTES": &p.Attributes,
		"COMMAND": &p.Command}
	ok = true
	for _, h := range head {
		take := 1
		if h == "COMMAND" {
			take, extra = take+extra, 0
		}
		v := strings.Join(fields[:take], " ")
		fields = fields[take:]
		known := true
		switch {
		case h == "PID":
			p.PID, known = readPID(v)
		case h == "SERVER":
			p.Server, known = readPID(v)
		case texts[h] != nil:
			*texts[h] = v
		default:
			known = false
		}
		ok = ok && known
	}
	n, err := strconv.ParseUint(id, 10, 31)
	p.ID = int(n)
	return p, ok && len(fields) == 0 && err == nil && p.PID > 0 && p.Server > 0 && p.Device != ""
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
