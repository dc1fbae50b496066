package mpsv3

import (
	"context"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/internal/form"
	"github.com/cotenant/cotenant/sharing"
)

// Server is one row of server list.
type Server struct {
	Name           string
	UID            int
	PID            int    // 0 while it does not run
	Status         string // the daemon's text, for example "Ready"
	PipeDirectory  string
	AllowedDevices []string // nil = all
	ContextIDs     string   // "" where the daemon prints "-"
}

// Servers lists the servers.
func (v *Client) Servers(ctx context.Context) ([]Server, error) {
	return list(ctx, v, parseServer, "", "server list")
}

// parseServer reads a row of server list. The devices may be separated by
// commas of their own: the first five fields and the last are fixed.
func parseServer(row string) (Server, bool) {
	f := strings.Split(strings.ReplaceAll(row, `"`, ""), ",")
	if len(f) < 7 || !nameForm.MatchString(f[0]) {
		return Server{}, false
	}
	s := Server{Name: f[0], Status: f[3], PipeDirectory: f[4], ContextIDs: dash(f[len(f)-1])}
	uid, err := strconv.ParseUint(f[1], 10, 32)
	s.UID = int(uid)
	ok := err == nil && s.Status != ""
	if f[2] != "-" && f[2] != "0" {
		var good bool
		s.PID, good = form.PID(f[2])
		ok = ok && good
	}
	for _, d := range f[5 : len(f)-1] {
		if d = dash(strings.TrimSpace(d)); d == "" || d == "all" {
			continue
		}
		ok = ok && (form.IsUUID(d) || form.IsOrdinal(d))
		s.AllowedDevices = append(s.AllowedDevices, d)
	}
	return s, ok
}

// ServerOptions are options of CreateServer.
type ServerOptions struct {
	UID            mps.Optional[int] // missing = the user who asks
	AllowedDevices []string          // UUIDs; nil = all
	// Devices are the UUIDs that exist. A server allowed a device that does not
	// is created with success, dies, and leaves its clients without MPS and
	// limits, so AllowedDevices needs them.
	Devices         []string
	LocalityDomains bool // Blackwell; excludes static SM partitions
}

// CreateServer creates a named server and reads it back.
func (v *Client) CreateServer(ctx context.Context, name string, opts ServerOptions) (Server, error) {
	var l problem.List
	checkUID(&l, "UID", opts.UID)
	for i, d := range opts.AllowedDevices {
		at := "AllowedDevices[" + strconv.Itoa(i) + "]"
		if checkDevice(&l, at, d); !slices.ContainsFunc(opts.Devices, func(have string) bool { return strings.HasPrefix(have, d) }) {
			l.Addf(at, "list the node's UUIDs in Devices and allow only those", "%q is not among Devices; its server would die and its clients run without limits", problem.Clip(d))
		}
	}
	if err := names(&l, "name", name); err != nil {
		return Server{}, err
	}
	args := []string{"server", "create", name}
	if uid, ok := opts.UID.Get(); ok {
		args = append(args, "--uid="+strconv.Itoa(uid))
	}
	if len(opts.AllowedDevices) > 0 {
		args = append(args, "--allowed-devices="+strings.Join(opts.AllowedDevices, ","))
	}
	if opts.LocalityDomains {
		args = append(args, "--locality-domains=true")
	}
	return create(ctx, v, func() (Server, bool, error) { return v.findServer(ctx, name) }, args...)
}

func (v *Client) findServer(ctx context.Context, name string) (Server, bool, error) {
	rows, err := v.Servers(ctx)
	return find(rows, err, func(s Server) bool { return s.Name == name })
}

// DeleteServer deletes a server and checks that it is gone. A server with
// clients is refused.
func (v *Client) DeleteServer(ctx context.Context, name string) error {
	return v.deleteServer(ctx, name)
}

// ForceDeleteServer deletes a server even if it has clients, which lose their
// work.
func (v *Client) ForceDeleteServer(ctx context.Context, name string) error {
	return v.deleteServer(ctx, name, "--force")
}

func (v *Client) deleteServer(ctx context.Context, name string, flags ...string) error {
	if err := names(&problem.List{}, "name", name); err != nil {
		return err
	}
	return remove(ctx, v, func() (Server, bool, error) { return v.findServer(ctx, name) }, append([]string{"server", "delete", name}, flags...)...)
}

// Limits are what a namespace gives its clients. Zero fields are not set. A
// namespace other than default inherits nothing from its server and may exceed
// it.
type Limits struct {
	PinnedMemLimit         sharing.Bytes // whole in MiB
	ActiveThreadPercentage int           // 1 to 100
	Priority               mps.Priority
}

func (n Limits) check(l *problem.List, at string) {
	if m := n.PinnedMemLimit; m < 0 || m%sharing.MiB != 0 {
		l.Addf(problem.Join(at, "PinnedMemLimit"), "use whole MiB, or 0 to leave it out", "%d bytes is no limit", int64(m))
	}
	if p := n.ActiveThreadPercentage; p < 0 || p > 100 {
		l.Addf(problem.Join(at, "ActiveThreadPercentage"), "use 1 to 100, or 0 to leave it out", "%d is out of range", p)
	}
	if n.Priority > mps.PriorityBelowNormal {
		l.Addf(problem.Join(at, "Priority"), "use PriorityNormal or PriorityBelowNormal", "%v", n.Priority)
	}
}

// fields are the limits that are set, in the order of the documentation, with
// their names on the command line.
func (n Limits) fields() (out [][2]string, err error) {
	if n.PinnedMemLimit != 0 {
		text, err := mps.FormatMemLimit(n.PinnedMemLimit)
		if err != nil {
			return nil, err
		}
		out = append(out, [2]string{"pinned-memory-limit", text})
	}
	if n.ActiveThreadPercentage != 0 {
		out = append(out, [2]string{"active-thread-percentage", strconv.Itoa(n.ActiveThreadPercentage)})
	}
	if n.Priority != mps.PriorityUnset {
		out = append(out, [2]string{"client-priority", strconv.Itoa(int(n.Priority - mps.PriorityNormal))})
	}
	return out, nil
}

// SetServer sets the limits of a server's default namespace and reads them
// back. Other namespaces get none of them.
func (v *Client) SetServer(ctx context.Context, server string, n Limits) error {
	return v.set(ctx, []string{"server", "set", server}, "default", server, n)
}

// SetNamespace sets a namespace's limits and reads them back.
func (v *Client) SetNamespace(ctx context.Context, server, namespace string, n Limits) error {
	return v.set(ctx, []string{"namespace", "set", namespace, "--server=" + server}, namespace, server, n)
}

func (v *Client) set(ctx context.Context, args []string, namespace, server string, n Limits) error {
	var l problem.List
	n.check(&l, "")
	if n == (Limits{}) {
		l.Addf("", "set at least one limit", "there is nothing to set")
	}
	if err := names(&l, "server", server, "namespace", namespace); err != nil {
		return err
	}
	limits, err := n.fields()
	if err != nil {
		return err
	}
	for _, f := range limits {
		args = append(args, "--"+f[0]+"="+f[1])
	}
	if _, err := v.do(ctx, args...); err != nil {
		return err
	}
	for _, f := range limits {
		got, err := v.field(ctx, "namespace", "get", namespace, server, f[0])
		if err != nil {
			return err
		}
		if !sameSetting(f[0], f[1], got) {
			return v.opError(args[:3], &mps.MismatchError{Setting: f[0] + " of " + path.Join(server, namespace), Want: f[1], Got: dash(got)})
		}
	}
	return nil
}

// sameSetting compares values, since the daemon may write 2048M as 2G and 50
// as 50.0.
func sameSetting(field, want, got string) bool {
	switch field {
	case "pinned-memory-limit":
		w, err1 := mps.ParseMemLimit(want)
		g, err2 := mps.ParseMemLimit(got)
		return err1 == nil && err2 == nil && w == g
	case "active-thread-percentage":
		w, ok1 := form.Percentage(want)
		g, ok2 := form.Percentage(strings.TrimSuffix(got, "%"))
		return ok1 && ok2 && math.Abs(w-g) < 0.06
	}
	return want == got
}

// Namespace is one row of namespace list. Limits that the daemon prints as
// "-" are not set.
type Namespace struct {
	Name, Server, ServerStatus string
	PinnedMemLimit             sharing.Cell[sharing.Bytes]
	ActiveThreadPercentage     sharing.Cell[float64]
	Priority                   mps.Priority
	PipeDirectory              string // for CUDA_MPS_PIPE_DIRECTORY of its clients
}

// Namespaces lists the namespaces of a server, or of all for "".
func (v *Client) Namespaces(ctx context.Context, server string) ([]Namespace, error) {
	return list(ctx, v, parseNamespace, server, "namespace list")
}

func parseNamespace(row string) (Namespace, bool) {
	f, ok := fields(row, 7)
	if !ok {
		return Namespace{}, false
	}
	n := Namespace{Name: f[0], Server: f[1], ServerStatus: f[2], PipeDirectory: f[6]}
	ok = nameForm.MatchString(n.Name) && nameForm.MatchString(n.Server)
	if dash(f[3]) != "" {
		limit, err := mps.ParseMemLimit(f[3])
		n.PinnedMemLimit, ok = sharing.KnownCell(limit, mps.SourceDaemon), ok && err == nil
	}
	if dash(f[4]) != "" {
		pct, good := form.Percentage(strings.TrimSuffix(f[4], "%"))
		n.ActiveThreadPercentage, ok = sharing.KnownCell(pct, mps.SourceDaemon), ok && good
	}
	switch f[5] {
	case "0":
		n.Priority = mps.PriorityNormal
	case "1":
		n.Priority = mps.PriorityBelowNormal
	case "-", "":
	default:
		ok = false
	}
	return n, ok
}

// CreateNamespace creates a namespace with its limits and returns it as the
// daemon lists it. It starts without any limit: clients that join before its
// limits are set have none, so have clients wait for this call.
func (v *Client) CreateNamespace(ctx context.Context, server, namespace string, n Limits) (Namespace, error) {
	var l problem.List
	n.check(&l, "")
	if err := names(&l, "server", server, "namespace", namespace); err != nil {
		return Namespace{}, err
	}
	listed := func() (Namespace, bool, error) { return v.findNamespace(ctx, server, namespace) }
	made, err := create(ctx, v, listed, "namespace", "create", namespace, "--server="+server)
	if err != nil || n == (Limits{}) {
		return made, err
	}
	if err := v.SetNamespace(ctx, server, namespace, n); err != nil {
		return Namespace{}, err
	}
	made, _, err = listed()
	return made, err
}

func (v *Client) findNamespace(ctx context.Context, server, name string) (Namespace, bool, error) {
	rows, err := v.Namespaces(ctx, server)
	return find(rows, err, func(n Namespace) bool { return n.Name == name && n.Server == server })
}

// DeleteNamespace deletes a namespace and checks that it is gone. One with
// clients is refused.
func (v *Client) DeleteNamespace(ctx context.Context, server, namespace string) error {
	return v.deleteNamespace(ctx, server, namespace)
}

// ForceDeleteNamespace deletes a namespace even if it has clients.
func (v *Client) ForceDeleteNamespace(ctx context.Context, server, namespace string) error {
	return v.deleteNamespace(ctx, server, namespace, "--force")
}

func (v *Client) deleteNamespace(ctx context.Context, server, namespace string, flags ...string) error {
	if err := names(&problem.List{}, "server", server, "namespace", namespace); err != nil {
		return err
	}
	return remove(ctx, v, func() (Namespace, bool, error) { return v.findNamespace(ctx, server, namespace) },
		append([]string{"namespace", "delete", namespace, "--server=" + server}, flags...)...)
}
