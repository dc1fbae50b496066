// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/mig/parted"
	"github.com/cotenant/cotenant/sharing"
)

// pluginFiles writes the device-plugin configurations, one for each key, and the ConfigMap with all of them.
func (b *builder) pluginFiles() {
	docs := map[string]string{}
	add := func(key string, c pluginConfig) {
		if docs[key] == "" {
			doc := b.render("plugin", c)
			docs[key] = string(doc)
			b.add("device-plugin/"+key+".yaml", "device-plugin configuration, version v1", doc)
		}
	}
	if b.plan == nil {
		add(exclusiveKey, pluginConfig{Strategy: "none"})
	}
	for _, g := range b.groups {
		if g.byPlugin() {
			add(g.pluginKey(), b.pluginConfig(g))
		}
	}
	namespace, name, _ := b.pluginConfigs()
	b.document("device-plugin/configmap.yaml", "the same configurations, for the GPU Operator or the plugin's chart",
		"configmap", configMap{name, namespace, docs})
}

// configMap holds texts by key.
type configMap struct {
	Name, Space string
	Data        map[string]string
}

// pluginConfigs names the ConfigMap of the device plugin's configurations: that of the cluster where there is one, as
// nodes with labels that choose from it would have no configuration in another. One that was not read is called NAME.
func (b *builder) pluginConfigs() (namespace, name string, there bool) {
	if b.plan != nil && b.fleet.Today.PluginConfigs != "" {
		namespace, name = spaced(b.fleet.Today.PluginConfigs)
		return namespace, name, true
	}
	chooses := func(o fleet.NodeObject) bool { return o.Labels[pluginLabel] != "" }
	if b.plan != nil && slices.ContainsFunc(b.fleet.Today.Objects, chooses) {
		return operatorNamespace, "NAME", true
	}
	return operatorNamespace, pluginConfigMap, false
}

// operatorValues writes the GPU Operator's settings: only those that the groups depend on.
func (b *builder) operatorValues() {
	hasMIG, byPlugin := b.hasEntries(), b.byPlugin()
	hasMPS := byPlugin && b.any(func(m sharing.Mechanism) bool {
		return m == sharing.MechanismMPS || m == sharing.MechanismMIGLikeEmulation
	})
	mixed := byPlugin && b.any(func(m sharing.Mechanism) bool { return m == sharing.MechanismMIG })
	values := operatorValues{MIG: hasMIG, Plugin: byPlugin, Default: exclusiveKey}
	switch {
	case mixed && hasMPS:
		b.warn("mig-strategy-env", "mig.strategy")
	case mixed:
		values.Strategy = "mixed"
	case hasMPS:
		values.Strategy = "none"
	}
	if hasMPS {
		values.Root = mpsRoot
	}
	b.document("gpu-operator/values.yaml", "Helm values", "operator", values)
}

// operatorValues are the GPU Operator's: of the MIG manager, and of the device plugin with the configuration of nodes
// without a label.
type operatorValues struct {
	MIG, Plugin             bool
	Strategy, Default, Root string
}

// hamiSplit counts the pods that HAMi lets onto one card: its default of 10, or as many as the groups need.
func (b *builder) hamiSplit() int {
	n := 10
	for _, g := range b.groups {
		if g.any(usesHAMi) {
			n = max(n, g.slots())
		}
	}
	return n
}

// exclusiveKey is the configuration of nodes that share nothing. It is the
// default, so that a node without a label never shares.
const exclusiveKey = "exclusive"

// pluginKey names the group's device-plugin configuration.
func (g *group) pluginKey() string {
	if !g.planned && !g.any(shared) && !g.any(usesMIG) {
		return exclusiveKey
	}
	return g.key
}

// pluginConfig is a configuration of the device plugin: sharing of full GPUs by timeSlicing or mps. Under MPS the
// plugin gives each replica an equal share of memory and of active threads.
type pluginConfig struct {
	Strategy, Root, Sharing string
	Replicas                int
}

// pluginConfig is the configuration for the nodes of a group.
func (b *builder) pluginConfig(g *group) pluginConfig {
	n := g.slots()
	out := pluginConfig{Strategy: "none", Replicas: n}
	switch m := g.full(); {
	case m == sharing.MechanismTimeSlicing:
		out.Sharing = "timeSlicing"
		b.warn("replicas-not-capacity", g.key)
	case usesMPS(m):
		out.Root, out.Sharing = mpsRoot, "mps"
		if 100%n != 0 {
			b.warn("uneven-percentage", g.key, n, 100/n, 100-n*(100/n))
		}
	}
	if g.any(usesMIG) {
		out.Strategy = "mixed"
	}
	return out
}

// mpsRoot is the plugin's and the GPU Operator's default (k8s-device-plugin, nvidia-gpu-operator).
const mpsRoot = "/run/nvidia/mps"

// partedFiles writes mig-parted's configuration, by itself and for the MIG manager.
func (b *builder) partedFiles() {
	c := &parted.Config{Configs: map[string][]parted.Entry{}}
	if b.plan == nil {
		c.Configs[allDisabled] = []parted.Entry{{Devices: parted.DeviceSelector{All: true}}}
	}
	several := map[*decision.Pool]int{}
	for _, g := range b.groups {
		if g.entries != nil {
			c.Configs[g.key] = g.entries
			several[g.pool]++
		}
	}
	for _, g := range b.groups {
		if g.entries != nil && several[g.pool] > 1 && g.pool.GPUsPerNode.IsZero() {
			b.warn("node-size-unknown", g.key)
		}
	}
	data, err := c.Marshal()
	b.fail(invalid(err))
	b.add("mig-parted/config.yaml", "mig-parted configuration, version v1", data)
	if b.plan != nil {
		return // its entries join those that are there
	}
	b.document("mig-parted/configmap.yaml", "the same, for the GPU Operator's MIG manager", "configmap",
		configMap{migConfigMap, operatorNamespace, map[string]string{"config.yaml": string(data)}})
}

// nodeLabels are the labels of the group's nodes.
func (b *builder) nodeLabels(g *group) map[string]string {
	out := map[string]string{groupLabel: g.key}
	switch g.delivery {
	case sharing.DeliveryGPUOperator, sharing.DeliveryDevicePlugin:
		out["nvidia.com/device-plugin.config"] = g.pluginKey()
	case sharing.DeliveryHAMi:
		out["gpu"] = "on"
		out[noPlugin] = "false"
	case sharing.DeliveryVolcano, sharing.DeliveryDRA:
		out[noPlugin] = "false"
	}
	if g.entries != nil {
		out["nvidia.com/mig.config"] = g.key
	} else if b.plan != nil && slices.ContainsFunc(b.plan.Fleet.Today.Nodes, func(n layout.Node) bool {
		return partitioned(n) && g.has(n.Name)
	}) { // it has instances today
		out["nvidia.com/mig.config"] = allDisabled
	}
	return out
}

// noPlugin keeps the GPU Operator's device plugin from a node where another hands out the GPUs.
const noPlugin = "nvidia.com/gpu.deploy.device-plugin"

// onEKS reports whether eksctl can make the nodes of the group: their machine is known, and their number.
func (g *group) onEKS() bool {
	return strings.HasPrefix(g.pool.Platform, "eks") && g.pool.InstanceType != "" && g.count() > 0
}

// eksGroups writes eksctl's configuration with a managed node group for each group on EKS.
func (b *builder) eksGroups() {
	type nodeGroup struct {
		Key, Type string
		Nodes     int
		Labels    map[string]string
	}
	var all []nodeGroup
	for _, g := range b.groups {
		if g.onEKS() {
			all = append(all, nodeGroup{g.key, g.pool.InstanceType, g.count(), b.nodeLabels(g)})
		}
	}
	if len(all) > 0 {
		b.document("eks/cluster.yaml", "node groups for eksctl, where the nodes are not there yet", "eks", all)
	}
}
