package mps

import (
	"encoding/csv"
	"regexp"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/mps/internal/form"
	"github.com/cotenant/cotenant/sharing"
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

// ParseDeviceQuery reads the answer of device_query, as a table or as CSV
// (--csv): sections "Default" and "Server 673", each a heading and its
// devices.
func ParseDeviceQuery(text string) ([]ServerDevices, error) {
	var out []ServerDevices
	for i, line := range form.Lines(text) {
		bad := &ParseError{What: "device enumeration", Line: i + 1, Text: clip(line)}
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
	var f []string
	if strings.Count(line, ",") >= 4 {
		rec, err := csv.NewReader(strings.NewReader(line)).Read()
		if err != nil || len(rec) != 5 {
			return DeviceInfo{}, false
		}
		f = rec
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
	} else {
		// A name holds single spaces, and a long one may leave only one before
		// the attributes.
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
		f = append(words[:3:3], parts...)
	}
	n, err := strconv.ParseUint(f[0], 10, 16)
	d := DeviceInfo{Ordinal: int(n), PCI: f[1], UUID: f[2], Name: f[3], Attributes: f[4]}
	if d.Attributes == "N/A" {
		d.Attributes = ""
	}
	return d, err == nil && form.IsUUID(d.UUID) && d.Name != "" && d.PCI != ""
}

// PartitionID names a static SM partition, as CUDA_MPS_SM_PARTITION takes it:
// "GPU-<uuid>/<id>". IDs of v2 and v3 are not interchangeable (MPSV3).
type PartitionID string

var partitionForm = regexp.MustCompile(`^(GPU|MIG)-[0-9a-zA-Z-]+/[0-9a-zA-Z+=_-]+$`)

// Valid answers whether the ID is of the form "GPU-<uuid>/<id>".
func (p PartitionID) Valid() bool { return len(p) <= 200 && partitionForm.MatchString(string(p)) }

// Split returns the GPU's UUID and the partition's own ID.
func (p PartitionID) Split() (gpu, id string) {
	gpu, id, _ = strings.Cut(string(p), "/")
	return gpu, id
}

// parsePartitionAdd reads both answers of sm_partition add: the bare ID (MT)
// and "Partition <ID> created" (MAN595). Other lines, of the CUDA
// initialisation that the first one causes, are passed over only before it.
func parsePartitionAdd(text string) (PartitionID, error) {
	for _, line := range form.Lines(text) {
		id := strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(id, "Partition "); ok {
			id, ok = strings.CutSuffix(rest, " created")
			if !ok {
				continue
			}
		}
		if p := PartitionID(id); p.Valid() {
			return p, nil
		}
	}
	return "", &ParseError{What: "partition ID", Text: clip(text)}
}

// Partition is one row of lspart: a device (Partition "") or a static SM
// partition of it. What the daemon does not print for a row is unknown.
type Partition struct {
	GPU        string // beginning of the UUID
	Partition  string // the partition's own ID; "" in the device's row
	FreeChunks sharing.Cell[int]
	UsedChunks sharing.Cell[int]
	FreeSMs    sharing.Cell[int]
	UsedSMs    sharing.Cell[int]
	InUse      sharing.Answer // whether clients use it
}

// ParsePartitions reads the table of lspart, whose heading takes two lines.
// The SMs of a partition are not its chunks times the chunk size: left-over
// SMs may belong to it (MT).
func ParsePartitions(text string) ([]Partition, error) {
	const what = "table of SM partitions"
	ls := form.Lines(text)
	if len(ls) == 0 {
		return nil, nil
	}
	fold := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if fold(ls[0]) != "GPU Partition free used free used clients" {
		return nil, &ParseError{What: what, Line: 1, Text: clip(ls[0])}
	}
	if len(ls) < 2 || fold(ls[1]) != "chunk chunk SM SM" {
		return nil, &ParseError{What: what, Line: 2, Text: clip(strings.Join(ls[1:], "\n"))}
	}
	var out []Partition
	for i, line := range ls[2:] {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		bad := &ParseError{What: what, Line: i + 3, Text: clip(line)}
		if len(f) != 7 || !form.IsUUID(f[0]) {
			return nil, bad
		}
		p := Partition{GPU: f[0]}
		if f[1] != "-" {
			p.Partition = f[1]
		}
		for j, cell := range []*sharing.Cell[int]{&p.FreeChunks, &p.UsedChunks, &p.FreeSMs, &p.UsedSMs} {
			if f[2+j] == "-" {
				continue
			}
			n, err := strconv.ParseUint(f[2+j], 10, 31)
			if err != nil {
				return nil, bad
			}
			*cell = sharing.KnownCell(int(n), SourceDaemon)
		}
		switch strings.ToLower(f[6]) {
		case "yes":
			p.InUse = sharing.AnswerYes
		case "no":
			p.InUse = sharing.AnswerNo
		case "-":
		default:
			return nil, bad
		}
		out = append(out, p)
	}
	return out, nil
}
