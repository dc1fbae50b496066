package mpsv3

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/internal/form"
)

// Process is one row of client list: a client process.
type Process struct {
	PID       int
	Server    string
	Device    string
	Namespace string
	Command   string // as mps.Process has it
}

// Clients lists the client processes of a server, or of all for "". What
// programs are called is the tenants' choice: it hides no other row, but it can
// hold a line that looks like a row of the list.
func (v *Client) Clients(ctx context.Context, server string) ([]Process, error) {
	const command = "client list"
	rows, err := list(ctx, v, func(row string) (Process, bool) {
		if p, ok := parseProcess(row); ok {
			return p, true
		}
		return Process{Command: row}, true // the name of the program before goes on
	}, server, command, "--all")
	if err != nil {
		return nil, err
	}
	var out []Process
	for i, p := range rows {
		switch {
		case p.PID > 0:
			out = append(out, p)
		case i == 0:
			return nil, v.opError(strings.Fields(command), &mps.ParseError{What: "row of " + command, Line: 1, Text: problem.Clip(p.Command)})
		default:
			out[len(out)-1].Command += "\n" + p.Command
		}
	}
	for i := range out {
		out[i].Command = form.Name(out[i].Command)
	}
	return out, nil
}

func parseProcess(row string) (Process, bool) {
	f, ok := fields(row, 5)
	if !ok {
		return Process{}, false
	}
	pid, ok := form.PID(f[0])
	return Process{PID: pid, Server: f[1], Device: f[2], Namespace: f[3], Command: f[4]}, ok
}

// TerminateClient has a server end its work for a client; after that it is
// safe to kill.
func (v *Client) TerminateClient(ctx context.Context, pid int) error {
	if pid <= 0 || pid > 1<<31-1 {
		return fmt.Errorf("%w: pid: %d is no process ID", mps.ErrInvalid, pid)
	}
	_, err := v.do(ctx, "client", "terminate", strconv.Itoa(pid))
	return err
}

// Device is one row of device list.
type Device struct {
	Ordinal     int
	Server      string // "" where the daemon prints "-"
	PCI         string
	UUID        string
	Name        string
	TotalSMs    int
	TotalChunks int
	Attributes  string
}

// Devices lists the devices, as one server enumerates them or, for "", as all
// do.
func (v *Client) Devices(ctx context.Context, server string) ([]Device, error) {
	return list(ctx, v, parseDevice, server, "device list")
}

func parseDevice(row string) (Device, bool) {
	f, ok := fields(row, 8)
	if !ok {
		return Device{}, false
	}
	return Device{Ordinal: count(f[0], &ok), Server: dash(f[1]), PCI: f[2], UUID: f[3], Name: f[4],
		TotalSMs: count(f[5], &ok), TotalChunks: count(f[6], &ok), Attributes: dash(f[7])}, ok && form.IsUUID(f[3])
}

// Partition is one row of sm-partition list: a static SM partition, or the
// free capacity of a device.
type Partition struct {
	Server, Device   string
	Name             string // "" for capacity that nobody has
	Chunks           int
	SMs              int // more than chunks times their size if the remainder is included
	IncludeRemainder bool
	Status           string // "configured", "created" or "unallocated"
	// ID is for CUDA_MPS_SM_PARTITION; "" until the partition is created. IDs
	// of protocol v2 are others.
	ID mps.PartitionID
}

// Partitions lists the static SM partitions of a server, or of all for "",
// with a row for free capacity.
func (v *Client) Partitions(ctx context.Context, server string) ([]Partition, error) {
	return list(ctx, v, parsePartition, server, "sm-partition list", "--all")
}

func parsePartition(row string) (Partition, bool) {
	f, ok := fields(row, 8)
	if !ok {
		return Partition{}, false
	}
	p := Partition{Server: f[0], Device: f[1], Name: dash(f[2]), Chunks: count(f[3], &ok), SMs: count(f[4], &ok),
		IncludeRemainder: f[5] == "true", Status: f[6]}
	if id := dash(f[7]); id != "" {
		p.ID = mps.PartitionID(f[1] + "/" + id)
	}
	return p, ok && form.IsUUID(p.Device) && slices.Contains([]string{"configured", "created", "unallocated"}, p.Status)
}

// PartitionSpec asks for a static SM partition of a server's device.
type PartitionSpec struct {
	Name             string
	Device           string // UUID
	Chunks           int
	IncludeRemainder bool // take the SMs that fill no chunk, too
}

func (p PartitionSpec) check(l *problem.List, at string) {
	checkName(l, problem.Join(at, "Name"), p.Name)
	checkDevice(l, problem.Join(at, "Device"), p.Device)
	if p.Chunks < 1 || p.Chunks > 1024 {
		l.Addf(problem.Join(at, "Chunks"), "Client.Devices tells how many there are", "%d is no number of chunks", p.Chunks)
	}
}

// CreatePartition creates a partition and returns it as the daemon lists it.
// On a server that does not run it is only recorded, Status "configured".
func (v *Client) CreatePartition(ctx context.Context, server string, p PartitionSpec) (Partition, error) {
	var l problem.List
	p.check(&l, "")
	if err := names(&l, "server", server); err != nil {
		return Partition{}, err
	}
	args := []string{"sm-partition", "create", p.Name, "--server=" + server, "--device=" + p.Device, "--chunks=" + strconv.Itoa(p.Chunks)}
	if p.IncludeRemainder {
		args = append(args, "--include-remainder=true")
	}
	return create(ctx, v, func() (Partition, bool, error) {
		got, ok, err := v.findPartition(ctx, server, p.Device, p.Name)
		return got, ok && got.Chunks == p.Chunks, err
	}, args...)
}

// DeletePartition deletes a partition and checks that it is gone.
func (v *Client) DeletePartition(ctx context.Context, server, device, name string) error {
	var l problem.List
	checkDevice(&l, "device", device)
	if err := names(&l, "server", server, "name", name); err != nil {
		return err
	}
	listed := func() (Partition, bool, error) { return v.findPartition(ctx, server, device, name) }
	return remove(ctx, v, listed, "sm-partition", "delete", name, "--server="+server, "--device="+device)
}

func (v *Client) findPartition(ctx context.Context, server, device, name string) (Partition, bool, error) {
	rows, err := v.Partitions(ctx, server)
	return find(rows, err, func(p Partition) bool {
		return p.Name == name && p.Server == server && strings.HasPrefix(p.Device, device)
	})
}
