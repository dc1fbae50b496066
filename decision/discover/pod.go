// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// reservations are namespaces of pods with which KAI and its forerunner keep a GPU for others.
var reservations = []string{"kai-resource-reservation", "runai-reservation"}

// takePod keeps a pod that may use GPUs; of others only their resources and rules. Pods that have ended are left out.
func (c *Collector) takePod(file string, o *podObject) {
	if o.Metadata.Name == "" {
		c.trouble(file, "Pod", "it has no name")
		return
	}
	c.pods++
	key := o.Metadata.Namespace + "/" + o.Metadata.Name
	p := newPod(&o.Metadata, &o.Spec)
	p.readClaims(o)
	if !o.ended() {
		c.takeRepellers(o)
	}
	if !p.uses() {
		if p.node != "" && !o.ended() {
			c.others[p.node] = append(c.others[p.node], p)
		}
		return
	}
	if n := p.counted(); n > mostPerNode {
		c.trouble(file, "Pod "+key, "spec.containers[].resources: it asks for %d GPUs, more than a node has; it is left out",
			n)
		return
	}
	if uid, ok := c.podUIDs[key]; ok {
		c.sameObject(file, "Pod "+key, uid, o.Metadata.UID)
		return
	}
	c.podUIDs[key] = o.Metadata.UID
	if o.ended() || slices.Contains(reservations, o.Metadata.Namespace) {
		return
	}
	if o.Metadata.DeletionTimestamp != "" {
		c.ending[p.node] = key
		return
	}
	p.running = o.Status.Phase == "Running" || p.node != "" && slices.Contains([]string{"", "Pending"}, o.Status.Phase)
	c.users = append(c.users, p)
}

func newPod(m *metadata, s *podSpec) *pod {
	p := &pod{namespace: m.Namespace, name: m.Name, node: plaintext.Show(oneLine(s.NodeName)), notes: m.Annotations,
		labels: m.Labels, bound: s.bound(), rules: s.rules(), requests: s.requests(), quotas: s.quotas()}
	for _, key := range []string{"use-gpuuuid", "nouse-gpuuuid", "use-gputype", "nouse-gputype"} {
		if p.notes["nvidia.com/"+key] != "" {
			p.bound = cmp.Or(p.bound, "its annotation nvidia.com/"+key+" chooses among the cards of HAMi")
		}
	}
	containers := slices.Clone(s.Containers)
	for i, c := range slices.Concat(s.InitContainers, s.Containers) { // requests repeat limits
		init, sidecar := i < len(s.InitContainers), c.RestartPolicy == "Always"
		if init && sidecar {
			containers = append(containers, c)
		}
		p.wants = append(p.wants, wanted{c.Name, init && !sidecar, amountsOf(c.Resources.Limits, c.Resources.Requests)})
	}
	for _, init := range []bool{true, false} {
		for _, w := range slices.Backward(p.wants) {
			if w.init == init && len(w.amounts) > 0 {
				p.container = w.container
			}
		}
	}
	for _, c := range s.ResourceClaims {
		p.claims = append(p.claims, claimRef{named(m.Namespace, c.ResourceClaimName),
			named(m.Namespace, c.ResourceClaimTemplateName)})
	}
	for _, k := range sortedKeys(s.NodeSelector) {
		if begins(k, names().Kept) {
			p.selects = k
		}
	}
	of := container{SecurityContext: security{RunAsUser: s.SecurityContext.RunAsUser}} // the whole pod
	p.readContainers(append([]container{of}, containers...))
	p.owner, p.controller = ownerOf(m), m.controller()
	p.guess = guessKind(m, containers, p.owner)
	return p
}

// readClaims takes over the claims that were made for a pod: of its templates, and of the extended resources to which
// classes of devices answer (KEP-5004).
func (p *pod) readClaims(o *podObject) {
	for i := range o.Spec.ResourceClaims {
		for _, s := range o.Status.ResourceClaimStatuses {
			if s.Name == o.Spec.ResourceClaims[i].Name && s.ResourceClaimName != "" {
				p.claims[i].claim = named(p.namespace, s.ResourceClaimName)
			}
		}
	}
	e := o.Status.ExtendedResourceClaimStatus
	if e.ResourceClaimName == "" {
		return
	}
	p.claims, p.extended = append(p.claims, claimRef{claim: named(p.namespace, e.ResourceClaimName)}), map[string]bool{}
	for _, m := range e.RequestMappings {
		p.extended[m.ResourceName] = true
	}
}

// counted is the number of GPUs that a pod's containers ask for by resources that count them.
func (p *pod) counted() (n int) {
	for _, w := range p.wants {
		for key, v := range w.amounts {
			if r := useOf(key).role; r == roleCount || r == roleMIG {
				n += v
			}
		}
	}
	return n
}

var (
	// kaiAnnotation is of KAI's mode NvFractions, by container, from 0.18.
	kaiAnnotation = regexp.MustCompile(`^nvidia\.com/container\.(.+)\.(gpu-memory\.limit|gpu-memory\.request` +
		`|gpu-compute\.mode|gpus\.devices)$`)
	kaiGroups = regexp.MustCompile(`^(?:runai-gpu-group|kai\.scheduler/gpu-group)(?:/.+)?$`)
)

// uses reports whether a pod may hold GPUs.
func (p *pod) uses() bool {
	asks := func(w wanted) bool { return len(w.amounts) > 0 }
	return slices.ContainsFunc(p.wants, asks) || len(p.claims) > 0 || p.notes["gpu-fraction"] != "" ||
		p.notes["gpu-memory"] != "" || slices.ContainsFunc(slices.Collect(maps.Keys(p.notes)), kaiAnnotation.MatchString)
}

var fractionFlag = regexp.MustCompile(`(?:^|\s)--(?:gpu-memory-utilization|mem-fraction-static|cuda-memory-fraction)` +
	`[=\s]\s*([0-9.]+)(?:\s|$)`)

// readContainers reads the model server, its memory fraction and the user of a pod's containers. Of arguments only the
// flags of fractionFlag are kept, and of the environment nothing is read.
func (p *pod) readContainers(containers []container) {
	for _, c := range containers {
		p.framework.Privileged = p.framework.Privileged || c.SecurityContext.Privileged
		if uid := c.SecurityContext.RunAsUser; uid != nil && *uid >= 0 && *uid < 1<<31-1 {
			p.uid = sharing.Some(int(*uid))
		}
		words := slices.Concat(c.Command, c.Args)
		p.framework.Name = cmp.Or(p.framework.Name, serverOf(c.Image, words))
		for _, m := range fractionFlag.FindAllStringSubmatch(strings.Join(words, " "), -1) {
			if f, err := strconv.ParseFloat(m[1], 64); err == nil && f > 0 && f <= 1 {
				p.framework.MemoryFraction = sharing.Some(f)
			}
		}
	}
}

func (c *Collector) takeController(file, kind string, o *controllerObject) {
	id := owner{kind, o.Metadata.Namespace, o.Metadata.Name}
	k := &controller{owner: id, replicas: 1, holds: o.holdsOf(kind)}
	if ref := o.Metadata.controller(); ref.Name != "" {
		k.of = owner{ref.Kind, id.namespace, ref.Name}
	}
	for _, n := range []*int{o.Spec.Replicas, o.Spec.Parallelism} {
		if n != nil {
			k.replicas = *n
		}
	}
	if k.replicas < 0 || k.replicas > mostPods {
		c.trouble(file, kind+" "+id.namespace+"/"+id.name, "spec.replicas: %d is out of range", k.replicas)
		return
	}
	template := o.Spec.Template.Metadata
	template.Namespace, template.Name = id.namespace, id.name
	template.OwnerReferences = []ownerRef{{Kind: kind, Name: id.name, Controller: true}}
	if p := newPod(&template, &o.Spec.Template.Spec); p.uses() && p.counted() <= mostPerNode {
		k.pod = p
	}
	c.controllers[id.String()] = k
}

func (c *Collector) takeAutoscaler(file string, o *autoscalerObject) {
	a, of := fleet.Autoscaler{Min: 1, Max: o.Spec.MaxReplicas}, o.Spec.ScaleTargetRef
	if o.Spec.MinReplicas != nil {
		a.Min = *o.Spec.MinReplicas
	}
	if a.Max < 1 || a.Max > mostPods || a.Min > a.Max || a.Min < 0 {
		c.trouble(file, "HorizontalPodAutoscaler "+o.Metadata.Namespace+"/"+o.Metadata.Name,
			"minReplicas and maxReplicas make no range")
		return
	}
	c.autoscalers[owner{of.Kind, o.Metadata.Namespace, of.Name}] = a
}

func (c *Collector) takeRepellers(o *podObject) {
	for _, t := range o.Spec.Affinity.PodAntiAffinity.Required {
		if t.LabelSelector != nil {
			c.repels = append(c.repels, repeller{o.Metadata.Namespace, o.Metadata.Name, t})
		}
	}
}

type guess struct {
	kind decision.Kind
	rule string
}

func guessKind(m *metadata, containers []container, o owner) guess {
	for _, r := range names().Rules {
		if r.fits(m, containers, o) {
			return guess{r.Kind, r.Name}
		}
	}
	return guess{}
}

func (r *nameRule) fits(m *metadata, containers []container, o owner) bool {
	if len(r.Labels) > 0 {
		return slices.ContainsFunc(r.Labels, func(l string) bool { return m.Labels[l] != "" })
	}
	owned := slices.ContainsFunc(r.Owners, func(kind string) bool { return kind == "" || kind == o.kind })
	if r.And && !owned {
		return false
	}
	if len(r.Owners) > 0 && !r.And {
		return owned
	}
	return slices.ContainsFunc(containers, func(c container) bool {
		if r.Image != nil && r.Image.MatchString(strings.ToLower(c.Image)) ||
			r.Command != nil && r.Command.MatchString(strings.Join(slices.Concat(c.Command, c.Args), " ")) {
			return true
		}
		for _, p := range c.Ports {
			if slices.Contains(r.Ports, p.ContainerPort) || slices.Contains(r.Ports, 0) {
				return true
			}
		}
		return false
	})
}

// serverOf is the model server that an image or command names, or "".
func serverOf(image string, words []string) string {
	text := strings.ToLower(image) + " " + strings.Join(words, " ")
	for _, s := range names().Servers {
		if s.Image.MatchString(text) {
			return s.Name
		}
	}
	return ""
}

// owner identifies the object that made a pod, as far as it is known.
type owner struct{ kind, namespace, name string }

func (o owner) String() string { return o.kind + "/" + o.namespace + "/" + o.name }

// ownerOf returns the object that a pod belongs to by its owner or its labels.
func ownerOf(m *metadata) owner {
	for _, l := range names().Owners {
		if name := m.Labels[l[0]]; name != "" {
			return owner{l[1], m.Namespace, name}
		}
	}
	o := m.controller()
	if o.Kind == "ReplicaSet" {
		// The label has the part that the Deployment's name was extended by.
		if base, ok := strings.CutSuffix(o.Name, "-"+m.Labels["pod-template-hash"]); ok &&
			m.Labels["pod-template-hash"] != "" {
			return owner{"Deployment", m.Namespace, base}
		}
	}
	if o.Name == "" {
		return owner{"Pod", m.Namespace, m.Name}
	}
	return owner{o.Kind, m.Namespace, o.Name}
}
