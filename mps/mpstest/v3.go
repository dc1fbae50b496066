package mpstest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// serverV3 is a named server; its process is not played.
type serverV3 struct {
	name, uid, devices string
	pid                int
	spaces             map[string]*namespaceV3
}

type namespaceV3 struct {
	fields  map[string]string
	clients []Process
}

// commandV3 plays one v3 command line, as documented for driver 615. It is
// called with mu held.
func (d *Daemon) commandV3(args []string) string {
	if slices.Equal(args, []string{"-q"}) {
		d.gone = true
		return ""
	}
	var pos []string
	opts := map[string]string{}
	for _, a := range args {
		if rest, ok := strings.CutPrefix(a, "--"); ok {
			k, v, _ := strings.Cut(rest, "=")
			opts[k] = v
		} else {
			pos = append(pos, a)
		}
	}
	if len(pos) < 2 {
		return fmt.Sprintf("Unknown command \"%s\"\n", strings.Join(args, " "))
	}
	text, known := "", true
	switch pos[0] {
	case "server":
		text, known = d.serverVerb(pos[1], pos[2:], opts)
	case "namespace":
		text, known = d.namespaceVerb(pos[1], pos[2:], opts)
	case "client":
		text, known = d.clientVerb(pos[1], pos[2:], opts)
	case "device":
		for _, g := range d.opt.GPUs {
			text += fmt.Sprintf("%d,-,%s,%s,%s,%d,%d,-\n", g.Ordinal, g.PCI, g.UUID, g.Name, g.SMs, g.SMs/chunkSMs)
		}
	case "sm-partition":
		text, known = d.partitionVerb(pos[1], pos[2:], opts)
	default:
		known = false
	}
	if !known {
		return fmt.Sprintf("Unknown command \"%s\"\n", strings.Join(pos[:2], " "))
	}
	return text
}

func (d *Daemon) serversV3() []string { return slices.Sorted(maps.Keys(d.v3)) }

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func (d *Daemon) serverVerb(verb string, pos []string, opts map[string]string) (string, bool) {
	if verb == "list" {
		var b strings.Builder
		for _, n := range d.serversV3() {
			s := d.v3[n]
			fmt.Fprintf(&b, "%s,%s,%d,Ready,%s,%s,-\n", n, s.uid, s.pid, path.Join(d.opt.PipeDirectory, n), or(s.devices, "-"))
		}
		return b.String(), true
	}
	if len(pos) == 0 {
		return "", false
	}
	name := pos[0]
	s := d.v3[name]
	if verb == "create" {
		if s != nil {
			return fmt.Sprintf("Server %s already exists\n", name), true
		}
		d.v3[name] = &serverV3{name: name, uid: or(opts["uid"], "0"), devices: opts["allowed-devices"], pid: d.nextPID,
			spaces: map[string]*namespaceV3{"default": {fields: map[string]string{}}}}
		d.nextPID++
		return "", true
	}
	if s == nil {
		return "Server not found\n", true
	}
	switch verb {
	case "delete":
		delete(d.v3, name)
	case "set":
		s.spaces["default"].set(opts)
	case "get":
		fields := map[string]string{"name": name, "uid": s.uid, "pid": fmt.Sprint(s.pid), "status": "Ready",
			"pipe-directory": path.Join(d.opt.PipeDirectory, name), "allowed-devices": or(s.devices, "-")}
		return fields[pos[len(pos)-1]] + "\n", true
	default:
		return "", false
	}
	return "", true
}

func (n *namespaceV3) set(opts map[string]string) {
	for _, k := range []string{"pinned-memory-limit", "active-thread-percentage", "client-priority"} {
		if v, ok := opts[k]; ok {
			n.fields[k] = v
		}
	}
}

func (d *Daemon) namespaceVerb(verb string, pos []string, opts map[string]string) (string, bool) {
	if verb == "list" {
		var b strings.Builder
		for _, sn := range d.serversV3() {
			if opts["server"] != "" && opts["server"] != sn {
				continue
			}
			for _, n := range slices.Sorted(maps.Keys(d.v3[sn].spaces)) {
				f := d.v3[sn].spaces[n].fields
				fmt.Fprintf(&b, "%s,%s,Ready,%s,%s,%s,%s\n", n, sn, or(f["pinned-memory-limit"], "-"), or(f["active-thread-percentage"], "-"),
					or(f["client-priority"], "-"), path.Join(d.opt.PipeDirectory, sn, n))
			}
		}
		return b.String(), true
	}
	if len(pos) == 0 {
		return "", false
	}
	server := opts["server"]
	if verb == "get" && len(pos) == 3 {
		server = pos[1]
	}
	s := d.v3[server]
	if s == nil {
		return "Server not found\n", true
	}
	switch n := s.spaces[pos[0]]; {
	case verb == "create" && n != nil:
		return fmt.Sprintf("Namespace %s already exists\n", pos[0]), true
	case verb == "create":
		s.spaces[pos[0]] = &namespaceV3{fields: map[string]string{}}
	case n == nil:
		return "Invalid command format.\n", true
	case verb == "delete":
		delete(s.spaces, pos[0])
	case verb == "set":
		n.set(opts)
	case verb == "get":
		return or(n.fields[pos[len(pos)-1]], "-") + "\n", true
	default:
		return "", false
	}
	return "", true
}

// ConnectV3 plays the first CUDA call of a process in a namespace. It returns
// the process's ID.
func (d *Daemon) ConnectV3(server, namespace string, p Process) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.v3[server]
	if s == nil || s.spaces[namespace] == nil {
		return 0, fmt.Errorf("mpstest: no namespace %s/%s", server, namespace)
	}
	if p.PID == 0 {
		p.PID = d.nextPID
		d.nextPID++
	}
	p.Command = or(p.Command, "./app")
	s.spaces[namespace].clients = append(s.spaces[namespace].clients, p)
	return p.PID, nil
}

func (d *Daemon) clientVerb(verb string, pos []string, opts map[string]string) (string, bool) {
	var b strings.Builder
	for _, sn := range d.serversV3() {
		for _, space := range slices.Sorted(maps.Keys(d.v3[sn].spaces)) {
			n := d.v3[sn].spaces[space]
			for _, c := range n.clients {
				if verb == "terminate" && len(pos) == 1 && pos[0] == fmt.Sprint(c.PID) {
					n.clients = slices.DeleteFunc(n.clients, func(x Process) bool { return x.PID == c.PID })
					return "", true
				}
				if opts["server"] == "" || opts["server"] == sn {
					fmt.Fprintf(&b, "%d,%s,0,%s,%s\n", c.PID, sn, space, c.Command)
				}
			}
		}
	}
	switch {
	case verb == "terminate" && len(pos) == 1:
		return fmt.Sprintf("Invalid process %s!\n", pos[0]), true
	case verb == "list":
		return b.String(), true
	}
	return "", false
}

func (d *Daemon) partitionVerb(verb string, pos []string, opts map[string]string) (string, bool) {
	if verb == "list" {
		var b strings.Builder
		for _, p := range d.parts {
			sms := p.chunks * chunkSMs
			if g, ok := d.gpu(p.gpu); ok && p.rest {
				sms += g.SMs % chunkSMs
			}
			fmt.Fprintf(&b, "%s,%s,%s,%d,%d,%t,created,%s\n", p.server, p.gpu, p.name, p.chunks, sms, p.rest, p.id)
		}
		for _, sn := range d.serversV3() {
			for _, g := range d.opt.GPUs {
				if free := g.SMs/chunkSMs - d.usedChunks(g.UUID); free > 0 {
					fmt.Fprintf(&b, "%s,%s,-,%d,%d,-,unallocated,-\n", sn, g.UUID, free, free*chunkSMs)
				}
			}
		}
		return b.String(), true
	}
	if len(pos) == 0 || d.v3[opts["server"]] == nil {
		return "Server not found\n", true
	}
	g, ok := d.gpu(opts["device"])
	if !ok {
		return "Invalid device identifier format: " + opts["device"] + "\n", true
	}
	switch verb {
	case "create":
		chunks, err := strconv.Atoi(opts["chunks"])
		if err != nil || chunks <= 0 || chunks > g.SMs/chunkSMs-d.usedChunks(g.UUID) {
			return "Invalid number of chunks\n", true
		}
		p := partition{gpu: g.UUID, id: d.partitionID(), chunks: chunks, server: opts["server"], name: pos[0], rest: opts["include-remainder"] == "true"}
		d.parts = append(d.parts, p)
		return fmt.Sprintf("SM partition '%s' created on device %s (sm-count=%d)\nCUDA_MPS_SM_PARTITION=%s/%s\n", p.name, p.gpu, chunks*chunkSMs, p.gpu, p.id), true
	case "delete":
		d.parts = slices.DeleteFunc(d.parts, func(p partition) bool {
			return p.name == pos[0] && p.gpu == g.UUID && p.server == opts["server"]
		})
		return fmt.Sprintf("SM partition '%s' deleted from device %s\n", pos[0], g.UUID), true
	}
	return "", false
}
