package manifest

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// ErrInvalid is matched by every error about an input: a fleet that cannot be
// configured, or a document that cannot be read or that its reader would
// refuse. Such an error names every problem with its path and, where there is
// one, the remedy.
var ErrInvalid = errors.New("manifest: invalid")

func invalid(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}

// Fleet says what runs where and how the GPUs are shared.
type Fleet struct {
	Groups    []Group
	Workloads []Workload
}

// Group is the GPUs of a node pool that share by one mechanism. A pool may
// have several groups; a node belongs to one.
type Group struct {
	Pool      string            // name of the node pool, a DNS label
	Mechanism sharing.Mechanism // not None
	GPU       string            // product name, as sharing.LookupGPU reads it; may be empty
	// GPUMemory is the memory of one GPU; 0 takes the known GPU's.
	GPUMemory sharing.Bytes
	GPUs      int // GPUs in the group, 1 or more
	// GPUsPerNode is how many GPUs one node has; 0 is unknown.
	GPUsPerNode int
	// Replicas is the number of clients for each GPU, or for each MIG instance
	// under MIGWithMPS. 0 takes the most that any GPU of Layouts has, and at
	// least the 2 that the device plugin asks for.
	Replicas int
	// Layouts says what each GPU carries. It must be given for MIG.
	Layouts []Layout
	// VGPUType is the vGPU type of a vGPU group, for example "A100D-10C".
	VGPUType string
	// VGPUScheduler is the scheduler of a time-sliced vGPU group.
	VGPUScheduler VGPUScheduler
}

// Layout is what one GPU carries, or several GPUs that are alike.
type Layout struct {
	GPUs      int            // how many GPUs; 0 stands for 1
	Instances map[string]int // MIG profile name to number
	Tenants   []Tenant       // who runs there
}

// Tenant is a number of a workload's pods on one GPU.
type Tenant struct {
	Workload string
	Replicas int
}

// Workload is something to run: a Deployment.
type Workload struct {
	Name      string // DNS label, unique in the fleet
	Namespace string // "" leaves it out
	Pool      string
	Mechanism sharing.Mechanism // that of a group of the pool
	Replicas  int               // pods; 0 stands for 1
	GPUs      int               // whole GPUs or MIG instances for each pod; 0 stands for 1
	Profile   string            // MIG profile
	// Memory is what a pod may use of each GPU; 0 sets no limit.
	Memory sharing.Bytes
	// ComputePercent is the share of a GPU's compute that a pod may use: the
	// active thread percentage under MPS, gpucores under HAMi. 0 sets no limit.
	ComputePercent float64
	Framework      Framework
	Container      string   // name of the container; "" is the workload's name
	Image          string   // "" leaves it out: the document is then a patch
	Args           []string // arguments to keep before those that are added
}

// Framework is the serving framework of a workload.
type Framework struct {
	// Name is vllm, sglang or tgi for a memory-fraction option; others get none.
	Name string
	// MemoryFraction is the fraction to give it, 0 to 1; 0 computes it from
	// Memory and the mechanism where that is possible.
	MemoryFraction float64
	// Processes is the number of CUDA processes in a pod; 0 stands for 1. MPS
	// limits each of them.
	Processes int
	// CUDAGraphs says whether it launches CUDA graphs, which HAMi's compute
	// limit does not see.
	CUDAGraphs sharing.Answer
}

func (w *Workload) replicas() int { return max(w.Replicas, 1) }
func (w *Workload) gpus() int     { return max(w.GPUs, 1) }
func (w *Workload) container() string {
	if w.Container != "" {
		return w.Container
	}
	return w.Name
}

// file is the name under which the workload's documents are written.
func (w *Workload) file() string {
	if w.Namespace == "" {
		return w.Name
	}
	return w.Namespace + "." + w.Name
}

// Key names the group: it is its device-plugin configuration's key and the
// value of its nodes' label.
func (g *Group) Key() string {
	return g.Pool + "-" + strings.ReplaceAll(g.Mechanism.String(), "+", "-")
}

// memory is the memory of one GPU, or 0.
func (g *Group) memory() sharing.Bytes {
	if g.GPUMemory > 0 {
		return g.GPUMemory
	}
	if gpu, err := sharing.LookupGPU(g.GPU); err == nil {
		if b, ok := gpu.Memory.Get(); ok {
			return b
		}
	}
	return 0
}

func (g *Group) clients() int {
	n := g.Replicas
	if n == 0 {
		for _, l := range g.Layouts {
			n = max(n, l.tenants())
		}
		if n == 1 {
			n = 2
		}
	}
	return n
}

func (l *Layout) gpus() int { return max(l.GPUs, 1) }

func (l *Layout) tenants() int {
	n := 0
	for _, t := range l.Tenants {
		n += t.Replicas
	}
	return n
}

// nodes is the number of nodes that the group takes, or 0 where unknown.
func (g *Group) nodes() int {
	if g.GPUsPerNode == 0 {
		return 0
	}
	return (g.GPUs + g.GPUsPerNode - 1) / g.GPUsPerNode
}

func usesMPS(m sharing.Mechanism) bool {
	return m == sharing.MechanismMPS || m == sharing.MechanismMIGLikeEmulation || m == sharing.MechanismMIGWithMPS
}

func usesMIG(m sharing.Mechanism) bool {
	return m == sharing.MechanismMIG || m == sharing.MechanismMIGWithMPS
}

// shared reports whether the mechanism hands out replicas of a device, of
// which a pod takes exactly one.
func shared(m sharing.Mechanism) bool { return m == sharing.MechanismTimeSlicing || usesMPS(m) }

func isVGPU(m sharing.Mechanism) bool {
	return m == sharing.MechanismVGPU || m == sharing.MechanismMIGBackedVGPU
}

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

const dnsRemedy = "use up to 63 lower-case letters, digits and dashes, with a letter or digit at both ends"

func checkName(l *problem.List, path, name string) {
	if !dnsLabel.MatchString(name) {
		l.Addf(path, dnsRemedy, "%q is not a Kubernetes name", name)
	}
}

// Validate returns nil, or an error that matches ErrInvalid and names every
// reason for which no configuration can be written.
func (f *Fleet) Validate() error {
	var l problem.List
	f.check(&l)
	return invalid(l.Err())
}

func (f *Fleet) check(l *problem.List) {
	if len(f.Groups) == 0 {
		l.Addf("groups", "name at least one group of GPUs", "is empty")
	}
	keys := map[string]int{}
	for i := range f.Groups {
		g := &f.Groups[i]
		at := fmt.Sprintf("groups[%d]", i)
		g.check(l, at)
		if j, dup := keys[g.Key()]; dup {
			l.Addf(at, "put all GPUs of one pool and mechanism into one group", "repeats groups[%d]", j)
			continue
		}
		keys[g.Key()] = i
	}
	names := map[string]int{}
	for i := range f.Workloads {
		w := &f.Workloads[i]
		at := fmt.Sprintf("workloads[%d]", i)
		w.check(l, at)
		if j, dup := names[w.Name]; dup {
			l.Addf(at+".name", "give each workload its own name", "repeats workloads[%d]", j)
		}
		names[w.Name] = i
		g := f.group(w)
		if g == nil {
			l.Addf(at+".pool", "add the group, or change the pool or the mechanism", "no group of pool %q shares by %v", w.Pool, w.Mechanism)
			continue
		}
		g.checkWorkload(l, at, w)
	}
	for i := range f.Groups {
		for j, layout := range f.Groups[i].Layouts {
			for k, t := range layout.Tenants {
				at := fmt.Sprintf("groups[%d].layouts[%d].tenants[%d]", i, j, k)
				if !slices.ContainsFunc(f.Workloads, func(w Workload) bool { return w.Name == t.Workload }) {
					l.Addf(at+".workload", "name a workload of the fleet", "%q is not known", t.Workload)
				}
				if t.Replicas < 1 {
					l.Addf(at+".replicas", "", "must be 1 or more, not %d", t.Replicas)
				}
			}
		}
	}
}

// group returns the group that w runs on, or nil.
func (f *Fleet) group(w *Workload) *Group {
	for i := range f.Groups {
		if f.Groups[i].Pool == w.Pool && f.Groups[i].Mechanism == w.Mechanism {
			return &f.Groups[i]
		}
	}
	return nil
}

func (g *Group) check(l *problem.List, at string) {
	checkName(l, at+".pool", g.Pool)
	if len(g.Key()) > 63 && dnsLabel.MatchString(g.Pool) {
		l.Addf(at+".pool", "shorten the pool's name", "with the mechanism it makes a label of %d characters; 63 is the most", len(g.Key()))
	}
	if g.Mechanism == sharing.MechanismNone || int(g.Mechanism) >= sharing.MechanismCount {
		l.Addf(at+".mechanism", "leave out what runs nowhere", "%v is not a way to run", g.Mechanism)
	}
	if g.GPU != "" {
		if _, err := sharing.LookupGPU(g.GPU); err != nil {
			l.AddErr(at+".gpu", err)
		}
	}
	for _, n := range []struct {
		name  string
		value int
		low   int
	}{{"gpus", g.GPUs, 1}, {"gpus_per_node", g.GPUsPerNode, 0}, {"replicas", g.Replicas, 0}} {
		if n.value < n.low || n.value > 1_000_000 {
			l.Addf(at+"."+n.name, "", "must be %d to 1000000, not %d", n.low, n.value)
		}
	}
	if g.GPUMemory < 0 {
		l.Addf(at+".gpu_memory", "", "must not be negative")
	}
	if least := 2; shared(g.Mechanism) {
		if g.Mechanism == sharing.MechanismMIGWithMPS {
			least = 1
		}
		if n := g.clients(); n < least {
			l.Addf(at+".replicas", fmt.Sprintf("give %d or more, or make the group exclusive", least), "%v needs clients that share; there is room for %d", g.Mechanism, n)
		}
	}
	g.checkLayouts(l, at)
	if isVGPU(g.Mechanism) {
		g.checkVGPU(l, at)
	} else if g.VGPUType != "" {
		l.Addf(at+".vgpu_type", "remove it", "has a meaning for vgpu and mig-vgpu only")
	}
}

func (g *Group) checkLayouts(l *problem.List, at string) {
	gpus := 0
	for j, layout := range g.Layouts {
		here := fmt.Sprintf("%s.layouts[%d]", at, j)
		if layout.GPUs < 0 || layout.GPUs > 1_000_000 {
			l.Addf(here+".gpus", "", "must be 0 to 1000000, not %d", layout.GPUs)
		}
		gpus += layout.gpus()
		if len(layout.Instances) > 0 && !usesMIG(g.Mechanism) {
			l.Addf(here+".instances", "remove them", "MIG instances in a group that shares by %v", g.Mechanism)
		}
	}
	if len(g.Layouts) > 0 && gpus != g.GPUs {
		l.Addf(at+".layouts", "describe every GPU once", "describe %d GPUs of %d", gpus, g.GPUs)
	}
	if usesMIG(g.Mechanism) {
		if len(g.Layouts) == 0 {
			l.Addf(at+".layouts", "say which instances each GPU has", "MIG needs a layout")
		}
		g.checkMIG(l, at)
	}
}

func (w *Workload) check(l *problem.List, at string) {
	checkName(l, at+".name", w.Name)
	if len(w.Name) > 56 && shared(w.Mechanism) && dnsLabel.MatchString(w.Name) {
		l.Addf(at+".name", "shorten it to 56 characters", "with the number of a shared device it makes a label of more than 63")
	}
	if w.Namespace != "" {
		checkName(l, at+".namespace", w.Namespace)
	}
	if w.Container != "" {
		checkName(l, at+".container", w.Container)
	}
	if w.Replicas < 0 || w.Replicas > 1_000_000 {
		l.Addf(at+".replicas", "", "must be 0 to 1000000, not %d", w.Replicas)
	}
	if w.GPUs < 0 || w.GPUs > 1024 {
		l.Addf(at+".gpus", "", "must be 0 to 1024, not %d", w.GPUs)
	}
	if w.Memory < 0 || w.Memory > 0 && w.Memory < sharing.MiB {
		l.Addf(at+".memory", "give whole mebibytes", "a limit of %v is below 1MiB", w.Memory)
	}
	if p := w.ComputePercent; p < 0 || p > 100 || math.IsNaN(p) {
		l.Addf(at+".compute_percent", "", "must be above 0 and at most 100, not %v", p)
	}
	if m := w.Framework.MemoryFraction; m < 0 || m > 1 || math.IsNaN(m) {
		l.Addf(at+".framework.memory_fraction", "", "must lie between 0 and 1, not %v", m)
	}
	if n := w.Framework.Processes; n < 0 || n > 1024 {
		l.Addf(at+".framework.processes", "", "must be 0 to 1024, not %d", n)
	}
	if shared(w.Mechanism) && w.gpus() > 1 {
		l.Addf(at+".gpus", "give the workload whole GPUs", "%d shared GPUs are no more than one: replicas may land on the same GPU", w.gpus())
	}
}

func (g *Group) checkWorkload(l *problem.List, at string, w *Workload) {
	switch {
	case usesMIG(g.Mechanism):
		if w.Profile == "" {
			l.Addf(at+".profile", "name a MIG profile of the group", "is missing")
		} else if !slices.ContainsFunc(g.Layouts, func(x Layout) bool { return x.Instances[w.Profile] > 0 }) {
			l.Addf(at+".profile", "name a profile that a layout of the group has", "no GPU of %s has an instance %q", g.Key(), w.Profile)
		}
	case w.Profile != "":
		l.Addf(at+".profile", "remove it", "has a meaning for mig and mig+mps only")
	}
	if m := g.total(w); m > 0 && w.Memory > m && g.Mechanism != sharing.MechanismMIG {
		l.Addf(at+".memory", "use a larger GPU or instance", "%v is more than the device's %v", w.Memory, m)
	}
}
