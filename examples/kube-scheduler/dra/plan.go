package dra

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
	"github.com/cotenant/cotenant/sharing"
)

// Options tune Plan. The zero value is the documented default.
type Options struct {
	// Slices are the driver's ResourceSlices of the nodes. With them each claim names its GPUs by UUID, so that what was
	// decided names what is allocated, node included; without, it takes any GPU of its model.
	Slices []*resourcev1.ResourceSlice
}

// Output holds the objects of a plan, each list in the order of names.
type Output struct {
	Classes   []*resourcev1.DeviceClass
	Claims    []*resourcev1.ResourceClaim
	Templates []*resourcev1.ResourceClaimTemplate
	Pods      []*v1.Pod // with claims in place of extended resources
	// Refused says of pods that no node takes why, by namespace/name.
	Refused map[string]string
	// Warnings name decisions that the objects cannot express.
	Warnings []string
}

// Plan places pods on nodes, one after another, and writes the claims. Pods that ask for no GPU are passed on as
// they are. The error names every pod that asks for GPUs in a way that is not valid, and every node of whose GPUs the
// slices lack some.
func Plan(nodes []*v1.Node, pods []*v1.Pod, scorer *placement.Scorer, opt Options) (*Output, error) {
	var errs []error
	asked := make([]*kubegpu.Pod, len(pods))
	seen := map[string]bool{}
	for i, p := range pods {
		var err error
		if asked[i], err = kubegpu.ReadPod(p); err != nil {
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err))
		}
		if name := p.Namespace + "/" + p.Name; seen[name] {
			errs = append(errs, fmt.Errorf("pod %s is there twice", name))
		} else {
			seen[name] = true
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	w := &writer{out: &Output{Refused: map[string]string{}}, classes: map[string]*resourcev1.DeviceClass{},
		shared: map[string]*sharedClaim{}}
	if opt.Slices != nil {
		var err error
		if w.pins, err = pinsOf(nodes, opt.Slices); err != nil {
			return nil, fmt.Errorf("%w:\n%w", ErrInvalid, err)
		}
	}
	cluster := kubegpu.NewCluster(nodes, nil)
	cluster.Exact = true // who shares a claim shares its GPUs
	for i, p := range pods {
		if asked[i] == nil {
			w.out.Pods = append(w.out.Pods, p.DeepCopy())
			continue
		}
		a, verdicts := cluster.Place(asked[i], scorer)
		if a == nil {
			w.out.Refused[asked[i].Name] = kubegpu.Reasons(verdicts)
			continue
		}
		w.add(p, asked[i], a)
	}
	return w.finish()
}

// exclusive reports whether a device is for one claim alone.
func exclusive(d *kubegpu.Device) bool {
	return d.Profile != "" || d.Mechanism == sharing.MechanismExclusive
}

type writer struct {
	out     *Output
	classes map[string]*resourcev1.DeviceClass
	shared  map[string]*sharedClaim
	order   []string            // of shared
	pins    map[string][]string // UUIDs of each node's GPUs; nil where none are known
}

// sharedClaim is the pods of a namespace on the same GPUs.
type sharedClaim struct {
	name, namespace, node string
	device                *kubegpu.Device
	members               []member
	stray                 bool // its GPUs are another claim's, so it takes any
}

type member struct {
	pod    *v1.Pod
	asked  *kubegpu.Pod
	device *kubegpu.Device
}

// add writes a pod's claims.
func (w *writer) add(p *v1.Pod, asked *kubegpu.Pod, a *kubegpu.Allocation) {
	pod := p.DeepCopy()
	stripResources(pod)
	w.out.Pods = append(w.out.Pods, pod)
	for i := range a.Devices {
		d := &a.Devices[i]
		switch {
		case d.Mechanism == sharing.MechanismHAMi || d.Mechanism == sharing.MechanismHAMiWithMPS:
			w.warn("%s: DRA does not deliver %v: nothing limits it on %s", asked.Name, d.Mechanism, a.Node)
			fallthrough
		case !exclusive(d):
			w.share(pod, asked, a.Node, d)
		default:
			w.template(pod, asked, a.Node, d, i)
		}
	}
}

func (w *writer) warn(format string, args ...any) {
	w.out.Warnings = append(w.out.Warnings, fmt.Sprintf(format, args...))
}

// template gives a pod a claim of its own.
func (w *writer) template(pod *v1.Pod, asked *kubegpu.Pod, node string, d *kubegpu.Device, i int) {
	name := limited(fmt.Sprintf("%s-gpu-%d", pod.Name, i))
	request := resourcev1.DeviceRequest{Name: "gpu", Exactly: w.exactly(asked, d)}
	w.pin(request.Exactly, node, d)
	w.out.Templates = append(w.out.Templates,
		&resourcev1.ResourceClaimTemplate{TypeMeta: typeOf("ResourceClaimTemplate"), ObjectMeta: metaOf(pod.Namespace, name),
			Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{
				Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{request}}}}})
	use(pod, fmt.Sprintf("gpu-%d", i), d.Container, v1.PodResourceClaim{ResourceClaimTemplateName: &name})
}

// share adds a pod to the claim of the GPUs that it was put on.
func (w *writer) share(pod *v1.Pod, asked *kubegpu.Pod, node string, d *kubegpu.Device) {
	where := fmt.Sprintf("%s-gpu", node)
	for _, g := range d.GPUs {
		where += fmt.Sprintf("-%d", g)
	}
	key := pod.Namespace + "/" + where
	c := w.shared[key]
	if c == nil {
		c = &sharedClaim{name: limited(where), namespace: pod.Namespace, node: node, device: d}
		for _, other := range w.order {
			o := w.shared[other]
			if o.node != node || !slices.ContainsFunc(d.GPUs, func(g int) bool { return slices.Contains(o.device.GPUs, g) }) {
				continue
			}
			reason := "do not have the same GPUs, which a claim cannot say, so each takes its own"
			if o.namespace != pod.Namespace {
				reason = "are in two namespaces: a claim does not reach across, so each namespace takes a GPU"
			}
			w.warn("%s and %s share a GPU of %s and %s", asked.Name, o.members[0].asked.Name, node, reason)
			c.stray = true
			break
		}
		w.shared[key], w.order = c, append(w.order, key)
	}
	c.members = append(c.members, member{pod: pod, asked: asked, device: d})
	use(pod, "shared-"+fmt.Sprint(len(pod.Spec.ResourceClaims)), d.Container,
		v1.PodResourceClaim{ResourceClaimName: &c.name})
}

// pinsOf returns by node the UUID of each GPU that the driver publishes whole, "" for those in MIG mode, which
// claims ask for by profile. The driver names GPUs gpu-N by their minor numbers. The error names every node of whose
// GPUs the slices lack some.
func pinsOf(nodes []*v1.Node, published []*resourcev1.ResourceSlice) (map[string][]string, error) {
	generations, found := map[string]int64{}, map[string]map[int]string{}
	for _, s := range published {
		pool := s.Spec.Pool
		if s.Spec.Driver != driver || s.Spec.NodeName == nil || pool.Generation < generations[*s.Spec.NodeName] {
			continue
		}
		node := *s.Spec.NodeName
		if pool.Generation > generations[node] || found[node] == nil {
			generations[node], found[node] = pool.Generation, map[int]string{}
		}
		for _, d := range s.Spec.Devices {
			var minor int
			kind, uuid := d.Attributes["type"].StringValue, d.Attributes["uuid"].StringValue
			_, err := fmt.Sscanf(d.Name, "gpu-%d", &minor)
			if err == nil && kind != nil && *kind == "gpu" && uuid != nil {
				found[node][minor] = *uuid
			}
		}
	}
	pins := map[string][]string{}
	var errs []error
	for _, object := range nodes {
		n := kubegpu.ReadNode(object)
		if n == nil {
			continue
		}
		minors := slices.Sorted(maps.Keys(found[n.Name]))
		pins[n.Name] = make([]string, len(n.GPUs))
		for i := range n.GPUs {
			if n.GPUs[i].Mechanism == sharing.MechanismMIG {
				continue
			}
			if len(minors) == 0 {
				errs = append(errs, fmt.Errorf("node %s: it has more whole GPUs than the %d in the ResourceSlices of %s (give all "+
					"that kubectl get resourceslices -o yaml prints)", n.Name, len(found[n.Name]), driver))
				break
			}
			pins[n.Name][i], minors = found[n.Name][minors[0]], minors[1:]
		}
	}
	return pins, errors.Join(errs...)
}

// pin has a request take the very GPUs that were decided, where their UUIDs are known.
func (w *writer) pin(r *resourcev1.ExactDeviceRequest, node string, d *kubegpu.Device) {
	if w.pins == nil || d.Profile != "" {
		return
	}
	var uuids []string
	for _, g := range d.GPUs {
		uuids = append(uuids, celString(w.pins[node][g]))
	}
	r.Selectors = append(r.Selectors,
		cel(fmt.Sprintf("device.attributes['%s'].uuid in [%s]", driver, strings.Join(uuids, ", "))))
}
