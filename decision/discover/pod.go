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
	"github.com/cotenant/cotenant/sharing"
)

// pod holds the kept parts of a pod that uses GPUs.
type pod struct {
	namespace, name, node string
	owner                 owner
	running               bool
	ask                   ask
	guess                 guess
	framework             framework
	uid                   decision.Optional[int]
	selects               string // the key of a node selector that picks GPUs
	annotated             stringMap
	claims                []string // ResourceClaims, namespace/name
	labels                stringMap
	container             string // the first that asks for GPUs

	of *workload // in the discovery that is made
	at *node     // likewise, nil for a node that is not known
}

// owner identifies the object that made a pod, as far as it is known.
type owner struct{ kind, name string }

// ask holds a pod's requests of GPUs.
type ask struct {
	gpus     int    // devices, or replicas of them
	resource string // nvidia.com/gpu, ...
	profile  string // MIG
	memory   sharing.Bytes
	percent  int // of each card's memory
	cores    int // percent
	fraction string
	group    string // KAI: the GPU that pods share
	shared   bool   // asks for a part of a card
	delivery sharing.Delivery
}

// signature tells pods of one owner apart that ask for different things.
func (a *ask) signature() string {
	return fmt.Sprint(a.gpus, "|", a.resource, "|", a.profile, "|", a.memory, "|", a.percent, "|", a.cores, "|",
		a.fraction)
}

// framework holds a model server's settings from its pod's arguments.
type framework struct {
	name           string
	memoryFraction decision.Optional[float64]
	privileged     bool
}

// reservations are namespaces of pods with which KAI and its forerunner keep a GPU for others.
var reservations = []string{"kai-resource-reservation", "runai-reservation"}

// takePod keeps what a pod asks of GPUs. Pods that have ended, and those without, are left out.
func (c *Collector) takePod(file string, o *podObject) {
	if o.Metadata.Name == "" {
		c.trouble(file, "Pod", "it has no name")
		return
	}
	key := o.Metadata.Namespace + "/" + o.Metadata.Name
	for i := range o.Spec.Containers {
		c.kai.see(kaiImage, o.Spec.Containers[i].Image, file+": image of pod "+key)
		c.exporter.see(exporterImage, o.Spec.Containers[i].Image, file)
	}
	p := newPod(&o.Metadata, &o.Spec)
	for _, s := range o.Status.Claims {
		if s.Claim != "" {
			p.claims = append(p.claims, o.Metadata.Namespace+"/"+s.Claim)
		}
	}
	if !p.uses() {
		return
	}
	if p.ask.gpus > mostPerNode {
		c.trouble(file, "Pod "+key, fmt.Sprintf("spec.containers[].resources: it asks for %d GPUs, more than a node has; it "+
			"is left out", p.ask.gpus))
		return
	}
	if uid, ok := c.podUIDs[key]; ok {
		c.sameObject(file, "Pod "+key, uid, o.Metadata.UID)
		return
	}
	c.podUIDs[key] = o.Metadata.UID
	if o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed" || o.Metadata.Deleted != "" ||
		slices.Contains(reservations, o.Metadata.Namespace) {
		return
	}
	c.seen(o.Status.Start)
	p.running = o.Status.Phase == "Running" || p.node != "" && slices.Contains([]string{"", "Pending"}, o.Status.Phase)
	c.users = append(c.users, p)
}

// newPod reads a pod, or a template of pods.
func newPod(m *metadata, s *podSpec) *pod {
	p := &pod{namespace: m.Namespace, name: m.Name, node: s.NodeName, annotated: stringMap{}, labels: m.Labels}
	for k, v := range m.Annotations {
		if strings.HasPrefix(k, "cotenant.dev/") {
			p.annotated[k] = v
		}
	}
	containers := slices.Clone(s.Containers)
	for _, c := range s.InitContainers {
		if c.RestartPolicy == "Always" {
			containers = append(containers, c)
		}
	}
	p.ask = askOf(containers)
	for i := range slices.Backward(containers) {
		if one := askOf(containers[i : i+1]); one.gpus > 0 {
			p.container = containers[i].Name
		}
	}
	p.kai(m)
	for _, c := range s.Claims {
		switch {
		case c.Claim != "":
			p.claims = append(p.claims, m.Namespace+"/"+c.Claim)
		case c.Template != "":
			p.claims = append(p.claims, "template:"+m.Namespace+"/"+c.Template)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		p.selects = k
	}
	p.readContainers(containers, s)
	p.owner = ownerOf(m)
	p.guess = guessKind(m, containers, p.owner)
	return p
}

// uses reports whether a pod asks for GPUs.
func (p *pod) uses() bool { return p.ask.gpus > 0 || len(p.claims) > 0 || p.ask.fraction != "" }

func askOf(containers []container) ask {
	var a ask
	for i := range containers {
		for _, list := range []quantities{containers[i].Resources.Limits, containers[i].Resources.Requests} {
			if a.add(list) {
				break // requests repeat the limits of extended resources
			}
		}
	}
	return a
}

// add takes over the resources of a container and says whether any is a GPU.
func (a *ask) add(list quantities) bool {
	found := false
	for _, key := range slices.Sorted(maps.Keys(list)) {
		n := count(list[key])
		if n == 0 {
			continue
		}
		switch {
		case key == "nvidia.com/gpu" || key == "nvidia.com/gpu.shared" || key == "volcano.sh/vgpu-number":
			a.gpus, a.resource, found = a.gpus+n, key, true
			if key == "volcano.sh/vgpu-number" {
				a.delivery, a.shared = sharing.DeliveryVolcano, true
			}
		case strings.HasPrefix(key, migPrefix):
			profile, _ := strings.CutSuffix(strings.TrimPrefix(key, migPrefix), ".shared")
			a.gpus, a.resource, a.profile, found = a.gpus+n, key, profileName(profile), true
		case key == "nvidia.com/gpumem" || key == "volcano.sh/vgpu-memory":
			a.memory, a.shared = sharing.Bytes(n)*sharing.MiB, true
		case key == "nvidia.com/gpumem-percentage" || key == "volcano.sh/vgpu-memory-percentage":
			a.percent, a.shared = n, n < 100
		case key == "nvidia.com/gpucores" || key == "volcano.sh/vgpu-cores":
			a.cores, a.shared = min(n, 100), a.shared || n < 100
		case key == "cotenant.dev/gpu-milli":
			a.gpus, a.resource, a.shared, found = a.gpus+(n+999)/1000, key, a.shared || n%1000 != 0, true
		}
	}
	// HAMi gives a card to a pod that asks for memory alone.
	if !found && (a.memory > 0 || a.percent > 0) && a.gpus == 0 {
		a.gpus, a.resource, found = 1, "nvidia.com/gpumem", true
	}
	return found
}

// kai reads the annotations of the KAI scheduler.
func (p *pod) kai(m *metadata) {
	fraction, memory := m.Annotations["gpu-fraction"], m.Annotations["gpu-memory"]
	var held sharing.Bytes
	from := ""
	for _, key := range slices.Sorted(maps.Keys(m.Annotations)) { // a limit comes before its request
		if kaiMemory.MatchString(key) && held == 0 {
			held, from = sharing.Bytes(quantity(m.Annotations[key])), key
		}
	}
	if fraction == "" && memory == "" && held == 0 {
		return
	}
	p.ask.delivery, p.ask.shared, p.ask.resource = sharing.DeliveryKAI, true, "annotation gpu-fraction"
	p.ask.fraction = cmp.Or(fraction, memory+" MiB")
	p.ask.gpus = max(1, p.ask.gpus, count(m.Annotations["gpu-fraction-num-devices"]))
	if mib, err := strconv.ParseInt(memory, 10, 64); err == nil && mib > 0 && mib <= int64(mostMemory/sharing.MiB) {
		p.ask.memory, p.ask.resource = sharing.Bytes(mib)*sharing.MiB, "annotation gpu-memory"
	}
	if held > 0 {
		p.ask.memory, p.ask.resource, p.ask.fraction = held, "annotation "+from, held.String()
	}
	p.ask.group = cmp.Or(m.Labels["runai-gpu-group"], m.Labels["kai.scheduler/gpu-group"], m.Annotations["gpu-group"])
}

var fractionFlag = regexp.MustCompile(`^--(gpu-memory-utilization|mem-fraction-static|cuda-memory-fraction)` +
	`(?:[= ](.*))?$`)

// readContainers reads what is said of a container beside its resources. Of arguments only the flags that are
// looked for are kept, and of the environment nothing is read.
func (p *pod) readContainers(containers []container, s *podSpec) {
	p.runsAs(s.Security.RunAsUser)
	for i := range containers {
		c := &containers[i]
		p.framework.privileged = p.framework.privileged || c.Security.Privileged
		p.runsAs(c.Security.RunAsUser)
		words := slices.Concat(c.Command, c.Args)
		if name := serverOf(c.Image, words); name != "" && p.framework.name == "" {
			p.framework.name = name
		}
		for k, word := range words {
			for at, w := range strings.Fields(word) {
				m := fractionFlag.FindStringSubmatch(w)
				if m == nil {
					continue
				}
				text := m[2]
				rest := strings.Fields(word)[at+1:]
				switch {
				case text != "":
				case len(rest) > 0:
					text = rest[0]
				case k+1 < len(words):
					text = words[k+1]
				}
				if f, err := strconv.ParseFloat(text, 64); err == nil && f > 0 && f <= 1 {
					p.framework.memoryFraction = decision.Some(f)
				}
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
	for _, l := range []struct{ key, kind string }{
		{"leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"}, {"jobset.sigs.k8s.io/jobset-name", "JobSet"},
		{"training.kubeflow.org/job-name", "TrainingJob"},
		{"ray.io/cluster", "RayCluster"}, {"notebook-name", "Notebook"}, {"serving.kserve.io/inferenceservice",
			"InferenceService"}, {"volcano.sh/job-name", "VolcanoJob"},
	} {
		if name := m.Labels[l.key]; name != "" {
			return owner{l.kind, name}
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
	pod                   *pod // of its template, where that asks for GPUs
}

func (c *Collector) takeController(file, kind string, o *controllerObject) {
	k := &controller{kind: kind, namespace: o.Metadata.Namespace, name: o.Metadata.Name, replicas: 1}
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
		c.exporter.see(exporterImage, o.Spec.Template.Spec.Containers[i].Image, file)
	}
	template := o.Spec.Template.Metadata
	template.Namespace, template.Name = k.namespace, k.name
	template.Owners = []ownerRef{{Kind: kind, Name: k.name, Controller: true}}
	if p := newPod(&template, &o.Spec.Template.Spec); p.uses() && p.ask.gpus <= mostPerNode {
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
