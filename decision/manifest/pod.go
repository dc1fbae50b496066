// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
)

func (p *pod) node(m *member) *yaml.Node {
	var claims, podClaims any
	if c := p.claim; c != nil {
		source := "resourceClaimName"
		if c.template {
			source = "resourceClaimTemplateName"
		}
		claims = yamlnode.List(yamlnode.Map("name", c.request()))
		podClaims = yamlnode.List(yamlnode.Map("name", c.request(), source, c.name))
	}
	selector, affinity := m.nodes()
	own := m.surroundings()
	return m.wrap(p, yamlnode.Map(
		"metadata", yamlnode.Map("labels", p.labels, "annotations", p.annotations),
		"spec", yamlnode.Map(
			"schedulerName", yamlnode.Some(p.scheduler),
			"nodeSelector", selector,
			"affinity", affinity,
			"tolerations", own.tolerations,
			"resourceClaims", podClaims,
			"containers", yamlnode.List(yamlnode.Map(
				"name", m.name, "args", p.args, "env", append(p.env, own.env...),
				"resources", yamlnode.Map("limits", p.limits, "claims", claims), "volumeMounts", own.mounts)),
			"volumes", own.volumes)))
}

// newPod returns the part that every delivery has in common.
func (b *builder) newPod(m *member) *pod {
	p := &pod{name: m.name, replicas: m.replicas(), args: b.fractionArgs(m), labels: b.podLabels(m)}
	p.header = []string{fmt.Sprintf("%s: %v on the nodes of %s.", m.name, m.Mechanism, strings.Join(m.keys(), ", ")),
		m.howTo()}
	if len(p.args) > 0 {
		p.header = append(p.header, "The list of arguments replaces the container's own: keep yours in it.")
	}
	if usesMPS(m.Mechanism) {
		p.env = m.mpsEnv()
	}
	return p
}

// mpsEnv is the environment with which a client tightens its own limits. With one GPU in sight its ordinal is 0,
// wherever the GPU sits in the node; an entry for another ordinal would drop every limit (dynamo-mps-limits).
func (m *member) mpsEnv() []*yaml.Node {
	var env []*yaml.Node
	if m.percent > 0 {
		env = append(env, yamlnode.Map("name", mps.EnvThreads, "value", formatFloat(m.percent)))
	}
	if text, err := mps.FormatMemLimit(m.processLimit()); err == nil {
		env = append(env, yamlnode.Map("name", mps.EnvPinnedMemLimit, "value", "0="+text))
	}
	return env
}

// limitWarnings warns of limits that the mechanism does not hold, whatever delivers it.
func (b *builder) limitWarnings(m *member) {
	const source = "k8s-device-plugin"
	if n := m.processes(); n > 1 && usesMPS(m.Mechanism) {
		b.warn(warnPerProcess, m.name, source, "",
			"MPS limits each process, not the container: each of the %d processes gets %v", n, m.processLimit())
	}
	if m.Mechanism == sharing.MechanismTimeSlicing {
		b.warn(warnNoMemoryLimit, m.name, source, "keep the framework's memory fraction below its share",
			"time-slicing limits no memory: any tenant can take all of the GPU's")
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
		p.limits = map[string]string{gpuResource: strconv.Itoa(m.gpus())}
		p.header = append(p.header, "For the cluster whose nodes are virtual machines with a virtual GPU.")
	default:
		b.pluginPod(p, m)
	}
	b.encode("pods/"+m.file()+".yaml", fmt.Sprintf("%s, by %v", m.name, d), p.header, p.node(m))
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
	p.limits = map[string]string{resource: strconv.Itoa(m.gpus())}
}

// nodeFile writes the patch that labels the group's nodes.
func (b *builder) nodeFile(g *group) {
	count := "the nodes"
	if n := g.count(); n > 0 {
		count = plaintext.Count(n, "node")
	}
	header := []string{fmt.Sprintf("kubectl patch node NODE --patch-file nodes/%s.yaml, for %s of %s.", g.key, count,
		g.key)}
	b.encode("nodes/"+g.key+".yaml", "labels for "+count+" of "+g.key, header,
		yamlnode.Map("metadata", yamlnode.Map("labels", b.nodeLabels(g))))
}

// processLimit is the memory that one process may use, in whole mebibytes, or 0 where there is no limit.
func (m *member) processLimit() sharing.Bytes {
	limit, _ := mps.LimitPerProcess(m.memory, m.processes())
	return limit
}

// advice is the memory fraction for the workload's framework, or 0 where nothing is shared or a figure is missing.
func (m *member) advice(f mps.ServingFramework) float64 {
	limit, total := m.processLimit(), m.total()
	switch m.Mechanism {
	case sharing.MechanismMIG, sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		return mps.FractionOfLimit
	case sharing.MechanismTimeSlicing:
		// The whole GPU is in sight, as for vLLM under MPS, whatever is free.
		f = mps.ServingVLLM
	case sharing.MechanismMPS, sharing.MechanismMIGWithMPS, sharing.MechanismMIGLikeEmulation:
	default:
		return 0
	}
	fraction, _ := mps.MemoryFraction(f, limit, total)
	return fraction
}

// fractionArgs returns the memory-fraction option of the workload's framework, or nil.
func (b *builder) fractionArgs(m *member) []string {
	var f mps.ServingFramework
	if f.UnmarshalText([]byte(m.framework().Name)) != nil {
		return nil
	}
	if fraction := cmp.Or(m.fraction, m.advice(f)); fraction > 0 {
		return []string{f.Flag(), formatFloat(fraction)}
	}
	if shared(m.Mechanism) || m.Mechanism == sharing.MechanismVGPU {
		b.warn(warnFractionUnknown, m.name, "dynamo-mps-limits", "give the workload's memory and the GPU's",
			"no %s is written, for the memory that it is a fraction of, or the workload's share of it, is not known or leaves "+
				"nothing; the framework would take most of the GPU", f.Flag())
	}
	return nil
}
