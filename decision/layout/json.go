// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// The forms of a layout in JSON. Keys keep their names and meanings; new ones may come.
type clusterJSON struct {
	Nodes []nodeJSON `json:"nodes" yaml:"nodes,required"`
}

// nodeJSON, deviceJSON and assignmentJSON are written as the embedded type's tags say, but for fields of their own.
type nodeJSON struct {
	nodeFields
	Devices     []deviceJSON     `json:"devices" yaml:"devices"`
	Assignments []assignmentJSON `json:"assignments" yaml:"assignments"`
}

type nodeFields Node // without its methods

type deviceJSON struct {
	UUID      string            `json:"uuid,omitempty" yaml:"uuid"`
	GPU       string            `json:"gpu,omitempty" yaml:"gpu"`
	Memory    sharing.Bytes     `json:"memory,omitzero" yaml:"memory"`
	Reserved  sharing.Bytes     `json:"reserved,omitzero" yaml:"reserved"`
	Context   sharing.Bytes     `json:"context,omitzero" yaml:"context"`
	MIG       string            `json:"mig,omitempty" yaml:"mig"` // key of the model in the catalogue
	Count     int               `json:"count,omitempty" yaml:"count"`
	Mode      sharing.Mechanism `json:"mode" yaml:"mode"`
	Instances []instanceJSON    `json:"instances,omitempty" yaml:"instances"`
	Device
}

type instanceJSON struct {
	Profile string `json:"profile" yaml:"profile,required"`
	Start   int8   `json:"start" yaml:"start"`
}

type assignmentJSON struct {
	Key       string            `json:"key" yaml:"key"`
	Workload  string            `json:"workload,omitempty" yaml:"workload"`
	Tenant    string            `json:"tenant,omitempty" yaml:"tenant"`
	Trusts    []string          `json:"trusts,omitempty" yaml:"trusts"`
	Written   *objectiveJSON    `json:"objective,omitempty"`
	Objective Objective         `json:"-" yaml:"objective"`
	Replicas  int               `json:"replicas,omitempty" yaml:"replicas"`
	Devices   int               `json:"devices,omitempty" yaml:"devices"` // of each replica
	Device    *int16            `json:"device,omitempty" yaml:"device"`   // absent: not known
	Mode      sharing.Mechanism `json:"mode,omitzero" yaml:"mode"`
	Profile   string            `json:"profile,omitempty" yaml:"profile"`
	Assignment
}

// objectiveJSON has latencies as text, which the decoder of layouts reads into a time.Duration.
type objectiveJSON struct {
	Slowdown float64 `json:"slowdown,omitempty"`
	TTFTP99  string  `json:"ttft_p99,omitempty"`
	TPOTP50  string  `json:"tpot_p50,omitempty"`
	TPOTP99  string  `json:"tpot_p99,omitempty"`
	E2EP99   string  `json:"e2e_p99,omitempty"`
}

// MarshalJSON writes nodes by name and assignments by device, so that equal layouts give equal bytes. UnmarshalJSON
// reads it, and shorter forms for writing by hand: a device with a count, for several equal ones; one with only its
// GPU's name, completed from the GPU table; {workload: w, replicas: 2, devices: 1} for replicas without further data,
// which get keys and devices.
func (c *Cluster) MarshalJSON() ([]byte, error) {
	out := clusterJSON{Nodes: []nodeJSON{}}
	for _, n := range byName(c) {
		out.Nodes = append(out.Nodes, n.form())
	}
	return json.Marshal(out)
}

// MarshalJSON writes the node as in a cluster.
func (n *Node) MarshalJSON() ([]byte, error) { return json.Marshal(n.form()) }

func (n *Node) form() nodeJSON {
	j := nodeJSON{nodeFields(*n), []deviceJSON{}, []assignmentJSON{}}
	for i := range n.Devices {
		j.Devices = append(j.Devices, n.Devices[i].form())
	}
	all := slices.Clone(n.Assignments)
	slices.SortStableFunc(all, compareAssignments)
	for i := range all {
		j.Assignments = append(j.Assignments, all[i].form())
	}
	return j
}

// UnmarshalJSON reads the form of MarshalJSON.
func (n *Node) UnmarshalJSON(data []byte) error {
	return strictyaml.Decode(data, n, strictyaml.Options{MaxBytes: maxBytes})
}

func init() { strictyaml.Register((*Node).decode) }

// decode reads a node as one of a cluster is read, for files that hold nodes among other things.
func (n *Node) decode(d *strictyaml.Decoder, path string, y *yaml.Node) {
	var in nodeJSON
	d.Value(path, y, &in)
	r := reader{gpus: map[string]*GPU{}, workloads: map[string]*Workload{}}
	*n = r.node(&in, path)
	for _, p := range r.problems {
		d.Addf(p.Path, y, p.Remedy, "%s", p.Text)
	}
}

func (d *Device) form() deviceJSON {
	j := deviceJSON{UUID: d.UUID, Mode: d.Mode, Device: *d}
	if g := d.GPU; g != nil {
		j.GPU, j.Memory, j.Reserved, j.Context = g.Name, g.Memory, g.Reserved, g.Context
		if g.MIG != nil {
			j.MIG = g.MIG.Key
		}
	}
	for _, in := range d.Instances {
		if in.Profile != nil {
			j.Instances = append(j.Instances, instanceJSON{in.Profile.Name, in.Start})
		}
	}
	return j
}

func (a *Assignment) form() assignmentJSON {
	j := assignmentJSON{Key: a.Key, Workload: a.Workload.Name, Tenant: a.Workload.Tenant, Trusts: a.Workload.Trusts,
		Mode: a.Mode, Assignment: *a}
	if a.Device != UnknownDevice {
		j.Device = &a.Device
	}
	if a.Profile != nil {
		j.Profile = a.Profile.Name
	}
	if o := a.Workload.Objective; o != (Objective{}) {
		text := func(d time.Duration) string {
			if d == 0 {
				return ""
			}
			return d.String()
		}
		j.Written = &objectiveJSON{o.Slowdown, text(o.TTFTP99), text(o.TPOTP50), text(o.TPOTP99), text(o.E2EP99)}
	}
	return j
}

// maxBytes bounds the input of UnmarshalJSON.
const maxBytes = 256 << 20

// UnmarshalJSON reads a layout as MarshalJSON writes it, strictly: an unknown key, a wrong type or an unknown name is
// an error that names every place. Contradictions are not reported: call Check.
func (c *Cluster) UnmarshalJSON(data []byte) error {
	var in clusterJSON
	if err := strictyaml.Decode(data, &in, strictyaml.Options{MaxBytes: maxBytes}); err != nil {
		return fmt.Errorf("%w: %w", errInvalid, err)
	}
	r := reader{gpus: map[string]*GPU{}, workloads: map[string]*Workload{}}
	nodes := make([]Node, len(in.Nodes))
	for i := range in.Nodes {
		nodes[i] = r.node(&in.Nodes[i], fmt.Sprintf("nodes[%d]", i))
	}
	if err := Err(r.problems); err != nil {
		return err
	}
	out, _ := Observe(nodes)
	*c = *out
	return nil
}

// reader reads JSON forms, and shares the GPUs and workloads that are equal.
type reader struct {
	problems
	gpus      map[string]*GPU
	workloads map[string]*Workload
}

// known reports a text that is none of those that a key takes.
func (r *reader) known(n *Node, path, text string, texts ...string) {
	if text != "" && !slices.Contains(texts, text) {
		r.add(n, path, "use "+strings.Join(texts, ", ")+", or leave it out", "", "%q is not known", text)
	}
}

func (r *reader) node(j *nodeJSON, path string) Node {
	n := Node(j.nodeFields)
	r.known(&n, path+".mig_strategy", n.MIGStrategy, "none", "single", "mixed")
	if len(j.Devices) > math.MaxInt16 {
		r.add(&n, path+".devices", "", "", "%d devices are too many", len(j.Devices))
		return n
	}
	for i := range j.Devices {
		d, count := r.device(&n, &j.Devices[i], fmt.Sprintf("%s.devices[%d]", path, i)), max(1, j.Devices[i].Count)
		if len(n.Devices)+count > math.MaxInt16 {
			r.add(&n, fmt.Sprintf("%s.devices[%d].count", path, i), "", "", "%d devices are too many", count)
			return n
		}
		for range count {
			n.Devices = append(n.Devices, d)
		}
	}
	for i := range j.Assignments {
		at := fmt.Sprintf("%s.assignments[%d]", path, i)
		a := r.assignment(&n, &j.Assignments[i], at)
		if j.Assignments[i].Key != "" {
			n.Assignments = append(n.Assignments, a)
			continue
		}
		replicas, devices := max(1, j.Assignments[i].Replicas), max(1, j.Assignments[i].Devices)
		if a.Workload.Name == "" || replicas > math.MaxInt16 || devices > math.MaxInt8 {
			r.add(&n, at+".key", "name the replica, or the workload of some replicas", "", "is empty")
			continue
		}
		for range replicas {
			a.Key = n.freshKey(a.Workload.Name)
			for range devices {
				n.Assignments = append(n.Assignments, a)
			}
		}
	}
	return n
}

// freshKey is a key for a replica of which only the workload is known.
func (n *Node) freshKey(workload string) string {
	for i := 1; ; i++ {
		if key := fmt.Sprintf("%s@%s-%d", workload, n.Name, i); n.find(key) < 0 {
			return key
		}
	}
}

func (r *reader) device(n *Node, j *deviceJSON, path string) Device {
	d := j.Device
	r.known(n, path+".health", d.Health, "healthy", "unhealthy", "lost")
	if d.UUID, d.Mode = j.UUID, j.Mode; j.GPU != "" {
		d.GPU = r.gpu(n, j, path)
	}
	for i, in := range j.Instances {
		if p := r.profile(n, &d, in.Profile, fmt.Sprintf("%s.instances[%d].profile", path, i)); p != nil {
			d.Instances = append(d.Instances, Instance{Profile: p, Start: in.Start})
		}
	}
	return d
}

func (r *reader) gpu(n *Node, j *deviceJSON, path string) *GPU {
	key := fmt.Sprintf("%q %d %d %d %q", j.GPU, j.Memory, j.Reserved, j.Context, j.MIG)
	if g := r.gpus[key]; g != nil {
		return g
	}
	g := GPUOf(j.GPU)
	if j.Memory == 0 && j.MIG == "" {
		r.gpus[key] = g
		return g
	}
	g.Name, g.Memory, g.Reserved, g.Context, g.MIG = j.GPU, j.Memory, j.Reserved, j.Context, nil
	if j.MIG != "" {
		model, err := mig.Lookup(j.MIG)
		if err != nil {
			r.add(n, path+".mig", "", "", "%v", err)
		}
		g.MIG = model
	}
	r.gpus[key] = g
	return g
}

func (r *reader) profile(n *Node, d *Device, name, path string) *mig.Profile {
	if d.GPU == nil || d.GPU.MIG == nil {
		r.add(n, path, "name the GPU's MIG model", "", "the device has no MIG")
		return nil
	}
	p, err := d.GPU.MIG.Profile(name)
	if err != nil {
		r.add(n, path, "", "", "%v", err)
	}
	return p
}

func (r *reader) assignment(n *Node, j *assignmentJSON, path string) Assignment {
	a := j.Assignment
	if a.Key, a.Mode, a.Device = j.Key, j.Mode, UnknownDevice; j.Device != nil {
		a.Device = *j.Device
	}
	if j.Profile != "" {
		at := int(a.Device)
		if at < 0 { // any that is partitioned knows the profile
			at = slices.IndexFunc(n.Devices, func(d Device) bool { return d.GPU != nil && d.GPU.MIG != nil })
		}
		if at < 0 || at >= len(n.Devices) {
			r.add(n, path+".device", "name the device of the instance", "", "there is no device %d", a.Device)
		} else {
			a.Profile = r.profile(n, &n.Devices[at], j.Profile, path+".profile")
		}
	}
	w := Workload{Name: j.Workload, Tenant: j.Tenant, Trusts: j.Trusts, Objective: j.Objective}
	o := &w.Objective
	if least := min(o.TTFTP99, o.TPOTP50, o.TPOTP99, o.E2EP99); least < 0 {
		r.add(n, path+".objective", "leave it out", "", "%v is no limit of a latency", least)
	}
	if s := o.Slowdown; s != 0 && !(s >= 1 && s < 1e6) {
		r.add(n, path+".objective.slowdown", "1 is as fast as isolated", "", "%v is no slowdown", s)
	}
	key := fmt.Sprintf("%q %q %q %v", w.Name, w.Tenant, w.Trusts, w.Objective)
	if r.workloads[key] == nil {
		r.workloads[key] = &w
	}
	a.Workload = r.workloads[key]
	return a
}
