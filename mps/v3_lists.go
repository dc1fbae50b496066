package mps

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// NamespaceV3 is one row of namespace list. Limits that the daemon prints as
// "-" are not set.
type NamespaceV3 struct {
	Name, Server, ServerStatus string
	PinnedMemLimit             sharing.Cell[sharing.Bytes]
	ActiveThreadPercentage     sharing.Cell[float64]
	Priority                   Priority
	PipeDirectory              string // for CUDA_MPS_PIPE_DIRECTORY of its clients
}

// Namespaces lists the namespaces of a server, or of all for "".
func (v *ClientV3) Namespaces(ctx context.Context, server string) ([]NamespaceV3, error) {
	args := []string{"namespace", "list"}
	if server != "" {
		if err := v.name("server", server); err != nil {
			return nil, err
		}
		args = append(args, "--server="+server)
	}
	rows, err := v.table(ctx, "list of v3 namespaces", 7, args...)
	if err != nil {
		return nil, err
	}
	var out []NamespaceV3
	for i, f := range rows {
		n, ok := parseNamespace(f)
		if !ok {
			return nil, &OpError{Op: strings.Join(args, " "), Device: v.c.pipe,
				Err: &ParseError{What: "list of v3 namespaces", Line: i + 1, Text: clip(strings.Join(f, ","))}}
		}
		out = append(out, n)
	}
	return out, nil
}

func parseNamespace(f []string) (NamespaceV3, bool) {
	n := NamespaceV3{Name: f[0], Server: f[1], ServerStatus: f[2], PipeDirectory: f[6]}
	ok := nameForm.MatchString(n.Name) && nameForm.MatchString(n.Server)
	if dash(f[3]) != "" {
		limit, err := ParseMemLimit(f[3])
		n.PinnedMemLimit, ok = sharing.KnownCell(limit, SourceDaemon), ok && err == nil
	}
	if dash(f[4]) != "" {
		pct, err := parsePercentage(strings.TrimSuffix(f[4], "%"))
		n.ActiveThreadPercentage, ok = sharing.KnownCell(pct, SourceDaemon), ok && err == nil
	}
	if dash(f[5]) != "" {
		p, err := parsePriority(f[5])
		n.Priority, ok = p, ok && err == nil
	}
	return n, ok
}

// CreateNamespace creates a namespace with its limits and returns it as the
// daemon lists it. It starts without any limit: clients that join before its
// limits are set have none, so have clients wait for this call.
func (v *ClientV3) CreateNamespace(ctx context.Context, server, namespace string, n NamespaceLimits) (NamespaceV3, error) {
	var l problem.List
	checkName(&l, "server", server)
	checkName(&l, "namespace", namespace)
	n.check(&l, "")
	if err := invalid(&l); err != nil {
		return NamespaceV3{}, err
	}
	if _, err := v.do(ctx, "namespace", "create", namespace, "--server="+server); err != nil {
		return NamespaceV3{}, err
	}
	if n != (NamespaceLimits{}) {
		if err := v.SetNamespace(ctx, server, namespace, n); err != nil {
			return NamespaceV3{}, err
		}
	}
	list, err := v.Namespaces(ctx, server)
	i := slices.IndexFunc(list, func(x NamespaceV3) bool { return x.Name == namespace && x.Server == server })
	if err == nil && i < 0 {
		err = &OpError{Op: "namespace create " + namespace, Device: v.c.pipe, Err: &MismatchError{Setting: "namespace", Want: server + "/" + namespace}}
	}
	if err != nil {
		return NamespaceV3{}, err
	}
	return list[i], nil
}

// DeleteNamespace deletes a namespace, with force even one that has clients.
func (v *ClientV3) DeleteNamespace(ctx context.Context, server, namespace string, force bool) error {
	var l problem.List
	checkName(&l, "server", server)
	checkName(&l, "namespace", namespace)
	if err := invalid(&l); err != nil {
		return err
	}
	args := []string{"namespace", "delete", namespace, "--server=" + server}
	if force {
		args = append(args, "--force")
	}
	if _, err := v.do(ctx, args...); err != nil {
		return err
	}
	list, err := v.Namespaces(ctx, server)
	if err == nil && slices.ContainsFunc(list, func(x NamespaceV3) bool { return x.Name == namespace && x.Server == server }) {
		err = &OpError{Op: "namespace delete " + namespace, Device: v.c.pipe, Err: &MismatchError{Setting: "namespace", Want: "deleted", Got: namespace}}
	}
	return err
}

// ClientInfoV3 is one row of client list.
type ClientInfoV3 struct {
	PID       int
	Server    string
	Device    string
	Namespace string
	Command   string
}

// Clients lists the clients of a server, or of all for "".
func (v *ClientV3) Clients(ctx context.Context, server string) ([]ClientInfoV3, error) {
	args := []string{"client", "list"}
	if server == "" {
		args = append(args, "--all")
	} else if err := v.name("server", server); err != nil {
		return nil, err
	} else {
		args = append(args, "--server="+server)
	}
	rows, err := v.table(ctx, "list of v3 clients", 5, args...)
	if err != nil {
		return nil, err
	}
	var out []ClientInfoV3
	for i, f := range rows {
		pid, ok := parsePID(f[0])
		if !ok {
			return nil, &OpError{Op: "client list", Device: v.c.pipe, Err: &ParseError{What: "list of v3 clients", Line: i + 1, Text: clip(strings.Join(f, ","))}}
		}
		out = append(out, ClientInfoV3{PID: pid, Server: f[1], Device: f[2], Namespace: f[3], Command: f[4]})
	}
	return out, nil
}

// TerminateClient has a server end its work for a client; after that it is
// safe to kill.
func (v *ClientV3) TerminateClient(ctx context.Context, pid int) error {
	w, err := pidWord("pid", pid)
	if err != nil {
		return err
	}
	_, err = v.do(ctx, "client", "terminate", w)
	return err
}

// DeviceV3 is one row of device list.
type DeviceV3 struct {
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
func (v *ClientV3) Devices(ctx context.Context, server string) ([]DeviceV3, error) {
	args := []string{"device", "list"}
	if server != "" {
		if err := v.name("server", server); err != nil {
			return nil, err
		}
		args = append(args, "--server="+server)
	}
	rows, err := v.table(ctx, "list of v3 devices", 8, args...)
	if err != nil {
		return nil, err
	}
	var out []DeviceV3
	for i, f := range rows {
		ord, err1 := strconv.ParseUint(f[0], 10, 16)
		sms, err2 := strconv.ParseUint(f[5], 10, 16)
		chunks, err3 := strconv.ParseUint(f[6], 10, 16)
		if err1 != nil || err2 != nil || err3 != nil || !isUUID(f[3]) {
			return nil, &OpError{Op: "device list", Device: v.c.pipe, Err: &ParseError{What: "list of v3 devices", Line: i + 1, Text: clip(strings.Join(f, ","))}}
		}
		out = append(out, DeviceV3{Ordinal: int(ord), Server: dash(f[1]), PCI: f[2], UUID: f[3], Name: f[4],
			TotalSMs: int(sms), TotalChunks: int(chunks), Attributes: dash(f[7])})
	}
	return out, nil
}

// PartitionV3 is one row of sm-partition list.
type PartitionV3 struct {
	Server, Device   string
	Name             string // "" for capacity that nobody has
	Chunks           int
	SMs              int // more than chunks times their size if the remainder is included
	IncludeRemainder bool
	Status           string // "configured", "created" or "unallocated"
	// ID is for CUDA_MPS_SM_PARTITION; "" until the partition is created.
	ID PartitionID
}

// Partitions lists the static SM partitions of a server, or of all for "",
// with a row for free capacity.
func (v *ClientV3) Partitions(ctx context.Context, server string) ([]PartitionV3, error) {
	args := []string{"sm-partition", "list"}
	if server == "" {
		args = append(args, "--all")
	} else if err := v.name("server", server); err != nil {
		return nil, err
	} else {
		args = append(args, "--server="+server)
	}
	rows, err := v.table(ctx, "list of v3 partitions", 8, args...)
	if err != nil {
		return nil, err
	}
	var out []PartitionV3
	for i, f := range rows {
		chunks, err1 := strconv.ParseUint(f[3], 10, 16)
		sms, err2 := strconv.ParseUint(f[4], 10, 16)
		p := PartitionV3{Server: f[0], Device: f[1], Name: dash(f[2]), Chunks: int(chunks), SMs: int(sms),
			IncludeRemainder: f[5] == "true", Status: f[6]}
		if id := dash(f[7]); id != "" {
			p.ID = PartitionID(f[1] + "/" + id)
		}
		if err1 != nil || err2 != nil || !isUUID(p.Device) || !slices.Contains([]string{"configured", "created", "unallocated"}, p.Status) {
			return nil, &OpError{Op: "sm-partition list", Device: v.c.pipe, Err: &ParseError{What: "list of v3 partitions", Line: i + 1, Text: clip(strings.Join(f, ","))}}
		}
		out = append(out, p)
	}
	return out, nil
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
	if !isUUID(p.Device) {
		l.Addf(problem.Join(at, "Device"), `name it by its UUID, "GPU-..."`, "%q is no UUID", clip(p.Device))
	}
	if p.Chunks < 1 || p.Chunks > 1024 {
		l.Addf(problem.Join(at, "Chunks"), "ClientV3.Devices tells how many there are", "%d is no number of chunks", p.Chunks)
	}
}

// CreatePartition creates a partition and returns it as the daemon lists it.
// On a server that does not run it is only recorded, Status "configured".
func (v *ClientV3) CreatePartition(ctx context.Context, server string, p PartitionSpec) (PartitionV3, error) {
	var l problem.List
	checkName(&l, "server", server)
	p.check(&l, "")
	if err := invalid(&l); err != nil {
		return PartitionV3{}, err
	}
	args := []string{"sm-partition", "create", p.Name, "--server=" + server, "--device=" + p.Device, "--chunks=" + strconv.Itoa(p.Chunks)}
	if p.IncludeRemainder {
		args = append(args, "--include-remainder=true")
	}
	if _, err := v.do(ctx, args...); err != nil {
		return PartitionV3{}, err
	}
	got, ok, err := v.findPartition(ctx, server, p.Device, p.Name)
	if err == nil && (!ok || got.Chunks != p.Chunks) {
		err = &OpError{Op: "sm-partition create " + p.Name, Device: v.c.pipe,
			Err: &MismatchError{Setting: "SM partition " + p.Name, Want: fmt.Sprintf("%d chunks", p.Chunks), Got: fmt.Sprintf("%d chunks", got.Chunks)}}
	}
	return got, err
}

// DeletePartition deletes a partition and checks that it is gone.
func (v *ClientV3) DeletePartition(ctx context.Context, server, device, name string) error {
	var l problem.List
	checkName(&l, "server", server)
	PartitionSpec{Name: name, Device: device, Chunks: 1}.check(&l, "")
	if err := invalid(&l); err != nil {
		return err
	}
	if _, err := v.do(ctx, "sm-partition", "delete", name, "--server="+server, "--device="+device); err != nil {
		return err
	}
	_, there, err := v.findPartition(ctx, server, device, name)
	if err == nil && there {
		err = &OpError{Op: "sm-partition delete " + name, Device: v.c.pipe, Err: &MismatchError{Setting: "SM partition", Want: "deleted", Got: name}}
	}
	return err
}

func (v *ClientV3) findPartition(ctx context.Context, server, device, name string) (PartitionV3, bool, error) {
	list, err := v.Partitions(ctx, server)
	i := slices.IndexFunc(list, func(p PartitionV3) bool {
		return p.Name == name && p.Server == server && strings.HasPrefix(p.Device, device)
	})
	if err != nil || i < 0 {
		return PartitionV3{}, false, err
	}
	return list[i], true, nil
}

// Quit ends the daemon with all its servers.
func (v *ClientV3) Quit(ctx context.Context) error {
	_, err := v.do(ctx, "-q")
	return err
}
