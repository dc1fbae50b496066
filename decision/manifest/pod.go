package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/pluginconf"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
)

// groupLabel is the node label that ties pods to their group's nodes.
const groupLabel = "gpu-sharing-group"

// pod is what one delivery needs in a workload's Deployment.
type pod struct {
	name        string // of the Deployment
	replicas    int
	annotations map[string]string
	scheduler   string
	queue       string // of KAI
	env         []pair
	args        []string
	limits      map[string]string
	claim       *Claim
	header      []string
}

func (p *pod) node(w *Workload, g *Group) *yaml.Node {
	var image, scheduler, claims, podClaims any
	if w.Image != "" {
		image = w.Image
	}
	if p.scheduler != "" {
		scheduler = p.scheduler
	}
	var env []*yaml.Node
	for _, e := range p.env {
		env = append(env, yamlnode.Map("name", e.key, "value", e.value))
	}
	var args []string
	if len(w.Args)+len(p.args) > 0 {
		args = slices.Concat(w.Args, p.args)
	}
	if c := p.claim; c != nil {
		source := "resourceClaimName"
		if c.Template {
			source = "resourceClaimTemplateName"
		}
		claims = yamlnode.List(yamlnode.Map("name", c.request()))
		podClaims = yamlnode.List(yamlnode.Map("name", c.request(), source, c.Name))
	}
	// A patch must not touch the selector, which cannot be changed.
	selector, labels := map[string]string{}, map[string]string{}
	if w.Image != "" {
		selector["app"], labels["app"] = p.name, p.name
	}
	if p.queue != "" {
		labels["kai.scheduler/queue"] = p.queue
	}
	return yamlnode.Map("apiVersion", "apps/v1", "kind", "Deployment",
		"metadata", metadata(p.name, w.Namespace, nil, nil),
		"spec", yamlnode.Map(
			"replicas", p.replicas,
			"selector", yamlnode.Map("matchLabels", selector),
			"template", yamlnode.Map(
				"metadata", yamlnode.Map("labels", labels, "annotations", p.annotations),
				"spec", yamlnode.Map(
					"schedulerName", scheduler,
					"nodeSelector", map[string]string{groupLabel: g.Key()},
					"resourceClaims", podClaims,
					"containers", yamlnode.List(yamlnode.Map(
						"name", w.container(), "image", image, "args", args, "env", env,
						"resources", yamlnode.Map("limits", p.limits, "claims", claims)))))))
}

// newPod is what every delivery has in common.
func (g *Group) newPod(w *Workload) (*pod, []sharing.Warning) {
	args, ws := g.fractionArgs(w)
	p := &pod{name: w.Name, replicas: w.replicas(), args: args}
	p.header = []string{fmt.Sprintf("%s: %v on the nodes of %s.", w.Name, w.Mechanism, g.Key())}
	if w.Image == "" {
		p.header = append(p.header, "A patch: add the image, or apply it to the Deployment that has one.")
	}
	if len(p.args) > 0 {
		p.header = append(p.header, "The list of arguments replaces the container's own: keep yours in it.")
	}
	if usesMPS(w.Mechanism) {
		p.env = g.mpsEnv(w)
	}
	return p, ws
}

// mpsEnv is the environment with which a client tightens its own limits. With
// one GPU in sight its ordinal is 0, wherever the GPU sits in the node; an
// entry for another ordinal would drop every limit (DYN-LIM).
func (g *Group) mpsEnv(w *Workload) []pair {
	var env []pair
	if w.ComputePercent > 0 {
		env = append(env, pair{mps.EnvThreads, strconv.FormatFloat(w.ComputePercent, 'f', -1, 64)})
	}
	if w.Memory > 0 {
		if text, err := mps.FormatMemLimit(g.processLimit(w)); err == nil {
			env = append(env, pair{mps.EnvPinnedMemLimit, "0=" + text})
		}
	}
	return env
}

// warnings lists what a workload's configuration cannot do, whatever delivers
// it.
func (g *Group) warnings(w *Workload) []sharing.Warning {
	var ws []sharing.Warning
	add := func(code sharing.WarningCode, source sharing.SourceID, remedy, format string, args ...any) {
		ws = append(ws, sharing.Warning{Code: code, Path: w.Name, Source: source, Remedy: remedy, Message: fmt.Sprintf(format, args...)})
	}
	if usesMPS(w.Mechanism) {
		if n := w.Framework.Processes; n > 1 {
			add(WarnPerProcess, "k8s-device-plugin-issue-720", "", "MPS limits each process, not the container: each of the %d processes gets %v", n, g.processLimit(w))
		}
		if w.Memory == 0 {
			add(WarnNoMemoryLimit, "k8s-device-plugin", "give the workload a memory limit", "its limit is whatever delivers it: an equal share by the plugin, none by a DRA claim")
		}
	}
	if w.Mechanism == sharing.MechanismTimeSlicing {
		add(WarnNoMemoryLimit, "k8s-device-plugin", "keep the framework's memory fraction below its share",
			"time-slicing limits no memory: any tenant can take all of the GPU's")
	}
	if w.ComputePercent > 0 {
		switch w.Mechanism {
		case sharing.MechanismTimeSlicing, sharing.MechanismMIG, sharing.MechanismExclusive, sharing.MechanismInServer, sharing.MechanismVGPU, sharing.MechanismMIGBackedVGPU:
			add(WarnComputeNotLimited, "k8s-device-plugin", "leave it out", "%v takes no compute limit of %v%%", w.Mechanism, w.ComputePercent)
		}
	}
	return ws
}

// pluginPod is the workload as the device plugin serves it.
func (g *Group) pluginPod(w *Workload) (*pod, []sharing.Warning, error) {
	p, ws := g.newPod(w)
	resource := pluginconf.GPU
	if w.Mechanism == sharing.MechanismMIG {
		var err error
		if resource, err = mig.ResourceName(w.Profile); err != nil {
			return nil, nil, invalid(err)
		}
	}
	p.limits = map[string]string{resource: strconv.Itoa(w.gpus())}
	if usesMPS(w.Mechanism) {
		share := mps.PluginShare{Replicas: g.clients(), Total: g.memory()}
		limit, percent := share.PinnedMemoryLimit(), float64(share.ActiveThreadPercentage())
		if per := g.processLimit(w); limit > 0 && per > limit {
			ws = append(ws, sharing.Warning{Code: WarnEqualShares, Path: w.Name, Source: "k8s-device-plugin",
				Message: fmt.Sprintf("the plugin limits each process to %v, an equal share; the environment can tighten that and not widen it to %v", limit, per),
				Remedy:  "use fewer replicas, or deliver by DRA"})
		}
		if w.ComputePercent > percent {
			ws = append(ws, sharing.Warning{Code: WarnEqualShares, Path: w.Name, Source: "k8s-device-plugin",
				Message: fmt.Sprintf("the plugin gives each process %v%% of the threads; the environment cannot widen that to %v%%", percent, w.ComputePercent),
				Remedy:  "use fewer replicas, or deliver by DRA"})
		}
	}
	return p, ws, nil
}

// vgpuPod is the workload inside a virtual machine, which sees one GPU.
func (g *Group) vgpuPod(w *Workload) (*pod, []sharing.Warning, error) {
	p, ws := g.newPod(w)
	p.limits = map[string]string{pluginconf.GPU: strconv.Itoa(w.gpus())}
	p.header = append(p.header, "For the cluster whose nodes are virtual machines with a virtual GPU.")
	return p, ws, nil
}

func (g *Group) hamiPod(w *Workload) (*pod, []sharing.Warning, error) {
	p, ws := g.newPod(w)
	s := w.share()
	if err := s.Validate(); err != nil {
		return nil, nil, err
	}
	p.limits, p.annotations = s.HAMiResources(), s.HAMiAnnotations()
	return p, append(ws, w.hamiWarnings()...), nil
}

func (g *Group) volcanoPod(w *Workload) (*pod, []sharing.Warning, error) {
	p, ws := g.newPod(w)
	s := w.share()
	if err := s.Validate(); err != nil {
		return nil, nil, err
	}
	p.scheduler = "volcano"
	p.limits, p.annotations = s.VolcanoResources(), s.VolcanoAnnotations()
	return p, append(ws, w.hamiWarnings()...), nil
}

func (g *Group) kaiPod(w *Workload) (*pod, []sharing.Warning, error) {
	p, ws := g.newPod(w)
	p.scheduler = "kai-scheduler"
	annotations, err := w.kaiAnnotations(g)
	if err != nil {
		return nil, nil, err
	}
	if annotations == nil {
		p.limits = map[string]string{pluginconf.GPU: strconv.Itoa(w.gpus())}
		return p, ws, nil
	}
	p.annotations = annotations
	p.header = append(p.header, "For nodes whose device plugin replicates nothing: KAI divides whole GPUs.")
	ws = append(ws, sharing.Warning{Code: WarnNotEnforced, Path: w.Name, Source: "kai-gpu-sharing",
		Message: "KAI places the pod by this share and enforces none of it", Remedy: "trust the tenants, or add a mechanism that enforces"})
	return p, ws, nil
}

// file encodes the pod, after the documents that it needs.
func (p *pod) file(path string, w *Workload, g *Group, note string, before ...*yaml.Node) (File, error) {
	b, err := yamlnode.Encode(p.header, append(before, p.node(w, g))...)
	if err != nil {
		return File{}, err
	}
	return File{Path: path, Data: b, Note: note}, nil
}

// nodeLabels are the labels of the group's nodes when by is what delivers it
// first; Bare stands for nothing.
func (g *Group) nodeLabels(by sharing.Delivery, migLabel string) map[string]string {
	out := map[string]string{groupLabel: g.Key()}
	switch by {
	case sharing.DeliveryGPUOperator, sharing.DeliveryDevicePlugin:
		out["nvidia.com/device-plugin.config"] = g.pluginKey()
	case sharing.DeliveryHAMi:
		out["gpu"] = "on"
		out[noPlugin] = "false"
	case sharing.DeliveryVolcano, sharing.DeliveryDRA:
		out[noPlugin] = "false"
	}
	if migLabel != "" {
		out["nvidia.com/mig.config"] = migLabel
	}
	return out
}

// noPlugin keeps the GPU Operator's device plugin from a node where another
// hands out the GPUs.
const noPlugin = "nvidia.com/gpu.deploy.device-plugin"

// nodeFiles are the patches that label the group's nodes.
func (g *Group) nodeFiles(by sharing.Delivery) ([]File, error) {
	kinds := []nodeKind{{nodes: g.nodes()}}
	if usesMIG(g.Mechanism) {
		kinds, _ = g.nodeKinds()
	}
	var out []File
	for _, k := range kinds {
		name := g.Key()
		if k.label != "" {
			name = k.label
		}
		count := "the nodes"
		if k.nodes > 0 {
			count = fmt.Sprintf("%d node(s)", k.nodes)
		}
		b, err := yamlnode.Encode([]string{fmt.Sprintf("kubectl patch node NODE --patch-file nodes/%s.yaml, for %s of %s.", name, count, g.Key())},
			yamlnode.Map("metadata", yamlnode.Map("labels", g.nodeLabels(by, k.label))))
		if err != nil {
			return nil, err
		}
		out = append(out, File{Path: "nodes/" + name + ".yaml", Data: b, Note: "labels for " + count + " of " + g.Key()})
	}
	return out, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func deliveryNames(ds []sharing.Delivery) string {
	var names []string
	for _, d := range ds {
		names = append(names, d.String())
	}
	return strings.Join(names, ", ")
}
