package dra

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
	"github.com/cotenant/cotenant/sharing"
)

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
