package mps

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// ClientV3 talks to a control daemon with protocol v3: named servers,
// namespaces and partitions (driver 615 and later). Its forms are NVIDIA's
// documentation (MPSV3); none was seen on hardware by this project, and each
// answer of another form is a ParseError. It is safe for concurrent use.
type ClientV3 struct{ c *Client }

// NewClientV3 returns a client. Options.GPUs are not used.
func NewClientV3(o Options) (*ClientV3, error) {
	c, err := NewClient(o)
	if err != nil {
		return nil, err
	}
	return &ClientV3{c: c}, nil
}

// PipeDirectory returns the daemon's pipe directory. Clients use
// <pipe>/<server>/<namespace>.
func (v *ClientV3) PipeDirectory() string { return v.c.pipe }

func (v *ClientV3) do(ctx context.Context, args ...string) (string, error) {
	for _, a := range args {
		if !wordForm.MatchString(a) {
			return "", &OpError{Op: clip(args[0]), Device: v.c.pipe, Err: fmt.Errorf("%w: %q is no argument", ErrInvalid, clip(a))}
		}
	}
	out, err := v.c.run(ctx, v.c.timeout, strings.Join(args, " "), Invocation{Args: args, PipeDirectory: v.c.pipe, Protocol: ProtocolV3})
	return out.Stdout, err
}

// table runs a list command and returns its rows of width fields.
func (v *ClientV3) table(ctx context.Context, what string, width int, args ...string) ([][]string, error) {
	text, err := v.do(ctx, append(args, "--format=csv,noheader")...)
	if err != nil {
		return nil, err
	}
	rows, err := parseCSV(what, width, text)
	if err != nil {
		return nil, &OpError{Op: strings.Join(args, " "), Device: v.c.pipe, Err: err}
	}
	return rows, nil
}

// parseCSV reads rows of exactly width fields. A last field with commas of its
// own, a command line, takes them all.
func parseCSV(what string, width int, text string) ([][]string, error) {
	var rows [][]string
	for i, line := range lines(text) {
		bad := &ParseError{What: what, Line: i + 1, Text: clip(line)}
		f := strings.SplitN(line, ",", width)
		if strings.Contains(line, `"`) {
			// A command line may hold quotes that quote nothing.
			if rec, err := csv.NewReader(strings.NewReader(line)).Read(); err == nil {
				f = rec
			}
		}
		if len(f) != width {
			return nil, bad
		}
		rows = append(rows, f)
	}
	return rows, nil
}

// field runs a get command, whose answer is one bare value.
func (v *ClientV3) field(ctx context.Context, args ...string) (string, error) {
	text, err := v.do(ctx, args...)
	if err != nil {
		return "", err
	}
	ls := lines(text)
	if len(ls) > 1 {
		return "", &OpError{Op: strings.Join(args, " "), Device: v.c.pipe, Err: &ParseError{What: "value", Text: clip(text)}}
	}
	return strings.TrimSpace(strings.Join(ls, "")), nil
}

// ServerV3 is one row of server list.
type ServerV3 struct {
	Name           string
	UID            int
	PID            int    // 0 while it does not run
	Status         string // the daemon's text, for example "Ready"
	PipeDirectory  string
	AllowedDevices []string // nil = all
	ContextIDs     string   // "" where the daemon prints "-"
}

// Servers lists the servers.
func (v *ClientV3) Servers(ctx context.Context) ([]ServerV3, error) {
	text, err := v.do(ctx, "server", "list", "--format=csv,noheader")
	if err != nil {
		return nil, err
	}
	servers, err := ParseServersV3(text)
	if err != nil {
		return nil, &OpError{Op: "server list", Device: v.c.pipe, Err: err}
	}
	return servers, nil
}

// ParseServersV3 reads the answer of server list --format=csv,noheader. The
// devices may be separated by commas of their own: the first five fields and
// the last are fixed.
func ParseServersV3(text string) ([]ServerV3, error) {
	const what = "list of v3 servers"
	var out []ServerV3
	for i, line := range lines(text) {
		bad := &ParseError{What: what, Line: i + 1, Text: clip(line)}
		f := strings.Split(strings.ReplaceAll(line, `"`, ""), ",")
		if len(f) < 7 || !nameForm.MatchString(f[0]) {
			return nil, bad
		}
		s := ServerV3{Name: f[0], Status: f[3], PipeDirectory: f[4], ContextIDs: dash(f[len(f)-1])}
		uid, err := strconv.ParseUint(f[1], 10, 32)
		s.UID = int(uid)
		ok := err == nil && s.Status != ""
		if f[2] != "-" && f[2] != "0" {
			var good bool
			s.PID, good = parsePID(f[2])
			ok = ok && good
		}
		for _, d := range f[5 : len(f)-1] {
			if d = dash(strings.TrimSpace(d)); d == "" || d == "all" {
				continue
			}
			if !isUUID(d) && !ordinalForm.MatchString(d) {
				ok = false
			}
			s.AllowedDevices = append(s.AllowedDevices, d)
		}
		if !ok {
			return nil, bad
		}
		out = append(out, s)
	}
	return out, nil
}

func dash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// ServerOptions are options of CreateServer.
type ServerOptions struct {
	UID            int      // -1 = the user who asks
	AllowedDevices []string // UUIDs; nil = all
	// Devices are the UUIDs that exist. A server allowed a device that does not
	// is created with success, dies, and leaves its clients without MPS and
	// limits (DYN-LIM), so AllowedDevices needs them.
	Devices         []string
	LocalityDomains bool // Blackwell; excludes static SM partitions
}

// CreateServer creates a named server and reads it back.
func (v *ClientV3) CreateServer(ctx context.Context, name string, o ServerOptions) (ServerV3, error) {
	var l problem.List
	checkName(&l, "name", name)
	if o.UID < -1 || int64(o.UID) > 1<<32-2 {
		l.Addf("UID", "use a user ID, or -1 for your own", "%d is no user ID", o.UID)
	}
	for i, d := range o.AllowedDevices {
		at := fmt.Sprintf("AllowedDevices[%d]", i)
		if !isUUID(d) {
			l.Addf(at, `name it by its UUID, "GPU-..."`, "%q is no UUID", clip(d))
		} else if !slices.ContainsFunc(o.Devices, func(have string) bool { return strings.HasPrefix(have, d) }) {
			l.Addf(at, "list the node's UUIDs in Devices and allow only those", "%s is not among Devices; its server would die and its clients run without limits", d)
		}
	}
	if err := invalid(&l); err != nil {
		return ServerV3{}, err
	}
	args := []string{"server", "create", name}
	if o.UID >= 0 {
		args = append(args, "--uid="+strconv.Itoa(o.UID))
	}
	if len(o.AllowedDevices) > 0 {
		args = append(args, "--allowed-devices="+strings.Join(o.AllowedDevices, ","))
	}
	if o.LocalityDomains {
		args = append(args, "--locality-domains=true")
	}
	if _, err := v.do(ctx, args...); err != nil {
		return ServerV3{}, err
	}
	s, ok, err := v.findServer(ctx, name)
	if err == nil && !ok {
		err = &OpError{Op: "server create " + name, Device: v.c.pipe, Err: &MismatchError{Setting: "server", Want: name}}
	}
	return s, err
}

func (v *ClientV3) findServer(ctx context.Context, name string) (ServerV3, bool, error) {
	servers, err := v.Servers(ctx)
	i := slices.IndexFunc(servers, func(s ServerV3) bool { return s.Name == name })
	if err != nil || i < 0 {
		return ServerV3{}, false, err
	}
	return servers[i], true, nil
}

// DeleteServer deletes a server and checks that it is gone. Without force a
// server with clients is refused; with force they lose their work.
func (v *ClientV3) DeleteServer(ctx context.Context, name string, force bool) error {
	if err := v.name("name", name); err != nil {
		return err
	}
	args := []string{"server", "delete", name}
	if force {
		args = append(args, "--force")
	}
	if _, err := v.do(ctx, args...); err != nil {
		return err
	}
	_, there, err := v.findServer(ctx, name)
	if err == nil && there {
		err = &OpError{Op: "server delete " + name, Device: v.c.pipe, Err: &MismatchError{Setting: "server", Want: "deleted", Got: name}}
	}
	return err
}

func (v *ClientV3) name(path, name string) error {
	var l problem.List
	checkName(&l, path, name)
	return invalid(&l)
}

// NamespaceLimits are what a v3 namespace gives its clients. Zero fields are
// not set. A namespace other than default inherits nothing from its server
// and may exceed it (DYN-LIM).
type NamespaceLimits struct {
	PinnedMemLimit         sharing.Bytes
	ActiveThreadPercentage int // 1 to 100
	Priority               Priority
}

func (n NamespaceLimits) check(l *problem.List, at string) {
	if n.PinnedMemLimit != 0 {
		addMemLimit(l, problem.Join(at, "PinnedMemLimit"), n.PinnedMemLimit, 0)
	}
	if p := n.ActiveThreadPercentage; p < 0 || p > 100 {
		l.Addf(problem.Join(at, "ActiveThreadPercentage"), "use 1 to 100, or 0 to leave it out", "%d is out of range", p)
	}
	if int(n.Priority) >= len(priorityNames) {
		l.Addf(problem.Join(at, "Priority"), "use PriorityNormal or PriorityBelowNormal", "%v", n.Priority)
	}
}

// fields are the limits that are set, in the order of the documentation, with
// their names on the command line.
func (n NamespaceLimits) fields() (out [][2]string, err error) {
	if n.PinnedMemLimit != 0 {
		text, err := FormatMemLimit(n.PinnedMemLimit)
		if err != nil {
			return nil, err
		}
		out = append(out, [2]string{"pinned-memory-limit", text})
	}
	if n.ActiveThreadPercentage != 0 {
		out = append(out, [2]string{"active-thread-percentage", strconv.Itoa(n.ActiveThreadPercentage)})
	}
	if n.Priority != PriorityUnset {
		out = append(out, [2]string{"client-priority", n.Priority.wire()})
	}
	return out, nil
}

// SetServer sets the limits of a server's default namespace and reads them
// back. Other namespaces get none of them.
func (v *ClientV3) SetServer(ctx context.Context, server string, n NamespaceLimits) error {
	return v.set(ctx, []string{"server", "set", server}, "default", server, n)
}

// SetNamespace sets a namespace's limits and reads them back.
func (v *ClientV3) SetNamespace(ctx context.Context, server, namespace string, n NamespaceLimits) error {
	return v.set(ctx, []string{"namespace", "set", namespace, "--server=" + server}, namespace, server, n)
}

func (v *ClientV3) set(ctx context.Context, args []string, namespace, server string, n NamespaceLimits) error {
	var l problem.List
	checkName(&l, "server", server)
	checkName(&l, "namespace", namespace)
	n.check(&l, "")
	if n == (NamespaceLimits{}) {
		l.Addf("", "set at least one limit", "there is nothing to set")
	}
	if err := invalid(&l); err != nil {
		return err
	}
	fields, err := n.fields()
	if err != nil {
		return err
	}
	for _, f := range fields {
		args = append(args, "--"+f[0]+"="+f[1])
	}
	if _, err := v.do(ctx, args...); err != nil {
		return err
	}
	for _, f := range fields {
		got, err := v.field(ctx, "namespace", "get", namespace, server, f[0])
		if err != nil {
			return err
		}
		if !sameSetting(f[0], f[1], got) {
			return &OpError{Op: strings.Join(args[:3], " "), Device: v.c.pipe,
				Err: &MismatchError{Setting: f[0] + " of " + path.Join(server, namespace), Want: f[1], Got: dash(got)}}
		}
	}
	return nil
}

// sameSetting compares values, since the daemon may write 2048M as 2G and 50
// as 50.0.
func sameSetting(field, want, got string) bool {
	switch field {
	case "pinned-memory-limit":
		w, err1 := ParseMemLimit(want)
		g, err2 := ParseMemLimit(got)
		return err1 == nil && err2 == nil && w == g
	case "active-thread-percentage":
		w, err1 := parsePercentage(want)
		g, err2 := parsePercentage(strings.TrimSuffix(got, "%"))
		return err1 == nil && err2 == nil && math.Abs(w-g) < 0.06
	}
	return want == got
}
