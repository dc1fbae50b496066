// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
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

type nodeJSON struct {
	Name        string           `json:"name" yaml:"name,required"`
	Pool        string           `json:"pool,omitempty" yaml:"pool"`
	Delivery    sharing.Delivery `json:"delivery" yaml:"delivery"`
	MIGStrategy MIGStrategy      `json:"mig_strategy,omitempty" yaml:"mig_strategy"`
	Consumable  bool             `json:"consumable_shares,omitempty" yaml:"consumable_shares"`
	Spot        bool             `json:"spot,omitempty" yaml:"spot"`
	Closed      string           `json:"closed,omitempty" yaml:"closed"`
	CPUMilli    int64            `json:"cpu_milli,omitempty" yaml:"cpu_milli"`
	Memory      sharing.Bytes    `json:"memory,omitzero" yaml:"memory"`
	Devices     []deviceJSON     `json:"devices" yaml:"devices"`
	Assignments []assignmentJSON `json:"assignments" yaml:"assignments"`
}

type deviceJSON struct {
	UUID      string            `json:"uuid,omitempty" yaml:"uuid"`
	GPU       string            `json:"gpu,omitempty" yaml:"gpu"`
	Memory    sharing.Bytes     `json:"memory,omitzero" yaml:"memory"`
	Reserved  sharing.Bytes     `json:"reserved,omitzero" yaml:"reserved"`
	Context   sharing.Bytes     `json:"context,omitzero" yaml:"context"`
	MIG       string            `json:"mig,omitempty" yaml:"mig"` // key of the model in the catalogue
	Count     int               `json:"count,omitempty" yaml:"count"`
	Mode      sharing.Mechanism `json:"mode" yaml:"mode"`
	Open      bool              `json:"open,omitempty" yaml:"open"`
	Slots     int               `json:"slots,omitempty" yaml:"slots"`
	Limit     sharing.Bytes     `json:"limit,omitzero" yaml:"limit"`
	Instances []instanceJSON    `json:"instances,omitempty" yaml:"instances"`
	Dynamic   bool              `json:"dynamic,omitempty" yaml:"dynamic"`
	Health    Health            `json:"health,omitempty" yaml:"health"`
	Link      int               `json:"link,omitempty" yaml:"link"`
	NUMA      int               `json:"numa,omitempty" yaml:"numa"`
}

type instanceJSON struct {
	Profile string `json:"profile" yaml:"profile,required"`
	Start   int    `json:"start" yaml:"start"`
}

type assignmentJSON struct {
	Key        string            `json:"key" yaml:"key"`
	Workload   string            `json:"workload,omitempty" yaml:"workload"`
	Tenant     string            `json:"tenant,omitempty" yaml:"tenant"`
	Trusts     []string          `json:"trusts,omitempty" yaml:"trusts"`
	Objective  *objectiveJSON    `json:"objective,omitempty" yaml:"objective"`
	Replicas   int               `json:"replicas,omitempty" yaml:"replicas"`
	Devices    int               `json:"devices,omitempty" yaml:"devices"` // of each replica
	Device     *int              `json:"device,omitempty" yaml:"device"`   // absent: not known
	Mode       sharing.Mechanism `json:"mode,omitzero" yaml:"mode"`
	Profile    string            `json:"profile,omitempty" yaml:"profile"`
	Start      int               `json:"start,omitempty" yaml:"start"`
	Assumed    bool              `json:"assumed,omitempty" yaml:"assumed"`
	Compute    int               `json:"compute_milli,omitempty" yaml:"compute_milli"`
	Busy       int               `json:"busy_milli,omitempty" yaml:"busy_milli"`
	Cap        int               `json:"cap_milli,omitempty" yaml:"cap_milli"`
	Memory     sharing.Bytes     `json:"memory,omitzero" yaml:"memory"`
	CPUMilli   int               `json:"cpu_milli,omitempty" yaml:"cpu_milli"`
	HostMemory sharing.Bytes     `json:"host_memory,omitzero" yaml:"host_memory"`
}

type objectiveJSON struct {
	Slowdown float64 `json:"slowdown,omitempty" yaml:"slowdown"`
	TTFTP99  string  `json:"ttft_p99,omitempty" yaml:"ttft_p99"`
	TPOTP50  string  `json:"tpot_p50,omitempty" yaml:"tpot_p50"`
	TPOTP99  string  `json:"tpot_p99,omitempty" yaml:"tpot_p99"`
	E2EP99   string  `json:"e2e_p99,omitempty" yaml:"e2e_p99"`
}

// latencies pairs the fields of an objective with those of its JSON form.
func (o *objectiveJSON) latencies(to *Objective) [4]struct {
	name string
	text *string
	to   *time.Duration
} {
	return [4]struct {
		name string
		text *string
		to   *time.Duration
	}{{"ttft_p99", &o.TTFTP99, &to.TTFTP99}, {"tpot_p50", &o.TPOTP50, &to.TPOTP50}, {"tpot_p99", &o.TPOTP99, &to.TPOTP99},
		{"e2e_p99", &o.E2EP99, &to.E2EP99}}
}

// MarshalJSON writes nodes by name and assignments by device, so that equal layouts give equal bytes. Parse reads it,
// and shorter forms for writing by hand: a device with a count for so many alike; one with only its GPU's name, filled
// from the GPU table; {workload: w, replicas: 2, devices: 1} for replicas without further data, which get
// keys and devices.
func (c *Cluster) MarshalJSON() ([]byte, error) {
	out := clusterJSON{Nodes: []nodeJSON{}}
	for _, n := range byName(c) {
		out.Nodes = append(out.Nodes, n.form())
	}
	return json.Marshal(out)
}

// MarshalJSON writes the node as one of a cluster is written.
func (n *Node) MarshalJSON() ([]byte, error) { return json.Marshal(n.form()) }

func (n *Node) form() nodeJSON {
	j := nodeJSON{n.Name, n.Pool, n.Delivery, n.MIGStrategy, n.Consumable, n.Spot, n.Closed, n.CPUMilli, n.Memory,
		[]deviceJSON{}, []assignmentJSON{}}
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

// DecodeNode reads a node as one of a cluster is read, for files that hold nodes among other things.
func (n *Node) DecodeNode(d *strictyaml.Decoder, path string, y *yaml.Node) {
	var in nodeJSON
	d.Value(path, y, &in)
	r := reader{gpus: map[string]*GPU{}, workloads: map[string]*Workload{}}
	*n = r.node(&in, path)
	for _, p := range r.problems {
		d.Addf(p.Path, y, p.Remedy, "%s", p.Text)
	}
}

func (d *Device) form() deviceJSON {
	j := deviceJSON{UUID: d.UUID, Mode: d.Mode, Open: d.Open, Slots: int(d.Slots), Limit: d.Limit, Dynamic: d.Dynamic,
		Health: d.Health, Link: int(d.Link), NUMA: int(d.NUMA)}
	if g := d.GPU; g != nil {
		j.GPU, j.Memory, j.Reserved, j.Context = g.Name, g.Memory, g.Reserved, g.Context
		if g.MIG != nil {
			j.MIG = g.MIG.Key
		}
	}
	for _, in := range d.Instances {
		if in.Profile != nil {
			j.Instances = append(j.Instances, instanceJSON{in.Profile.Name, int(in.Start)})
		}
	}
	return j
}

func (a *Assignment) form() assignmentJSON {
	j := assignmentJSON{Key: a.Key, Workload: a.Workload.Name, Tenant: a.Workload.Tenant, Trusts: a.Workload.Trusts,
		Mode: a.Mode, Start: int(a.Start), Assumed: a.Assumed, Compute: int(a.Compute),
		Busy: int(a.Busy), Cap: int(a.Cap), Memory: a.Memory, CPUMilli: int(a.CPUMilli), HostMemory: a.HostMemory}
	if a.Device != UnknownDevice {
		device := int(a.Device)
		j.Device = &device
	}
	if a.Profile != nil {
		j.Profile = a.Profile.Name
	}
	if o := a.Workload.Objective; !o.IsZero() {
		j.Objective = &objectiveJSON{Slowdown: o.Slowdown}
		for _, l := range j.Objective.latencies(&o) {
			if *l.to != 0 {
				*l.text = l.to.String()
			}
		}
	}
	return j
}

// UnmarshalJSON reads the output of MarshalJSON. It does not report problems of the layout itself: Check does.
func (c *Cluster) UnmarshalJSON(data []byte) error {
	out, _, err := parse(data)
	if err == nil {
		*c = *out
	}
	return err
}

// maxBytes bounds the input of Parse.
const maxBytes = 256 << 20

// parse reads a layout as MarshalJSON writes it, strictly: an unknown key, a wrong type or a name that does not exist
// is an ErrInvalid that names every place. What can be read and contradicts itself is among the problems, as of
// Observe; Err makes them an error.
func parse(data []byte) (*Cluster, []Problem, error) {
	var in clusterJSON
	if err := strictyaml.Decode(data, &in, strictyaml.Options{MaxBytes: maxBytes}); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	r := reader{gpus: map[string]*GPU{}, workloads: map[string]*Workload{}}
	nodes := make([]Node, len(in.Nodes))
	for i := range in.Nodes {
		nodes[i] = r.node(&in.Nodes[i], fmt.Sprintf("nodes[%d]", i))
	}
	if err := Err(r.problems); err != nil {
		return nil, nil, err
	}
	c, found := Observe(nodes)
	return c, found, nil
}

// reader reads JSON forms, and shares the GPUs and workloads that are equal.
type reader struct {
	problems
	gpus      map[string]*GPU
	workloads map[string]*Workload
}

// number narrows a number, which is a problem where it does not fit.
func number[T int8 | int16 | int32](r *reader, n *Node, path string, v int) T {
	if int(T(v)) != v {
		r.add(n, path, "", "", "%d is out of range", v)
	}
	return T(v)
}

func (r *reader) node(j *nodeJSON, path string) Node {
	n := Node{Name: j.Name, Pool: j.Pool, Delivery: j.Delivery, MIGStrategy: j.MIGStrategy, Consumable: j.Consumable,
		Spot: j.Spot, Closed: j.Closed, CPUMilli: j.CPUMilli, Memory: j.Memory}
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
	d := Device{UUID: j.UUID, Mode: j.Mode, Open: j.Open, Limit: j.Limit, Dynamic: j.Dynamic, Health: j.Health,
		Slots: number[int16](r, n, path+".slots", j.Slots), Link: number[int8](r, n, path+".link", j.Link),
		NUMA: number[int8](r, n, path+".numa", j.NUMA)}
	if j.GPU != "" {
		d.GPU = r.gpu(n, j, path)
	}
	for i, in := range j.Instances {
		if p := r.profile(n, &d, in.Profile, fmt.Sprintf("%s.instances[%d].profile", path, i)); p != nil {
			d.Instances = append(d.Instances, Instance{Profile: p,
				Start: number[int8](r, n, fmt.Sprintf("%s.instances[%d].start", path, i), in.Start)})
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
	small := func(field string, v int) int16 { return number[int16](r, n, path+field, v) }
	device := int(UnknownDevice)
	if j.Device != nil {
		device = *j.Device
	}
	a := Assignment{Key: j.Key, Device: small(".device", device), Mode: j.Mode,
		Start: number[int8](r, n, path+".start", j.Start), Assumed: j.Assumed, Memory: j.Memory,
		HostMemory: j.HostMemory, CPUMilli: number[int32](r, n, path+".cpu_milli", j.CPUMilli),
		Compute: small(".compute_milli", j.Compute), Busy: small(".busy_milli", j.Busy), Cap: small(".cap_milli", j.Cap)}
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
	w := Workload{Name: j.Workload, Tenant: j.Tenant, Trusts: j.Trusts}
	if j.Objective != nil {
		w.Objective.Slowdown = j.Objective.Slowdown
		for _, l := range j.Objective.latencies(&w.Objective) {
			var err error
			if *l.text == "" {
				continue
			}
			if *l.to, err = time.ParseDuration(*l.text); err != nil || *l.to <= 0 {
				r.add(n, path+".objective."+l.name, `write it like "250ms"`, "", "%.40q is no limit of a latency", *l.text)
			}
		}
		if s := w.Objective.Slowdown; s != 0 && !(s >= 1 && s < 1e6) {
			r.add(n, path+".objective.slowdown", "1 is as fast as alone", "", "%v is no slowdown", s)
		}
	}
	key := fmt.Sprintf("%q %q %q %v", w.Name, w.Tenant, w.Trusts, w.Objective)
	if r.workloads[key] == nil {
		r.workloads[key] = &w
	}
	a.Workload = r.workloads[key]
	return a
}
