package mpsv3test

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
)

// Daemon is a fake control daemon. It is an mps.Runner, takes the faults of
// mpstest, and is safe for concurrent use.
type Daemon struct {
	*mpstest.Daemon
	v3 *state
}

// New returns a running fake.
func New(opts mpstest.Options) *Daemon {
	s := play(&opts)
	return &Daemon{mpstest.New(opts), s}
}

// Play makes a stand-in program of mpstest.ControlProgram play a v3 daemon if it
// is started as one, with -p 3.
func Play(args []string, opts *mpstest.Options) {
	if i := slices.Index(args, "-p"); i >= 0 && i+1 < len(args) && args[i+1] == "3" {
		play(opts)
	}
}

func play(opts *mpstest.Options) *state {
	if opts.PipeDirectory == "" {
		opts.PipeDirectory = mps.DefaultPipe
	}
	if opts.GPUs == nil {
		opts.GPUs = []mpstest.GPU{mpstest.H200(0)}
	}
	s := &state{pipe: opts.PipeDirectory, gpus: opts.GPUs, nextPID: mpstest.FirstPID, servers: map[string]*server{}}
	opts.Arguments = s.command
	return s
}

type state struct {
	pipe string
	gpus []mpstest.GPU

	mu      sync.Mutex
	nextPID int
	servers map[string]*server
	parts   []partition
}

// server is a named server; its process is not played.
type server struct {
	uid, devices string
	pid          int
	spaces       map[string]*namespace
}

type namespace struct {
	fields  map[string]string
	clients []mpstest.Process
}

type partition struct {
	gpu, id, server, name string
	chunks                int
	rest                  bool // with the SMs that fill no chunk
}

// chunkSMs is the chunk of Hopper and later.
const chunkSMs = 8

func (s *state) pid() int {
	s.nextPID++
	return s.nextPID - 1
}

// command plays one command line, as documented for driver 615.
func (d *state) command(args []string) (answer string, quit bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Equal(args, []string{"-q"}) {
		return "", true
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
		return fmt.Sprintf("Unknown command \"%s\"\n", strings.Join(args, " ")), false
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
		for _, g := range d.gpus {
			text += fmt.Sprintf("%d,-,%s,%s,%s,%d,%d,-\n", g.Ordinal, g.PCI, g.UUID, g.Name, g.SMs, g.SMs/chunkSMs)
		}
	case "sm-partition":
		text, known = d.partitionVerb(pos[1], pos[2:], opts)
	default:
		known = false
	}
	if !known {
		return fmt.Sprintf("Unknown command \"%s\"\n", strings.Join(pos[:2], " ")), false
	}
	return text, false
}

func (d *state) names() []string { return slices.Sorted(maps.Keys(d.servers)) }

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func (d *state) serverVerb(verb string, pos []string, opts map[string]string) (string, bool) {
	if verb == "list" {
		var b strings.Builder
		for _, n := range d.names() {
			s := d.servers[n]
			fmt.Fprintf(&b, "%s,%s,%d,Ready,%s,%s,-\n", n, s.uid, s.pid, path.Join(d.pipe, n), or(s.devices, "-"))
		}
		return b.String(), true
	}
	if len(pos) == 0 {
		return "", false
	}
	name := pos[0]
	s := d.servers[name]
	if verb == "create" {
		if s != nil {
			return fmt.Sprintf("Server %s already exists\n", name), true
		}
		d.servers[name] = &server{uid: or(opts["uid"], "0"), devices: opts["allowed-devices"], pid: d.pid(),
			spaces: map[string]*namespace{"default": {fields: map[string]string{}}}}
		return "", true
	}
	if s == nil {
		return "Server not found\n", true
	}
	switch verb {
	case "delete":
		delete(d.servers, name)
	case "set":
		s.spaces["default"].set(opts)
	case "get":
		fields := map[string]string{"name": name, "uid": s.uid, "pid": fmt.Sprint(s.pid), "status": "Ready",
			"pipe-directory": path.Join(d.pipe, name), "allowed-devices": or(s.devices, "-")}
		return fields[pos[len(pos)-1]] + "\n", true
	default:
		return "", false
	}
	return "", true
}

func (n *namespace) set(opts map[string]string) {
	for _, k := range []string{"pinned-memory-limit", "active-thread-percentage", "client-priority"} {
		if v, ok := opts[k]; ok {
			n.fields[k] = v
		}
	}
}

func (d *state) namespaceVerb(verb string, pos []string, opts map[string]string) (string, bool) {
	if verb == "list" {
		var b strings.Builder
		for _, sn := range d.names() {
			if opts["server"] != "" && opts["server"] != sn {
				continue
			}
			for _, n := range slices.Sorted(maps.Keys(d.servers[sn].spaces)) {
				f := d.servers[sn].spaces[n].fields
				fmt.Fprintf(&b, "%s,%s,Ready,%s,%s,%s,%s\n", n, sn, or(f["pinned-memory-limit"], "-"), or(f["active-thread-percentage"], "-"),
					or(f["client-priority"], "-"), path.Join(d.pipe, sn, n))
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
	s := d.servers[server]
	if s == nil {
		return "Server not found\n", true
	}
	switch n := s.spaces[pos[0]]; {
	case verb == "create" && n != nil:
		return fmt.Sprintf("Namespace %s already exists\n", pos[0]), true
	case verb == "create":
		s.spaces[pos[0]] = &namespace{fields: map[string]string{}}
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

// Connect plays the first CUDA call of a process in a namespace. It returns
// the process's ID, which the fake invents if there is none.
func (d *Daemon) Connect(server, namespace string, p mpstest.Process) (int, error) {
	d.v3.mu.Lock()
	defer d.v3.mu.Unlock()
	s := d.v3.servers[server]
	if s == nil || s.spaces[namespace] == nil {
		return 0, fmt.Errorf("mpsv3test: no namespace %s/%s", server, namespace)
	}
	if p.PID == 0 {
		p.PID = d.v3.pid()
	}
	p.Command = or(p.Command, "./app")
	s.spaces[namespace].clients = append(s.spaces[namespace].clients, p)
	return p.PID, nil
}

func (d *state) clientVerb(verb string, pos []string, opts map[string]string) (string, bool) {
	var b strings.Builder
	for _, sn := range d.names() {
		for _, space := range slices.Sorted(maps.Keys(d.servers[sn].spaces)) {
			n := d.servers[sn].spaces[space]
			for _, c := range n.clients {
				if verb == "terminate" && len(pos) == 1 && pos[0] == fmt.Sprint(c.PID) {
					n.clients = slices.DeleteFunc(n.clients, func(x mpstest.Process) bool { return x.PID == c.PID })
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

func (d *state) partitionVerb(verb string, pos []string, opts map[string]string) (string, bool) {
	if verb == "list" {
		var b strings.Builder
		for _, p := range d.parts {
			sms := p.chunks * chunkSMs
			if g, ok := d.gpu(p.gpu); ok && p.rest {
				sms += g.SMs % chunkSMs
			}
			fmt.Fprintf(&b, "%s,%s,%s,%d,%d,%t,created,%s\n", p.server, p.gpu, p.name, p.chunks, sms, p.rest, p.id)
		}
		for _, sn := range d.names() {
			for _, g := range d.gpus {
				if free := g.SMs/chunkSMs - d.usedChunks(g.UUID); free > 0 {
					fmt.Fprintf(&b, "%s,%s,-,%d,%d,-,unallocated,-\n", sn, g.UUID, free, free*chunkSMs)
				}
			}
		}
		return b.String(), true
	}
	if len(pos) == 0 || d.servers[opts["server"]] == nil {
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
		p := partition{gpu: g.UUID, id: fmt.Sprintf("Dx%dAAAAAAAAAAAAAAAAAAAAAAAAAAAA", d.pid()), chunks: chunks, server: opts["server"], name: pos[0], rest: opts["include-remainder"] == "true"}
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

func (d *state) gpu(name string) (mpstest.GPU, bool) {
	i := slices.IndexFunc(d.gpus, func(g mpstest.GPU) bool { return strings.HasPrefix(g.UUID, name) || fmt.Sprint(g.Ordinal) == name })
	if i < 0 {
		return mpstest.GPU{}, false
	}
	return d.gpus[i], true
}

func (d *state) usedChunks(uuid string) int {
	n := 0
	for _, p := range d.parts {
		if p.gpu == uuid {
			n += p.chunks
		}
	}
	return n
}
