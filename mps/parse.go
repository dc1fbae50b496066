package mps

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cotenant/cotenant/mps/internal/form"
	"github.com/cotenant/cotenant/sharing"
)

// checkText refuses answers that are no text.
func checkText(text string) error {
	if !utf8.ValidString(text) {
		return &ParseError{What: "text", Text: clip(text)}
	}
	for _, r := range text {
		if r != '\n' && r != '\t' && r != '\r' && unicode.IsControl(r) {
			return &ParseError{What: "text", Text: clip(text)}
		}
	}
	return nil
}

// ParsePIDs reads the answer of get_server_list and get_client_list: one
// process ID a line, possibly none.
func ParsePIDs(text string) ([]int, error) {
	var pids []int
	for i, line := range form.Lines(text) {
		pid, ok := form.PID(strings.TrimSpace(line))
		if !ok {
			return nil, &ParseError{What: "list of process IDs", Line: i + 1, Text: clip(line)}
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

func parseState(text string) (ServerState, error) {
	word := strings.TrimSpace(text)
	for i, name := range stateNames {
		if i > 0 && word == name {
			return ServerState(i), nil
		}
	}
	return StateUnknown, &ParseError{What: "server state", Text: clip(word)}
}

func parsePercentage(text string) (float64, error) {
	word := strings.TrimSpace(text)
	v, ok := form.Percentage(word)
	if !ok {
		return 0, &ParseError{What: "percentage", Text: clip(word)}
	}
	return v, nil
}

// ParseMemLimit reads a memory limit as the daemon and the environment write
// it: a whole number and a unit, "8G", "512M", "512MB", "1024K". The units are
// binary (H200: 8G is 0x200000000 bytes). Anything else, and 0, is an error.
func ParseMemLimit(s string) (sharing.Bytes, error) {
	word := strings.TrimSpace(s)
	num := strings.TrimRight(word, "KMGBkmgb")
	var unit sharing.Bytes
	switch strings.ToUpper(word[len(num):]) {
	case "K", "KB":
		unit = sharing.KiB
	case "M", "MB":
		unit = sharing.MiB
	case "G", "GB":
		unit = sharing.GiB
	}
	n, err := strconv.ParseUint(num, 10, 63)
	if unit == 0 || err != nil || n == 0 || n > uint64(math.MaxInt64/unit) {
		return 0, &ParseError{What: "memory limit (a whole number and G, M or K)", Text: clip(s)}
	}
	return sharing.Bytes(n) * unit, nil
}

// FormatMemLimit writes a limit as the daemon reads it, "8G" or "1536M". The
// limit must be positive and whole in MiB; other limits are ErrInvalid.
func FormatMemLimit(limit sharing.Bytes) (string, error) {
	if err := checkMemLimit("limit", limit, 0); err != nil {
		return "", err
	}
	if limit%sharing.GiB == 0 {
		return strconv.FormatInt(int64(limit/sharing.GiB), 10) + "G", nil
	}
	return strconv.FormatInt(limit.MiB(), 10) + "M", nil
}

// DeviceClients is one device with the clients that enumerate it.
type DeviceClients struct {
	Ordinal int
	PCI     string          // the bus address as printed, e.g. "00:00.0"
	Name    string          // "" where the daemon prints none
	Clients []ClientContext // in the daemon's order
}

// ClientContext is one context of a client.
type ClientContext struct {
	PID int
	// Context numbers the client's context; it is -1 where the daemon does not
	// print it.
	Context int
}

// ParseDeviceClients reads the answer of get_device_client_list: for each
// device a line "[0] 00:00.0, NVIDIA H200" followed by lines "711.1" (H200),
// or the clients on the device's own line (MAN595).
func ParseDeviceClients(text string) ([]DeviceClients, error) {
	const what = "list of devices and their clients"
	var devices []DeviceClients
	for i, line := range form.Lines(text) {
		bad := &ParseError{What: what, Line: i + 1, Text: clip(line)}
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
			if c, ok := parseContexts(tail); ok {
				d.Clients = c
			} else {
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
		c := ClientContext{PID: pid, Context: -1}
		if dotted && ok {
			n, err := strconv.ParseUint(ctxText, 10, 31)
			c.Context, ok = int(n), err == nil
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
	Command    string
}

// ParseProcesses reads the table of ps. Columns are found by their headings,
// since releases differ; a table without a heading line is an error, an empty
// answer is no clients.
func ParseProcesses(text string) ([]Process, error) {
	const what = "table of client processes"
	ls := form.Lines(text)
	if len(ls) == 0 {
		return nil, nil
	}
	head := strings.Fields(ls[0])
	if len(head) < 5 || head[0] != "PID" {
		return nil, &ParseError{What: what, Line: 1, Text: clip(ls[0])}
	}
	var out []Process
	for i, line := range ls[1:] {
		if line == "" {
			continue
		}
		p, ok := parseProcess(head, line)
		if !ok {
			return nil, &ParseError{What: what, Line: i + 2, Text: clip(line)}
		}
		out = append(out, p)
	}
	return out, nil
}

func parseProcess(head []string, line string) (Process, bool) {
	var p Process
	fields := strings.Fields(line)
	if len(fields) < len(head) {
		return p, false
	}
	// COMMAND may hold spaces: what the other columns do not need is its.
	extra := len(fields) - len(head)
	at := 0
	ok := [3]bool{}
	for _, h := range head {
		take := 1
		if h == "COMMAND" {
			take += extra
			extra = 0
		}
		v := strings.Join(fields[at:at+take], " ")
		at += take
		switch h {
		case "PID":
			p.PID, ok[0] = form.PID(v)
		case "ID":
			n, err := strconv.ParseUint(v, 10, 31)
			p.ID, ok[1] = int(n), err == nil
		case "SERVER":
			p.Server, ok[2] = form.PID(v)
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
	return p, at == len(fields) && ok == [3]bool{true, true, true} && p.Command != "" && p.Device != ""
}
