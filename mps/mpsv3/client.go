package mpsv3

import (
	"context"
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/internal/form"
)

// Client talks to a control daemon with protocol v3. It is safe for concurrent
// use.
type Client struct{ c *mps.Client }

// NewClient returns a v3 client of the daemon that c talks to.
func NewClient(c *mps.Client) *Client { return &Client{c} }

// PipeDirectory returns the daemon's pipe directory. Clients use
// <pipe>/<server>/<namespace>.
func (v *Client) PipeDirectory() string { return v.c.PipeDirectory() }

func (v *Client) opError(op string, err error) error {
	return &mps.OpError{Op: op, Device: v.c.PipeDirectory(), Err: err}
}

func (v *Client) do(ctx context.Context, args ...string) (string, error) {
	for _, a := range args {
		if !form.IsWord(a) {
			return "", v.opError(problem.Clip(args[0]), fmt.Errorf("%w: %q is no argument", mps.ErrInvalid, problem.Clip(a)))
		}
	}
	return v.c.Command(ctx, mps.Invocation{Args: args, Env: []string{mps.EnvProtocol + "=3"}})
}

// list runs a list command and parses each row of its answer.
func list[T any](ctx context.Context, v *Client, parse func(row string) (T, bool), args ...string) ([]T, error) {
	text, err := v.do(ctx, append(args, "--format=csv,noheader")...)
	if err != nil {
		return nil, err
	}
	op := strings.Join(args, " ")
	rows, err := parseRows(op, text, parse)
	if err != nil {
		return nil, v.opError(op, err)
	}
	return rows, nil
}

func parseRows[T any](op, text string, parse func(row string) (T, bool)) ([]T, error) {
	var out []T
	for i, row := range form.Lines(text) {
		x, ok := parse(row)
		if !ok {
			return nil, &mps.ParseError{What: "row of " + op, Line: i + 1, Text: problem.Clip(row)}
		}
		out = append(out, x)
	}
	return out, nil
}

// fields splits a row into exactly width fields. A last field with commas of
// its own, a command line, takes them all.
func fields(row string, width int) ([]string, bool) {
	f := strings.SplitN(row, ",", width)
	if strings.Contains(row, `"`) {
		// A command line may hold quotes that quote nothing.
		if rec, err := csv.NewReader(strings.NewReader(row)).Read(); err == nil {
			f = rec
		}
	}
	return f, len(f) == width
}

// field runs a get command, whose answer is one bare value.
func (v *Client) field(ctx context.Context, args ...string) (string, error) {
	text, err := v.do(ctx, args...)
	if err != nil {
		return "", err
	}
	ls := form.Lines(text)
	if len(ls) > 1 {
		return "", v.opError(strings.Join(args, " "), &mps.ParseError{What: "value", Text: problem.Clip(text)})
	}
	return strings.TrimSpace(strings.Join(ls, "")), nil
}

// count reads a number of devices, SMs or chunks.
func count(s string, ok *bool) int {
	n, err := strconv.ParseUint(s, 10, 16)
	*ok = *ok && err == nil
	return int(n)
}

func dash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

var nameForm = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)

// checkName accepts names of servers, namespaces and partitions.
func checkName(l *problem.List, path, name string) {
	if !nameForm.MatchString(name) {
		l.Addf(path, "use 1 to 64 lower-case letters, digits and underscores", "%q is no name", problem.Clip(name))
	}
}

func checkDevice(l *problem.List, path, uuid string) {
	if !form.IsUUID(uuid) {
		l.Addf(path, `name it by its UUID, "GPU-..."`, "%q is no UUID", problem.Clip(uuid))
	}
}

func invalid(l *problem.List) error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("%w: %w", mps.ErrInvalid, err)
	}
	return nil
}

// scope limits a list command to a server, "" for all of them.
func scope(server string, all ...string) ([]string, error) {
	if server == "" {
		return all, nil
	}
	var l problem.List
	checkName(&l, "server", server)
	return []string{"--server=" + server}, invalid(&l)
}

// Process is one row of client list: a client process.
type Process struct {
	PID       int
	Server    string
	Device    string
	Namespace string
	Command   string
}

// Clients lists the client processes of a server, or of all for "".
func (v *Client) Clients(ctx context.Context, server string) ([]Process, error) {
	which, err := scope(server, "--all")
	if err != nil {
		return nil, err
	}
	return list(ctx, v, parseProcess, append([]string{"client", "list"}, which...)...)
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
	which, err := scope(server)
	if err != nil {
		return nil, err
	}
	return list(ctx, v, parseDevice, append([]string{"device", "list"}, which...)...)
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
	which, err := scope(server, "--all")
	if err != nil {
		return nil, err
	}
	return list(ctx, v, parsePartition, append([]string{"sm-partition", "list"}, which...)...)
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
	checkName(&l, "server", server)
	p.check(&l, "")
	if err := invalid(&l); err != nil {
		return Partition{}, err
	}
	args := []string{"sm-partition", "create", p.Name, "--server=" + server, "--device=" + p.Device, "--chunks=" + strconv.Itoa(p.Chunks)}
	if p.IncludeRemainder {
		args = append(args, "--include-remainder=true")
	}
	if _, err := v.do(ctx, args...); err != nil {
		return Partition{}, err
	}
	got, ok, err := v.findPartition(ctx, server, p.Device, p.Name)
	if err == nil && (!ok || got.Chunks != p.Chunks) {
		err = v.opError("sm-partition create "+p.Name,
			&mps.MismatchError{Setting: "SM partition " + p.Name, Want: fmt.Sprintf("%d chunks", p.Chunks), Got: fmt.Sprintf("%d chunks", got.Chunks)})
	}
	return got, err
}

// DeletePartition deletes a partition and checks that it is gone.
func (v *Client) DeletePartition(ctx context.Context, server, device, name string) error {
	var l problem.List
	checkName(&l, "server", server)
	checkName(&l, "name", name)
	checkDevice(&l, "device", device)
	if err := invalid(&l); err != nil {
		return err
	}
	if _, err := v.do(ctx, "sm-partition", "delete", name, "--server="+server, "--device="+device); err != nil {
		return err
	}
	_, there, err := v.findPartition(ctx, server, device, name)
	return v.gone("sm-partition delete "+name, there, err)
}

func (v *Client) findPartition(ctx context.Context, server, device, name string) (Partition, bool, error) {
	return find(func(p Partition) bool {
		return p.Name == name && p.Server == server && strings.HasPrefix(p.Device, device)
	})(v.Partitions(ctx, server))
}

// find looks for a row of a list.
func find[T any](match func(T) bool) func([]T, error) (T, bool, error) {
	return func(rows []T, err error) (T, bool, error) {
		var none T
		i := slices.IndexFunc(rows, match)
		if err != nil || i < 0 {
			return none, false, err
		}
		return rows[i], true, nil
	}
}

// gone is the error of a delete command after which the thing may still be
// there.
func (v *Client) gone(op string, there bool, err error) error {
	if err == nil && there {
		err = v.opError(op, &mps.MismatchError{Setting: op, Want: "deleted", Got: "still listed"})
	}
	return err
}

// Quit ends the daemon with all its servers.
func (v *Client) Quit(ctx context.Context) error {
	_, err := v.do(ctx, "-q")
	return err
}
