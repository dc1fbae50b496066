// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
)

// newPod returns the part that every delivery has in common, with the settings that new pods need from their node and
// framework. Pods that run today keep their own.
//   - /dev/shm in memory for frameworks with processes that share it: data loaders and NCCL of PyTorch (its README,
//     "Using pre-built images"), tensor parallelism of vLLM (its guide "Using Kubernetes") and SGLang. Containers have
//     64 MiB.
//   - Expandable segments, which fragment less memory (PyTorch, "Optimizing memory usage with
//     PYTORCH_CUDA_ALLOC_CONF"), for training only: under vLLM they break custom all-reduce and transfers of KV caches
//     (vllm issue 42609, pull request 54351). Not under MPS and HAMi, where memory limits are of other allocations.
func (b *builder) newPod(m *member) *pod {
	p := &pod{Kind: m.object(), Version: versions[m.object()], Name: m.name, Space: m.space, Container: m.name,
		Replicas: cmp.Or(m.Placed, m.Replicas), Args: b.fractionArgs(m)}
	if b.routed(m) {
		p.Labels = map[string]string{serviceLabel: m.service}
	}
	if p.Version == "" {
		p.Kind, p.Version = "PodTemplate", "v1"
	}
	p.header = []string{fmt.Sprintf("%s: %v on the nodes of %s.", m.name, m.Mechanism, strings.Join(m.keys(), ", ")),
		m.howTo()}
	if len(p.Args) > 0 {
		p.header = append(p.header, "The list of arguments replaces the container's own: keep yours in it.")
	}
	if usesMPS(m.Mechanism) {
		p.Env = m.mpsEnv()
	}
	if keys := m.keys(); len(keys) == 1 {
		p.Selector = map[string]string{groupLabel: keys[0]}
	} else {
		p.Required = []nodeTerm{{Labels: []requirement{{groupLabel, "In", keys}}}}
	}
	if m.workload.Today != nil {
		return p
	}
	name := strings.ToLower(m.framework().Name)
	p.SharesMemory = slices.Contains([]string{"pytorch", "vllm", "sglang"}, name)
	trains := m.workload.Kind == decision.KindTraining || m.workload.Kind == decision.KindDistributedTraining
	if name == "pytorch" && trains && slices.Contains([]sharing.Mechanism{sharing.MechanismExclusive,
		sharing.MechanismTimeSlicing, sharing.MechanismMIG}, m.Mechanism) {
		p.Env = append(p.Env, variable{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"})
	}
	p.Tolerates = slices.ContainsFunc(m.groups, (*group).onEKS)
	return p
}

// mpsEnv is the environment with which a client tightens its own limits. With one GPU in sight its ordinal is 0,
// wherever the GPU sits in the node; an entry for another ordinal would drop every limit (dynamo-mps-limits).
func (m *member) mpsEnv() (env []variable) {
	if m.percent > 0 {
		env = append(env, variable{mps.EnvThreads, formatFloat(m.percent)})
	}
	if text, err := mps.FormatMemLimit(m.processLimit()); err == nil {
		env = append(env, variable{mps.EnvPinnedMemLimit, "0=" + text})
	}
	return env
}

// limitWarnings warns of limits that the mechanism does not hold, whatever delivers it.
func (b *builder) limitWarnings(m *member) {
	if n := m.processes(); n > 1 && usesMPS(m.Mechanism) {
		b.warn("limit-per-process", m.name, n, m.processLimit())
	}
	if m.Mechanism == sharing.MechanismTimeSlicing {
		b.warn("no-memory-limit", m.name)
	}
}

// pods writes a workload for the delivery of its nodes. Claims and the pods that use them are written by claims.
func (b *builder) pods(m *member) {
	p, d := b.newPod(m), m.delivery()
	switch d {
	case sharing.DeliveryBare, sharing.DeliveryDRA:
		return
	case sharing.DeliveryHAMi, sharing.DeliveryVolcano:
		m.share(p, d)
		b.graphsWarning(m)
	case sharing.DeliveryKAI:
		b.fail(invalid(b.kaiPod(p, m)))
	case sharing.DeliveryVGPUManager:
		p.Limits = map[string]string{gpuResource: strconv.Itoa(m.gpus())}
		p.header = append(p.header, "For the cluster whose nodes are virtual machines with a virtual GPU.")
	default:
		b.pluginPod(p, m)
	}
	b.document("pods/"+m.file()+".yaml", fmt.Sprintf("%s, by %v", m.name, d), "object", p, p.header...)
}

// resource names the extended resource of a MIG profile.
func (b *builder) resource(profile string) string {
	name, err := mig.ResourceName(profile)
	b.fail(invalid(err))
	return name
}

// pluginPod is the workload as the device plugin serves it.
func (b *builder) pluginPod(p *pod, m *member) {
	resource := gpuResource
	if m.Mechanism == sharing.MechanismMIG {
		resource = b.resource(m.Profile)
	}
	p.Limits = map[string]string{resource: strconv.Itoa(m.gpus())}
}

// nodeFile writes the patch that labels the group's nodes.
func (b *builder) nodeFile(g *group) {
	count := "the nodes"
	if n := g.count(); n > 0 {
		count = plaintext.Count(n, "node")
	}
	b.document("nodes/"+g.key+".yaml", "labels for "+count+" of "+g.key, "node", map[string]any{"Key": g.key,
		"Count": count, "Labels": b.nodeLabels(g)})
}

// processLimit is the memory that one process may use, in whole mebibytes, or 0 where there is no limit.
func (m *member) processLimit() sharing.Bytes {
	limit, _ := mps.LimitPerProcess(m.memory, m.processes())
	return limit
}

// advice is the memory fraction for the workload's framework, or 0 where nothing is shared or a figure is missing.
func (m *member) advice(framework string) float64 {
	total := m.gpu.Memory
	if usesMIG(m.Mechanism) {
		total = m.slice()
	}
	switch m.Mechanism {
	case sharing.MechanismMIG, sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		return mps.FractionOfLimit
	case sharing.MechanismTimeSlicing:
		// The whole GPU is in sight, as for vLLM under MPS, whatever is free.
		framework = "vllm"
	case sharing.MechanismMPS, sharing.MechanismMIGWithMPS, sharing.MechanismMIGLikeEmulation:
	default:
		return 0
	}
	fraction, _ := mps.MemoryFraction(framework, m.processLimit(), total)
	return fraction
}

// fractionArgs returns the memory-fraction option of the workload's framework, or nil.
func (b *builder) fractionArgs(m *member) []string {
	name := m.framework().Name
	flag, ok := mps.MemoryFlag(name)
	if !ok {
		return nil
	}
	if fraction := cmp.Or(m.fraction, m.advice(name)); fraction > 0 {
		return []string{flag, formatFloat(fraction)}
	}
	if shared(m.Mechanism) || m.Mechanism == sharing.MechanismVGPU {
		b.warn("fraction-unknown", m.name, flag)
	}
	return nil
}

// share requests the workload's part of a card from HAMi, or from Volcano's vGPU device plugin, which enforces it by
// HAMi's library.
func (m *member) share(p *pod, d sharing.Delivery) {
	number, memory, cores, mode := "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/vgpu-mode"
	if d == sharing.DeliveryVolcano {
		p.Scheduler = "volcano"
		number, memory, cores, mode = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores",
			"volcano.sh/vgpu-mode"
	}
	switch {
	case m.Mechanism == sharing.MechanismHAMiWithMPS:
		p.Annotations = map[string]string{mode: "mps"}
	case usesMIG(m.Mechanism):
		p.Annotations = map[string]string{mode: "mig"}
	case usesHAMi(m.Mechanism):
		p.Annotations = map[string]string{mode: "hami-core"}
	}
	p.Limits = map[string]string{number: strconv.Itoa(m.gpus())}
	if m.memory > 0 {
		p.Limits[memory] = strconv.FormatInt(int64(m.memory/sharing.MiB), 10)
	}
	if m.percent > 0 {
		p.Limits[cores] = formatFloat(math.Ceil(m.percent))
	}
}

// graphsWarning warns of a compute limit that HAMi does not hold.
func (b *builder) graphsWarning(m *member) {
	launches, known := m.framework().CUDAGraphs.Get()
	if m.percent == 0 || known && !launches {
		return
	}
	id := "cuda-graphs/perhaps"
	if known {
		id = "cuda-graphs"
	}
	b.warn(id, m.name)
}

func mebibytes(b sharing.Bytes) string { return strconv.FormatInt(int64(b/sharing.MiB), 10) + "Mi" }

// kaiPod is the workload as KAI places it: on a part of a GPU, or on whole ones.
func (b *builder) kaiPod(p *pod, m *member) error {
	p.Scheduler = "kai-scheduler"
	if !shared(m.Mechanism) {
		p.Limits = map[string]string{gpuResource: strconv.Itoa(m.gpus())}
		return nil
	}
	p.header = append(p.header, "For nodes whose device plugin replicates nothing: KAI divides whole GPUs. Add the label",
		"kai.scheduler/queue with the name of the team's queue.")
	b.warn("not-enforced", m.name)
	p.Annotations = map[string]string{"gpu-memory": strings.TrimSuffix(mebibytes(m.memory), "Mi"),
		"gpu-fraction-container-name": m.name}
	var l problem.List
	l.If(m.memory == 0, m.at, "state its memory", "a part of a GPU is a part of its memory, which is not known")
	return l.Err()
}

// object is the kind of the Kubernetes object that makes a workload's pods: the one that was read from the cluster, or
// one that suits the workload's kind.
func (m *member) object() string { return objectOf(m.workload) }

func objectOf(w *decision.Workload) string {
	switch {
	case w.Today != nil && w.Today.Object != "":
		return w.Today.Object
	case w.Kind == decision.KindOnlineInference:
		return "Deployment"
	case w.Kind == decision.KindNotebook:
		return "StatefulSet"
	}
	return "Job"
}

// rolls reports whether an object brings its pods to another template by itself, and back by kubectl rollout undo.
func rolls(object string) bool { return object == "Deployment" || object == "StatefulSet" }

// keys are the labels of the nodes that a workload is on.
func (m *member) keys() (out []string) {
	for _, g := range m.groups {
		out = append(out, g.key)
	}
	return out
}

// howTo describes the use of a workload's document.
func (m *member) howTo() string {
	switch object := m.object(); {
	case rolls(object):
		return fmt.Sprintf("A patch: add the image, or apply it to the %s that has one.", object)
	case object == "Job" || object == "JobSet" || object == "Pod":
		return fmt.Sprintf("A patch: merge it into the %s and create that anew, as its pods cannot be changed.", object)
	case object == "CronJob":
		return "A patch: merge it into the CronJob; jobs that run stay as they are."
	default:
		return fmt.Sprintf("A pod template: merge it into that of the %s.", object)
	}
}

// back returns the command or instruction that rolls the pods of a workload back.
func (m *member) back() string {
	object := m.object()
	of := strings.ToLower(object) + "/" + m.name + in(m.space)
	switch {
	case rolls(object):
		return fmt.Sprintf("`kubectl rollout undo %s`", of)
	case object == "CronJob":
		return fmt.Sprintf("apply what was kept of %s; its next job has it", of)
	}
	return fmt.Sprintf("`kubectl delete %s`, and create it anew from what was kept of it", of)
}

// objects are the kinds of the workloads' objects, as kubectl takes them.
func (b *builder) objects() string {
	var kinds []string
	for _, m := range b.members {
		if kind := strings.ToLower(m.object()) + "s"; !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return strings.Join(kinds, ",")
}

// versions are the API versions of the kinds of objects that are written. Others are written as a PodTemplate.
var versions = map[string]string{"Deployment": "apps/v1", "StatefulSet": "apps/v1", "ReplicaSet": "apps/v1",
	"Job": "batch/v1", "CronJob": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2"}

// pod holds a workload's object for the template of that name.
type pod struct {
	Kind, Version, Name, Space, Container string
	Replicas                              int
	Labels, Annotations, Limits, Selector map[string]string
	Scheduler                             string
	Args                                  []string
	Env                                   []variable
	Required                              []nodeTerm
	Claim                                 *claim
	Tolerates                             bool // the taint of nodes with GPUs
	SharesMemory                          bool // /dev/shm is in memory
	header                                []string
}

// variable is one of a container's environment.
type variable struct{ Name, Value string }

// nodeTerm is a term of a node affinity.
type nodeTerm struct {
	Labels []requirement `json:"matchExpressions,omitempty"`
	Fields []requirement `json:"matchFields,omitempty"`
}

type requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
