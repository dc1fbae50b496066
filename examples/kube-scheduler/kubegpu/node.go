package kubegpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Node is a Kubernetes node's own account of its GPUs. It is read-only.
type Node struct {
	layout.Node
	// Model is the canonical product name, or the label's where it is unknown.
	Model string
	// Mechanism is the one by which its GPUs are shared, but for those in MIG mode.
	Mechanism sharing.Mechanism
	// Resource is the name by which whole GPUs, or replicas of them, are asked for.
	Resource v1.ResourceName
	// Replicas is the number of pods that a GPU is offered to; 1 for whole GPUs.
	Replicas int
	// Single is the profile that stands for nvidia.com/gpu under the MIG strategy "single".
	Single string
	// Problems are contradictions between its labels and its capacity: nothing is
	// placed on such a node. Notes are what is odd and does no harm.
	Problems, Notes []string

	gpu layout.GPU // the kind of its GPUs, as its labels have it
}

// Choice returns among how many GPUs the kubelet picks for a pod, or HAMi's own scheduler extender, whichever was
// decided; 1 where the pod gets that one.
func (n *Node) Choice() int {
	if n.Mechanism == sharing.MechanismExclusive || n.hasMIG() {
		return 1
	}
	return len(n.Devices)
}

func (n *Node) hasMIG() bool {
	return slices.ContainsFunc(n.Devices, func(d layout.Device) bool { return d.Mode == sharing.MechanismMIG })
}

// memory is that of a GPU; 0 where it is not known.
func (n *Node) memory() sharing.Bytes { return n.gpu.Memory }

// ReadNode reads a node. It returns nil for a node that offers no GPU. Labels that contradict each other, the
// resources or the GPU table are the result's Problems, never an error: other nodes are still fine.
func ReadNode(n *v1.Node) *Node {
	a := n.Status.Allocatable
	r := &reader{node: n, out: &Node{Replicas: 1, Node: layout.Node{Name: n.Name, CPUMilli: max(0, a.Cpu().MilliValue()),
		Memory: max(0, sharing.Bytes(a.Memory().Value())), Delivery: sharing.DeliveryDevicePlugin}}}
	register, hami := n.Annotations[AnnotationHAMiRegister]
	switch {
	case hami:
		r.readHAMi(register)
	case r.quantity(ResourceMilli) > 0:
		r.readMilli()
	default:
		r.readPlugin()
	}
	if len(r.out.Devices) == 0 && len(r.out.Problems) == 0 {
		return nil
	}
	if len(r.out.Devices) > placement.MaxGPUs {
		r.problem("%d GPUs are more than the %d that one node may have", len(r.out.Devices), placement.MaxGPUs)
	}
	if len(r.out.Problems) > 0 {
		r.out.Devices = nil
	}
	return r.out
}

type reader struct {
	node *v1.Node
	out  *Node
}

func (r *reader) problem(format string, args ...any) {
	r.out.Problems = append(r.out.Problems, fmt.Sprintf(format, args...))
}

func (r *reader) note(format string, args ...any) {
	r.out.Notes = append(r.out.Notes, fmt.Sprintf(format, args...))
}

// quantity returns the amount of a resource that the node offers to pods.
func (r *reader) quantity(name v1.ResourceName) int {
	q := r.node.Status.Allocatable[name]
	return clip(q.Value())
}

// capacity returns the amount that it offered with all devices healthy: the kubelet takes
// unhealthy ones out of allocatable only.
func (r *reader) capacity(name v1.ResourceName) int {
	if q, ok := r.node.Status.Capacity[name]; ok {
		return clip(q.Value())
	}
	return r.quantity(name)
}

const maxQuantity = 1 << 30

func clip(v int64) int { return int(min(max(v, 0), maxQuantity)) }

// number reads a label that must be a whole number, ok where it is there.
func (r *reader) number(label string) (n int, ok bool) {
	text, ok := r.node.Labels[label]
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxQuantity {
		r.problem("label %s is %.40q, not a number", label, text)
		return 0, false
	}
	return n, true
}

// readPlugin reads a node of the NVIDIA device plugin and GPU Feature Discovery.
func (r *reader) readPlugin() {
	out := r.out
	out.Resource = ResourceGPU
	if r.capacity(ResourceShared) > 0 {
		out.Resource = ResourceShared
		if r.capacity(ResourceGPU) > 0 {
			r.note("offers %s and %s: only the former is placed", ResourceShared, ResourceGPU)
		}
	}
	offered := r.capacity(out.Resource)
	strategy := r.node.Labels[LabelMIG]
	instances := r.instances()
	if offered == 0 && len(instances) == 0 {
		return
	}
	product := r.node.Labels[LabelProduct]
	product, _ = strings.CutSuffix(product, "-SHARED")
	board, profile, single := strings.Cut(product, "-MIG-")
	switch {
	case single && profile == "INVALID":
		r.problem("label %s: the layout does not suit the MIG strategy \"single\"", LabelProduct)
		return
	case single && strategy != "" && strategy != "single":
		r.problem("labels %s and %s contradict each other: %q and %q", LabelProduct, LabelMIG, product, strategy)
		return
	case len(instances) > 0 && strategy != "" && strategy != "mixed":
		r.problem("offers %s* and label %s is %q", ResourceMIGPrefix, LabelMIG, strategy)
		return
	}
	r.readProduct(board)
	if single {
		r.readSingle(profile, offered)
		return
	}
	r.checkMemory()
	full := 0
	if offered > 0 {
		full = r.readReplicas(offered)
	}
	r.add(full)
	if len(instances) > 0 && len(out.Problems) == 0 {
		r.readMixed(instances, full)
	}
}

// add adds GPUs that are not in MIG mode. The node's are one kind.
func (r *reader) add(count int) {
	d := layout.Device{GPU: &r.out.gpu, Mode: r.out.Mechanism}
	if r.out.Replicas > 1 {
		layout.RulesOf(r.out.Delivery).Configure(&d, d.Mode, int32(r.out.Replicas))
	}
	for range min(count, placement.MaxGPUs+1) {
		r.out.Devices = append(r.out.Devices, d)
	}
}

// readProduct resolves the product name and reads the memory's label.
func (r *reader) readProduct(name string) {
	r.out.Model = name
	if gpu := lookupGPU(name); gpu != nil {
		r.out.Model, r.out.gpu = gpu.Name, *layout.GPUOf(gpu.Name)
	} else if r.out.gpu.Name = name; name != "" {
		r.note("label %s: the GPU table has no %.60q; its memory is taken from the label", LabelProduct, name)
	}
	if mib, ok := r.number(LabelMemory); ok && mib > 0 {
		r.out.gpu.Memory = sharing.Bytes(mib) * sharing.MiB
	}
}

// lookupGPU finds a GPU by a label's text; nil where it is not known.
func lookupGPU(name string) *sharing.GPU {
	for _, text := range []string{name, strings.TrimPrefix(name, "NVIDIA-")} {
		if gpu, err := sharing.LookupGPU(text); err == nil {
			return gpu
		}
	}
	return nil
}

// ECC takes up to 7% of a GDDR board's memory (package sharing), and the GPU table has some boards with it and some
// without; beyond that it is another board.
const (
	leastMemory = 0.9
	mostMemory  = 1.08
)

// checkMemory compares the memory's label with the board's.
func (r *reader) checkMemory() {
	gpu := lookupGPU(r.out.Model)
	if gpu == nil {
		return
	}
	known, ok := gpu.Memory.Get()
	if got := r.out.gpu.Memory; ok && (float64(got) < leastMemory*float64(known) ||
		float64(got) > mostMemory*float64(known)) {
		r.problem("label %s says %v, and no %s has that: it has %v", LabelMemory, got, gpu.Name, known)
	}
}

// readReplicas reads how GPUs are shared and returns how many there are.
func (r *reader) readReplicas(offered int) int {
	out := r.out
	replicas, stated := r.number(LabelReplicas)
	if !stated || replicas == 0 {
		replicas = 1
	}
	strategy := r.node.Labels[LabelStrategy]
	shared := strings.HasSuffix(r.node.Labels[LabelProduct], "-SHARED") || out.Resource == ResourceShared
	switch strategy {
	case "mps":
		out.Mechanism = sharing.MechanismMPS
		if r.node.Labels[LabelMPS] == "false" {
			r.problem("labels %s and %s contradict each other: mps and false", LabelStrategy, LabelMPS)
		}
	case "time-slicing":
		out.Mechanism = sharing.MechanismTimeSlicing
	case "none":
		out.Mechanism = sharing.MechanismExclusive
		if shared || replicas > 1 {
			r.problem("label %s is none, and %d replicas are offered", LabelStrategy, replicas)
		}
	case "":
		out.Mechanism = sharing.MechanismExclusive
		if shared || replicas > 1 {
			out.Mechanism = sharing.MechanismTimeSlicing
		}
	default:
		r.problem("label %s: there is no strategy %.40q", LabelStrategy, strategy)
		return 0
	}
	if out.Mechanism != sharing.MechanismExclusive && replicas < 2 {
		r.problem("GPUs are shared by %v, and label %s does not say among how many", out.Mechanism, LabelReplicas)
	}
	if offered%replicas != 0 {
		r.problem("offers %d of %s, which is no multiple of the %d replicas of label %s", offered, out.Resource, replicas,
			LabelReplicas)
	}
	out.Replicas = replicas
	count, stated := r.number(LabelCount)
	gpus := offered / replicas
	// With MIG the label counts the GPUs in MIG mode too.
	if stated && (gpus > count || gpus < count && len(r.instances()) == 0) {
		r.problem("offers %d of %s: with %d replicas that is %d GPUs, and label %s says %d", offered, out.Resource,
			replicas, gpus, LabelCount, count)
	}
	if healthy := r.quantity(out.Resource) / replicas; healthy < gpus {
		r.note("%d of %d GPUs are not healthy: which is not known", gpus-healthy, gpus)
		gpus = healthy
	}
	return gpus
}

// readMilli reads a node that offers thousandths of GPUs.
func (r *reader) readMilli() {
	out, offered := r.out, r.quantity(ResourceMilli)
	out.Resource, out.Mechanism = ResourceMilli, sharing.MechanismTimeSlicing
	if text, ok := r.node.Labels[LabelMechanism]; ok {
		m, err := sharing.ParseMechanism(text)
		if err != nil || m == sharing.MechanismNone || m == sharing.MechanismMIG || m == sharing.MechanismMIGWithMPS {
			r.problem("label %s: thousandths of a GPU are not shared by %.40q", LabelMechanism, text)
			return
		}
		out.Mechanism = m
	}
	r.readProduct(r.node.Labels[LabelProduct])
	r.checkMemory()
	if offered%1000 != 0 {
		r.problem("offers %d of %s, which is no number of whole GPUs", offered, ResourceMilli)
	}
	if count, ok := r.number(LabelCount); ok && count != offered/1000 {
		r.problem("offers %d of %s, and label %s says %d GPUs", offered, ResourceMilli, LabelCount, count)
	}
	r.out.Delivery = sharing.DeliveryBare // who hands thousandths out is not said
	r.add(offered / 1000)
}

// migModel resolves the model of a node in MIG mode, nil with a problem.
func (r *reader) migModel() *mig.Model {
	m, err := mig.Lookup(r.out.Model)
	if err != nil {
		r.problem("MIG instances on a %.60q, which the MIG catalogue does not have", r.out.Model)
		return nil
	}
	if !m.PlacementsKnown() {
		r.problem("where MIG instances stand on a %s is not known", m.Key)
		return nil
	}
	return m
}
