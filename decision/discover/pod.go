// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
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

// pod holds the kept parts of a pod that uses GPUs.
type pod struct {
	namespace, name, node string
	owner                 owner
	running               bool
	wants                 []wanted // by container, in the pod's order
	notes                 stringMap
	guess                 guess
	framework             framework
	uid                   decision.Optional[int]
	selects               string // the key of a node selector that picks GPUs
	claims                []claimRef
	extended              map[string]bool // resources backed by a claim
	labels                stringMap
	container             string // the first that asks for GPUs
	bound                 string // a rule of its own that is not planned with
	rules                 *fleet.Scheduling
	requests              map[string]int64 // by resource, without GPUs
	quotas                map[string]int64 // amounts that count against quotas

	// In the discovery that is made.
	held      []holding
	ask       ask // of them, put together
	signature string
	of        *workload
	at        *node // nil for a node that is not known
}

// claimRef names a ResourceClaim and the template that it is made from, by namespace and name; either may be empty.
type claimRef struct{ claim, template string }

// owner identifies the object that made a pod, as far as it is known.
type owner struct{ kind, name string }

// ask holds a pod's GPUs in the terms of a fleet.
type ask struct {
	gpus     int    // devices, or shares of them
	resource string // nvidia.com/gpu, ...
	profile  string // of MIG, the largest
	cores    int    // percent, the most of one card
	delivery sharing.Delivery
}

// framework holds a model server's settings from its pod's arguments.
type framework struct {
	name           string
	memoryFraction decision.Optional[float64]
	privileged     bool
}

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
	for i := range o.Spec.Containers {
		c.exporter.see(o.Spec.Containers[i].Image)
	}
	p := newPod(&o.Metadata, &o.Spec)
	p.readClaims(o)
	if o.Status.Phase != "Succeeded" && o.Status.Phase != "Failed" {
		c.takeRepellers(o)
	}
	if !p.uses() {
		c.takeOther(o)
		return
	}
	if n := p.counted(); n > mostPerNode {
		c.trouble(file, "Pod "+key, fmt.Sprintf("spec.containers[].resources: it asks for %d GPUs, more than a node has; it "+
			"is left out", n))
		return
	}
	if uid, ok := c.podUIDs[key]; ok {
		c.sameObject(file, "Pod "+key, uid, o.Metadata.UID)
		return
	}
	c.podUIDs[key] = o.Metadata.UID
	if o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed" || slices.Contains(reservations, o.Metadata.Namespace) {
		return
	}
	if o.Metadata.Deleted != "" {
		c.ending[p.node] = key
		return
	}
	c.seen(o.Status.Start)
	p.running = o.Status.Phase == "Running" || p.node != "" && slices.Contains([]string{"", "Pending"}, o.Status.Phase)
	c.users = append(c.users, p)
}

// newPod reads a pod, or a template of pods.
func newPod(m *metadata, s *podSpec) *pod {
	p := &pod{namespace: m.Namespace, name: m.Name, node: plaintext.Show(oneLine(s.NodeName)), notes: m.Annotations,
		labels: m.Labels,
		bound:  s.bound(), rules: s.rules(), requests: s.requests(), quotas: s.quotas()}
	for _, key := range []string{"use-gpuuuid", "nouse-gpuuuid", "use-gputype", "nouse-gputype"} {
		if p.notes["nvidia.com/"+key] != "" {
			p.bound = cmp.Or(p.bound, "its annotation nvidia.com/"+key+" chooses among the cards of HAMi")
		}
	}
	var containers []container
	for _, c := range s.InitContainers {
		init := c.RestartPolicy != "Always" // else a sidecar
		if p.want(&c, init); !init {
			containers = append(containers, c)
		}
	}
	for i := range s.Containers {
		p.want(&s.Containers[i], false)
	}
	containers = append(slices.Clone(s.Containers), containers...)
	for _, init := range []bool{true, false} {
		for _, w := range slices.Backward(p.wants) {
			if w.init == init && len(w.amounts) > 0 {
				p.container = w.container
			}
		}
	}
	for _, c := range s.Claims {
		p.claims = append(p.claims, claimRef{named(m.Namespace, c.Claim), named(m.Namespace, c.Template)})
	}
	for _, k := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		if begins(k, names().Kept) {
			p.selects = k
		}
	}
	p.readContainers(containers, s)
	p.owner = ownerOf(m)
	p.guess = guessKind(m, containers, p.owner)
	return p
}

// named is an object's name with its namespace; empty without one.
func named(namespace, name string) string {
	if name == "" {
		return ""
	}
	return namespace + "/" + name
}

// readClaims takes over the claims that were made for a pod: of its templates, and of the extended resources to which
// classes of devices answer (KEP-5004).
func (p *pod) readClaims(o *podObject) {
	for i := range o.Spec.Claims {
		for _, s := range o.Status.Claims {
			if s.Name == o.Spec.Claims[i].Name && s.Claim != "" {
				p.claims[i].claim = named(p.namespace, s.Claim)
			}
		}
	}
	e := o.Status.Extended
	if e.Claim == "" {
		return
	}
	p.claims, p.extended = append(p.claims, claimRef{claim: named(p.namespace, e.Claim)}), map[string]bool{}
	for _, m := range e.Mappings {
		p.extended[m.Resource] = true
	}
}

// want keeps the extended resources of a container. Requests repeat their limits.
func (p *pod) want(c *container, init bool) {
	w := wanted{container: c.Name, init: init, amounts: map[string]int{}}
	for _, list := range []quantities{c.Resources.Limits, c.Resources.Requests} {
		for key, text := range list {
			if v := amountOf(text); v > 0 && !ordinary(key) {
				w.amounts[key] = max(w.amounts[key], v)
			}
		}
	}
	p.wants = append(p.wants, w)
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
func (p *pod) readContainers(containers []container, s *podSpec) {
	p.runsAs(s.Security.RunAsUser)
	for i := range containers {
		c := &containers[i]
		p.framework.privileged = p.framework.privileged || c.Security.Privileged
		p.runsAs(c.Security.RunAsUser)
		words := slices.Concat(c.Command, c.Args)
		p.framework.name = cmp.Or(p.framework.name, serverOf(c.Image, words))
		for _, m := range fractionFlag.FindAllStringSubmatch(strings.Join(words, " "), -1) {
			if f, err := strconv.ParseFloat(m[1], 64); err == nil && f > 0 && f <= 1 {
				p.framework.memoryFraction = decision.Some(f)
			}
		}
	}
}

func (p *pod) runsAs(uid *int64) {
	if uid != nil && *uid >= 0 && *uid < 1<<31-1 {
		p.uid = decision.Some(int(*uid))
	}
}

// ownerOf returns the object that a pod belongs to by its owner or its labels.
func ownerOf(m *metadata) owner {
	for _, l := range names().Owners {
		if name := m.Labels[l[0]]; name != "" {
			return owner{l[1], name}
		}
	}
	o := m.controller()
	if o.Kind == "ReplicaSet" {
		// The label has the part that the Deployment's name was extended by.
		if base, ok := strings.CutSuffix(o.Name, "-"+m.Labels["pod-template-hash"]); ok &&
			m.Labels["pod-template-hash"] != "" {
			return owner{"Deployment", base}
		}
	}
	if o.Name == "" {
		return owner{"Pod", m.Name}
	}
	return owner{o.Kind, o.Name}
}

// controller is a Deployment or another owner that was read.
type controller struct {
	kind, namespace, name string
	owner                 owner // of a ReplicaSet or Job
	replicas              int
	pod                   *pod   // of its template, where that asks for GPUs
	holds                 string // why its pods do not follow a patch
}

func (c *Collector) takeController(file, kind string, o *controllerObject) {
	k := &controller{kind: kind, namespace: o.Metadata.Namespace, name: o.Metadata.Name, replicas: 1}
	k.holds = o.holdsOf(kind)
	if ref := o.Metadata.controller(); ref.Name != "" {
		k.owner = owner{ref.Kind, ref.Name}
	}
	if o.Spec.Replicas != nil {
		k.replicas = *o.Spec.Replicas
	}
	if o.Spec.Parallelism != nil {
		k.replicas = *o.Spec.Parallelism
	}
	if k.replicas < 0 || k.replicas > mostPods {
		c.trouble(file, kind+" "+k.namespace+"/"+k.name, fmt.Sprintf("spec.replicas: %d is out of range", k.replicas))
		return
	}
	for i := range o.Spec.Template.Spec.Containers {
		c.exporter.see(o.Spec.Template.Spec.Containers[i].Image)
	}
	template := o.Spec.Template.Metadata
	template.Namespace, template.Name = k.namespace, k.name
	template.Owners = []ownerRef{{Kind: kind, Name: k.name, Controller: true}}
	if p := newPod(&template, &o.Spec.Template.Spec); p.uses() && p.counted() <= mostPerNode {
		k.pod = p
	}
	c.controllers[kind+"/"+k.namespace+"/"+k.name] = k
}

type autoscaler struct{ min, max int }

func (c *Collector) takeAutoscaler(file string, o *autoscalerObject) {
	a := autoscaler{min: 1, max: o.Spec.Max}
	if o.Spec.Min != nil {
		a.min = *o.Spec.Min
	}
	if a.max < 1 || a.max > mostPods || a.min > a.max || a.min < 0 {
		c.trouble(file, "HorizontalPodAutoscaler "+o.Metadata.Namespace+"/"+o.Metadata.Name,
			"minReplicas and maxReplicas make no range")
		return
	}
	c.autoscalers[o.Spec.Target.Kind+"/"+o.Metadata.Namespace+"/"+o.Spec.Target.Name] = a
}
