// SPDX-License-Identifier: Apache-2.0

package kubegpu

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/examples/kube-scheduler/internal/problems"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Pod is a pod's request for GPUs. It is read-only.
type Pod struct {
	Name string // namespace/name
	// Claims are the containers' requests, in their order; MIG instances are claims of their own.
	Claims []Claim

	Mechanisms []sharing.Mechanism
	Models     []string
	GPUMemory  sharing.Bytes // of each GPU; 0 = not stated
	Kind       decision.Kind
	Workload   layout.Workload // trust, and limits of the slowdown by neighbours

	cpuMilli int64
	memory   sharing.Bytes
}

// Claim is the request of one container.
type Claim struct {
	Container string
	// Resource is ResourceGPU, ResourceShared or ResourceMilli; empty with a Profile.
	Resource v1.ResourceName
	GPUs     int
	Milli    int // thousandths of each GPU; 0 = not stated
	Profile  string

	// HAMi's limits, of each GPU; 0 = none.
	Memory        sharing.Bytes
	MemoryPercent int
	Cores         int
}

// hami reports whether a claim can be met by HAMi only.
func (c *Claim) hami() bool { return c.Memory > 0 || c.MemoryPercent > 0 || c.Cores > 0 }

// ReadPod reads a pod as the API server stores it. It returns nil for a pod that asks for no GPU. The error is an
// ErrInvalid that names every problem with its path in the pod.
func ReadPod(p *v1.Pod) (*Pod, error) {
	var l problems.List
	out := &Pod{Name: p.Namespace + "/" + p.Name}
	asks := false
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		asks = out.readContainer(fmt.Sprintf("spec.containers[%d]", i), c, &l) || asks
	}
	main := len(out.Claims)
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		path := fmt.Sprintf("spec.initContainers[%d]", i)
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		before := len(out.Claims)
		asks = out.readContainer(path, c, &l) || asks
		if sidecar || len(out.Claims) == before {
			continue
		}
		// The kubelet hands an init container's devices on to the containers.
		if !covers(out.Claims[:main], out.Claims[before:]) {
			l.Addf(path+".resources", "ask for as much in a container",
				"an init container asks for more of GPUs than the containers do")
		}
		out.Claims = out.Claims[:before]
	}
	if !asks || len(out.Claims) == 0 && l.Len() == 0 {
		return nil, nil
	}
	out.readAnnotations(p, &l)
	total := resource.PodRequests(p, resource.PodResourcesOptions{})
	out.cpuMilli = max(0, total.Cpu().MilliValue())
	out.memory = max(0, sharing.Bytes(total.Memory().Value()))
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("%w:\n%w", ErrInvalid, err)
	}
	return out, nil
}

// covers reports whether containers request at least the claims of init containers.
func covers(claims, init []Claim) bool {
	sum := func(cs []Claim) map[string]int {
		out := map[string]int{}
		for _, c := range cs {
			out[string(c.Resource)+c.Profile] += c.GPUs
		}
		return out
	}
	have := sum(claims)
	for k, n := range sum(init) {
		if n > have[k] {
			return false
		}
	}
	return true
}

// asked returns the amount of a resource that a container asks for: its request, or its limit
// where the API server has not yet made that the request.
func asked(c *v1.Container, name v1.ResourceName) (int64, bool) {
	q, ok := c.Resources.Requests[name]
	if !ok {
		q, ok = c.Resources.Limits[name]
	}
	return q.Value(), ok && !q.IsZero()
}

// readContainer adds a container's claims and reports whether it asks for any.
func (out *Pod) readContainer(path string, c *v1.Container, l *problems.List) bool {
	path += ".resources"
	any := false
	get := func(name v1.ResourceName, limit int64) int {
		v, ok := asked(c, name)
		any = any || ok
		if v < 0 || v > limit {
			l.Addf(path, fmt.Sprintf("use 0 to %d", limit), "%s of %d is out of range", name, v)
			return 0
		}
		return int(v)
	}
	claim := Claim{Container: c.Name, Resource: ResourceGPU, GPUs: get(ResourceGPU, placement.MaxGPUs)}
	shared := get(ResourceShared, placement.MaxGPUs)
	milli := get(ResourceMilli, 1000*placement.MaxGPUs)
	claim.Memory = sharing.Bytes(get(ResourceMemory, maxGPUMemoryMiB)) * sharing.MiB
	claim.MemoryPercent = get(ResourceMemoryPercent, 100)
	claim.Cores = get(ResourceCores, 100)
	if shared > 0 {
		if claim.GPUs > 0 {
			l.Addf(path, "keep one of them", "asks for %s and %s", ResourceGPU, ResourceShared)
		}
		claim.Resource, claim.GPUs = ResourceShared, shared
	}
	if claim.Memory > 0 && claim.MemoryPercent > 0 {
		l.Addf(path, "keep one of them", "asks for %s and %s", ResourceMemory, ResourceMemoryPercent)
	}
	switch {
	case claim.hami() && milli > 0:
		l.Addf(path, "use "+string(ResourceCores), "asks for %s next to HAMi's resources", ResourceMilli)
	case claim.hami() && claim.Resource != ResourceGPU:
		l.Addf(path, "use "+string(ResourceGPU), "asks for HAMi's resources with %s", claim.Resource)
	case claim.hami() && claim.GPUs == 0:
		claim.GPUs = 1 // as HAMi's webhook does
	case milli > 0 && claim.GPUs > 0:
		claim.Milli = milli / claim.GPUs
		if milli%claim.GPUs != 0 || claim.Milli > 1000 {
			l.Addf(path, "it is the sum over the GPUs, of at most 1000 each", "%d of %s do not divide among %d GPUs", milli,
				ResourceMilli, claim.GPUs)
		}
	case milli >= 1000 && milli%1000 != 0:
		l.Addf(path, "use up to 1000, or whole thousands", "%d of %s is neither a share of a GPU nor whole GPUs", milli,
			ResourceMilli)
	case milli > 0:
		claim.Resource, claim.GPUs, claim.Milli = ResourceMilli, max(1, milli/1000), min(milli, 1000)
	}
	if claim.GPUs > 0 {
		out.Claims = append(out.Claims, claim)
	}
	return out.readProfiles(path, c, l) || any
}

// readProfiles adds a claim for each MIG instance.
func (out *Pod) readProfiles(path string, c *v1.Container, l *problems.List) bool {
	all := v1.ResourceList{}
	maps.Copy(all, c.Resources.Requests)
	maps.Copy(all, c.Resources.Limits)
	any := false
	for _, name := range slices.Sorted(maps.Keys(all)) {
		n, ok := asked(c, name)
		if !ok || !strings.HasPrefix(string(name), ResourceMIGPrefix) {
			continue
		}
		any = true
		profile, err := mig.ParseResourceName(string(name))
		switch {
		case err != nil:
			l.Addf(path, "for example nvidia.com/mig-1g.10gb", "%s names no MIG profile", name)
		case n < 0 || n > 8*placement.MaxGPUs:
			l.Addf(path, "", "%s of %d is out of range", name, n)
		default:
			for range n {
				out.Claims = append(out.Claims, Claim{Container: c.Name, GPUs: 1, Profile: profile.String()})
			}
		}
	}
	return any
}

func (out *Pod) readAnnotations(p *v1.Pod, l *problems.List) {
	path := func(name string) string { return fmt.Sprintf("metadata.annotations[%s]", name) }
	get := func(name string, read func(string) error) {
		text, ok := p.Annotations[name]
		if !ok {
			return
		}
		if err := read(strings.TrimSpace(text)); err != nil {
			l.AddErr(path(name), err)
		}
	}
	w := &out.Workload
	w.Tenant = p.Namespace
	get(AnnotationTenant, func(s string) error { return one(s, &w.Tenant) })
	get(AnnotationTrusts, func(s string) error {
		return list(s, func(t string) error { w.Trusts = append(w.Trusts, t); return nil })
	})
	get(AnnotationMechanisms, func(s string) error {
		return list(s, func(t string) error {
			m, err := sharing.ParseMechanism(t)
			if err == nil && !slices.Contains(placeable, m) {
				err = fmt.Errorf("pods are not placed by %v", m)
			}
			out.Mechanisms = append(out.Mechanisms, m)
			return err
		})
	})
	get(AnnotationModels, func(s string) error {
		return list(s, func(t string) error { out.Models = append(out.Models, ModelNames(t)...); return nil })
	})
	get(AnnotationGPUMemory, func(s string) error {
		err := out.GPUMemory.UnmarshalText([]byte(s))
		if err == nil && (out.GPUMemory <= 0 || out.GPUMemory > placement.MaxMemory) {
			err = fmt.Errorf("%s is out of range", s)
		}
		return err
	})
	get(AnnotationKind, func(s string) error { return out.Kind.UnmarshalText([]byte(s)) })
	get(AnnotationWorkload, func(s string) error { return one(s, &w.Name) })
	get(AnnotationMaxSlowdown, func(s string) error {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 1 {
			return fmt.Errorf("%.40q is no slowdown: 1 is as fast as isolated", s)
		}
		w.Objective.Slowdown = v
		return nil
	})
	for _, limit := range []struct {
		name string
		to   *time.Duration
	}{{AnnotationTTFT, &w.Objective.TTFTP99}, {AnnotationTPOT, &w.Objective.TPOTP99},
		{AnnotationE2E, &w.Objective.E2EP99}} {
		get(limit.name, func(s string) error {
			var d profile.Duration
			if err := d.UnmarshalText([]byte(s)); err != nil {
				return err
			}
			if d <= 0 {
				return fmt.Errorf("%v is no limit of a latency", d)
			}
			*limit.to = time.Duration(d)
			return nil
		})
	}
	out.applyKind(path(AnnotationKind), l)
}

// applyKind narrows the mechanisms to those that suit the kind of workload, as Decide does: distributed training runs
// on whole GPUs, and an online server with objectives for its latencies is not time-sliced.
func (out *Pod) applyKind(path string, l *problems.List) {
	whole := out.Kind == decision.KindDistributedTraining
	latencies := out.Kind == decision.KindOnlineInference && out.Workload.Objective != layout.Objective{}
	if !whole && !latencies {
		return
	}
	allowed := func(m sharing.Mechanism) bool {
		if whole {
			return m == sharing.MechanismExclusive
		}
		return m != sharing.MechanismTimeSlicing
	}
	from := out.Mechanisms
	if len(from) == 0 {
		from = placeable
	}
	out.Mechanisms = slices.DeleteFunc(slices.Clone(from), func(m sharing.Mechanism) bool { return !allowed(m) })
	if len(out.Mechanisms) == 0 {
		l.Addf(path, "", "%v runs by none of the mechanisms that annotation %s names", out.Kind, AnnotationMechanisms)
	}
}

// placeable are the mechanisms that nodes are read as having.
var placeable = []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismMIG, sharing.MechanismMPS,
	sharing.MechanismHAMiWithMPS, sharing.MechanismHAMi, sharing.MechanismVGPU,
	sharing.MechanismMIGLikeEmulation, sharing.MechanismTimeSlicing}

// ModelNames returns the product names for a GPU's name, as nodes have
// them: "A100" is four boards. An unknown name is returned unchanged.
func ModelNames(name string) []string {
	gpu, err := sharing.LookupGPU(name)
	if err == nil {
		return []string{gpu.Name}
	}
	if many, ok := err.(*sharing.AmbiguousGPUError); ok { //nolint:errorlint // LookupGPU returns it as it is
		return many.Matches
	}
	return []string{name}
}

func one(s string, to *string) error {
	if s == "" || len(s) > 253 {
		return fmt.Errorf("%.40q is no name", s)
	}
	*to = s
	return nil
}

func list(s string, add func(string) error) error {
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if part == "" || len(part) > 253 {
			return fmt.Errorf("%.40q has an empty or overlong entry: divide names by commas", s)
		}
		if err := add(part); err != nil {
			return err
		}
	}
	return nil
}
