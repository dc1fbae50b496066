package mps

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/mps/internal/form"
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
	for i, line := range form.Lines(text) {
		bad := garbled("list of devices and their clients", i+1, line)
		if strings.TrimSpace(line) == "" {
			continue
		}
		if !strings.HasPrefix(line, "[") {
			c, ok := parseContexts(line)
			if !ok || len(devices) == 0 {
				return nil, bad
			}
			d := &devices[len(devices)-1]
			d.Clients = append(d.Clients, c...)
			continue
		}
		ord, rest, ok := strings.Cut(line[1:], "]")
		n, err := strconv.ParseUint(ord, 10, 16)
		if !ok || err != nil {
			return nil, bad
		}
		pci, tail, _ := strings.Cut(strings.TrimSpace(rest), ",")
		d := DeviceClients{Ordinal: int(n), PCI: strings.TrimSpace(pci)}
		if d.PCI == "" || strings.Trim(d.PCI, "0123456789abcdefABCDEF:.") != "" {
			return nil, bad
		}
		if tail = strings.TrimSpace(tail); tail != "" {
			if d.Clients, ok = parseContexts(tail); !ok {
				d.Name = tail
			}
		}
		devices = append(devices, d)
	}
	return devices, nil
}

func parseContexts(s string) ([]ClientContext, bool) {
	var out []ClientContext
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		pidText, ctxText, dotted := strings.Cut(f, ".")
		pid, ok := form.PID(pidText)
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
	ls := form.Lines(text)
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
		out[i].Command = form.Name(out[i].Command)
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
	var pidOK, idOK, serverOK bool
	for _, h := range head {
		take := 1
		if h == "COMMAND" {
			take += extra
			extra = 0
		}
		v := strings.Join(fields[:take], " ")
		fields = fields[take:]
		switch h {
		case "PID":
			p.PID, pidOK = form.PID(v)
		case "ID":
			n, err := strconv.ParseUint(v, 10, 31)
			p.ID, idOK = int(n), err == nil
		case "SERVER":
			p.Server, serverOK = form.PID(v)
		case "DEVICE":
			p.Device = v
		case "NAMESPACE":
			p.Namespace = v
		case "ATTRIBUTES":
			p.Attributes = v
		case "COMMAND":
			p.Command = v
		default:
			return p, false
		}
	}
	return p, len(fields) == 0 && pidOK && idOK && serverOK && p.Device != ""
}
