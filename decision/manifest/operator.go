package manifest

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Names of the ConfigMaps that the GPU Operator is pointed to.
const (
	pluginConfigMap = "device-plugin-config"
	migConfigMap    = "mig-parted-config"
)

// pluginFiles are the device-plugin configurations, one for each key, and the
// ConfigMap with all of them.
func (f *Fleet) pluginFiles(namespace string) ([]File, []sharing.Warning, error) {
	docs := map[string]string{}
	add := func(key string, c *DevicePluginConfig) error {
		b, err := c.Marshal()
		docs[key] = string(b)
		return err
	}
	if err := add(exclusiveKey, &DevicePluginConfig{Flags: Flags{MIGStrategy: "none"}}); err != nil {
		return nil, nil, err
	}
	var ws []sharing.Warning
	for i := range f.Groups {
		g := &f.Groups[i]
		if !g.byPlugin() {
			continue
		}
		c := g.pluginConfig()
		if err := add(g.pluginKey(), c); err != nil {
			return nil, nil, err
		}
		found := c.Warnings()
		if c.MPS != nil {
			found = append(found, c.MPS.Warnings()...)
			if gpu, err := sharing.LookupGPU(g.GPU); err == nil {
				if cc, ok := gpu.ComputeCapability.Get(); ok {
					found = append(found, c.MPS.WarningsFor(cc.Major, cc.Minor)...)
				}
			}
		}
		for _, w := range found {
			w.Path = g.Key() + ": " + w.Path
			ws = append(ws, w)
		}
	}
	var files []File
	for _, key := range sortedKeys(docs) {
		files = append(files, File{Path: "device-plugin/" + key + ".yaml", Data: []byte(docs[key]), Note: "device-plugin configuration, version v1"})
	}
	cm, err := configMap(pluginConfigMap, namespace, docs)
	if err != nil {
		return nil, nil, err
	}
	return append(files, File{Path: "device-plugin/configmap.yaml", Data: cm, Note: "the same configurations, for the GPU Operator or the plugin's chart"}), ws, nil
}

func configMap(name, namespace string, data map[string]string) ([]byte, error) {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, k := range sortedKeys(data) {
		v := yamlnode.Text(data[k])
		v.Style = yaml.LiteralStyle
		n.Content = append(n.Content, yamlnode.Text(k), v)
	}
	return yamlnode.Encode(nil, yamlnode.Map("apiVersion", "v1", "kind", "ConfigMap",
		"metadata", metadata(name, namespace, nil, nil), "data", n))
}

// partedFiles are mig-parted's configuration, alone and for the MIG manager.
func partedFiles(c *mig.PartedConfig, namespace string) ([]File, error) {
	b, err := c.Marshal()
	if err != nil {
		return nil, invalid(err)
	}
	cm, err := configMap(migConfigMap, namespace, map[string]string{"config.yaml": string(b)})
	if err != nil {
		return nil, err
	}
	return []File{
		{Path: "mig-parted/config.yaml", Data: b, Note: "mig-parted configuration, version v1"},
		{Path: "mig-parted/configmap.yaml", Data: cm, Note: "the same, for the GPU Operator's MIG manager"},
	}, nil
}

// operatorValues are the GPU Operator's settings: only those that the fleet
// depends on.
func (f *Fleet) operatorValues(hasMIG, byPlugin bool) (File, []sharing.Warning, error) {
	hasMPS := byPlugin && slices.ContainsFunc(f.Groups, func(g Group) bool { return g.byPlugin() && usesMPS(g.Mechanism) })
	mixed := byPlugin && slices.ContainsFunc(f.Groups, func(g Group) bool { return g.Mechanism == sharing.MechanismMIG })
	var strategy, migManager, plugin, mpsValues any
	var ws []sharing.Warning
	switch {
	case mixed && hasMPS:
		ws = append(ws, sharing.Warning{Code: WarnMIGStrategyEnv, Path: "mig.strategy", Source: "nvidia-gpu-operator",
			Message: "the Operator hands mig.strategy to every node's plugin, where it overrides the node's own configuration, and the plugin refuses MPS under mixed; the values leave it out",
			Remedy:  "leave mig.strategy unset, and check in the plugin's log on an MPS node that the strategy is none"})
	case mixed:
		strategy = yamlnode.Map("strategy", "mixed")
	case hasMPS:
		strategy = yamlnode.Map("strategy", "none")
	}
	if hasMIG {
		migManager = yamlnode.Map("enabled", true, "config", yamlnode.Map("name", migConfigMap, "default", allDisabled))
	}
	if hasMPS {
		mpsValues = yamlnode.Map("root", mpsRoot)
	}
	if byPlugin {
		plugin = yamlnode.Map("config", yamlnode.Map("name", pluginConfigMap, "default", exclusiveKey), "mps", mpsValues)
	}
	b, err := yamlnode.Encode([]string{"Values for the GPU Operator's Helm chart."},
		yamlnode.Map("mig", strategy, "migManager", migManager, "devicePlugin", plugin))
	return File{Path: "gpu-operator/values.yaml", Data: b, Note: "Helm values"}, ws, err
}

// hamiSplit is how many pods HAMi lets onto one card: its default of 10, or as
// many as the fleet needs.
func (f *Fleet) hamiSplit() int {
	n := 10
	for i := range f.Groups {
		if g := &f.Groups[i]; g.Mechanism == sharing.MechanismHAMi || g.Mechanism == sharing.MechanismHAMiWithMPS {
			n = max(n, g.clients())
		}
	}
	return n
}

// hamiValues are the settings of HAMi's chart that the requests rely on.
func (f *Fleet) hamiValues() (File, error) {
	b, err := yamlnode.Encode([]string{"Values for HAMi's Helm chart.",
		"A memory scaling above 1 hands out more memory than there is."},
		yamlnode.Map("devicePlugin", yamlnode.Map("deviceSplitCount", f.hamiSplit(), "deviceMemoryScaling", 1, "deviceCoreScaling", 1)))
	return File{Path: "hami/values.yaml", Data: b, Note: "Helm values"}, err
}

// volcanoScheduler is the part of Volcano's scheduler configuration that vGPU
// needs.
func volcanoScheduler() (File, error) {
	b, err := yamlnode.Encode([]string{"Merge into volcano-scheduler.conf: the deviceshare plugin of one tier."},
		yamlnode.Map("tiers", yamlnode.List(yamlnode.Map("plugins", yamlnode.List(
			yamlnode.Map("name", "predicates"),
			yamlnode.Map("name", "deviceshare", "arguments", yamlnode.Map(
				"deviceshare.VGPUEnable", true, "deviceshare.SchedulePolicy", "binpack")))))))
	return File{Path: "volcano/scheduler.yaml", Data: b, Note: "for the volcano-scheduler-configmap"}, err
}
