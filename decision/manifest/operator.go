// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/mig/parted"
	"github.com/cotenant/cotenant/sharing"
)

// pluginFiles writes the device-plugin configurations, one for each key, and the ConfigMap with all of them.
func (b *builder) pluginFiles() {
	configs := map[string]*yaml.Node{}
	if b.plan == nil {
		configs[exclusiveKey] = yamlnode.Map("version", "v1", "flags", yamlnode.Map("migStrategy", "none"))
	}
	for _, g := range b.groups {
		if !g.byPlugin() {
			continue
		}
		configs[g.pluginKey()] = b.pluginConfig(g)
	}
	docs := map[string]string{}
	for _, key := range sortedKeys(configs) {
		doc, err := yamlnode.Encode(nil, configs[key])
		b.fail(err)
		docs[key] = string(doc)
		b.add("device-plugin/"+key+".yaml", "device-plugin configuration, version v1", doc)
	}
	namespace, name, _ := b.pluginConfigs()
	b.encode("device-plugin/configmap.yaml",
		"the same configurations, for the GPU Operator or the plugin's chart", nil, yamlnode.ConfigMap(name, namespace, docs))
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
	var migManager, plugin any
	strategy, root := "", ""
	switch {
	case mixed && hasMPS:
		b.warn(warnMIGStrategyEnv, "mig.strategy", "nvidia-gpu-operator",
			"leave mig.strategy unset, and check in the plugin's log on an MPS node that the strategy is none",
			"the Operator hands mig.strategy to every node's plugin, where it overrides the node's own configuration, and the "+
				"plugin refuses MPS under mixed; the values leave it out")
	case mixed:
		strategy = "mixed"
	case hasMPS:
		strategy = "none"
	}
	if hasMIG {
		migManager = yamlnode.Map("enabled", true, "config", yamlnode.Map("name", migConfigMap, "default", allDisabled))
	}
	if hasMPS {
		root = mpsRoot
	}
	if byPlugin {
		plugin = yamlnode.Map("config", yamlnode.Map("name", pluginConfigMap, "default", exclusiveKey),
			"mps", yamlnode.Map("root", yamlnode.Some(root)))
	}
	b.encode("gpu-operator/values.yaml", "Helm values", []string{"Values for the GPU Operator's Helm chart."},
		yamlnode.Map("mig", yamlnode.Map("strategy", yamlnode.Some(strategy)), "migManager", migManager,
			"devicePlugin", plugin))
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

// hamiValues writes the settings of HAMi's chart that the requests rely on.
func (b *builder) hamiValues() {
	b.encode("hami/values.yaml", "Helm values", []string{"Values for HAMi's Helm chart.",
		"A memory scaling above 1 hands out more memory than there is."},
		yamlnode.Map("devicePlugin", yamlnode.Map("deviceSplitCount", b.hamiSplit(), "deviceMemoryScaling", 1,
			"deviceCoreScaling", 1)))
}

// volcanoScheduler writes the part of Volcano's scheduler configuration that vGPU needs.
func (b *builder) volcanoScheduler() {
	b.encode("volcano/scheduler.yaml", "for the volcano-scheduler-configmap",
		[]string{"Merge into volcano-scheduler.conf: the deviceshare plugin of one tier."},
		yamlnode.Map("tiers", yamlnode.List(yamlnode.Map("plugins", yamlnode.List(
			yamlnode.Map("name", "predicates"),
			yamlnode.Map("name", "deviceshare", "arguments", yamlnode.Map(
				"deviceshare.VGPUEnable", true, "deviceshare.SchedulePolicy", "binpack")))))))
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

// pluginConfig is the device plugin's configuration document (version v1, as api/config/v1 has it at 1b826acc, 0.20)
// for the nodes of a group. Under MPS the plugin gives each replica an equal share of memory and of active threads.
func (b *builder) pluginConfig(g *group) *yaml.Node {
	var turns, clients, root any
	n, strategy := g.slots(), "none"
	replicas := yamlnode.Map("failRequestsGreaterThanOne", true, "resources",
		yamlnode.List(yamlnode.Map("name", gpuResource, "replicas", n)))
	switch m := g.full(); {
	case m == sharing.MechanismTimeSlicing:
		turns = replicas
		b.warn(warnReplicasNotCapacity, g.key, "k8s-device-plugin", "",
			"replicas are time slices on the same GPU, not capacity: no replica has memory or compute of its own")
	case usesMPS(m):
		root, clients = mpsRoot, replicas
		if 100%n != 0 {
			b.warn(warnUnevenPercentage, g.key, "k8s-device-plugin-mps", "the daemon itself takes fractions: set the "+
				"percentage with a client of your own", "the plugin gives each of %d replicas %d%% of the threads and leaves %d%% "+
				"to nobody", n, 100/n, 100-n*(100/n))
		}
	}
	if g.any(usesMIG) {
		strategy = "mixed"
	}
	return yamlnode.Map("version", "v1", "flags", yamlnode.Map("migStrategy", strategy, "mpsRoot", root), "sharing",
		yamlnode.Map("timeSlicing", turns, "mps", clients))
}

// mpsRoot is the plugin's and the GPU Operator's default (k8s-device-plugin, nvidia-gpu-operator).
const mpsRoot = "/run/nvidia/mps"

// partedFiles writes mig-parted's configuration, alone and for the MIG manager.
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
			b.warn(warnNodeSizeUnknown, g.key, "nvidia-gpu-operator", "say how many GPUs a node has", "GPUs are laid out "+
				"differently and it is not known how many a node has; each label here is for nodes whose GPUs are all alike")
		}
	}
	data, err := c.Marshal()
	b.fail(invalid(err))
	b.add("mig-parted/config.yaml", "mig-parted configuration, version v1", data)
	if b.plan != nil {
		return // its entries join those that are there
	}
	b.encode("mig-parted/configmap.yaml", "the same, for the GPU Operator's MIG manager", nil,
		yamlnode.ConfigMap(migConfigMap, operatorNamespace, map[string]string{"config.yaml": string(data)}))
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
	} else if b.leavesMIG(g) {
		out["nvidia.com/mig.config"] = allDisabled
	}
	return out
}

// leavesMIG reports whether nodes that have MIG instances today come to a group without.
func (b *builder) leavesMIG(g *group) bool {
	return b.plan != nil && slices.ContainsFunc(b.plan.Fleet.Today.Nodes, func(n layout.Node) bool {
		return partitioned(n) && g.has(n.Name)
	})
}

// noPlugin keeps the GPU Operator's device plugin from a node where another hands out the GPUs.
const noPlugin = "nvidia.com/gpu.deploy.device-plugin"
