// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/sharing"
)

// pluginKeys are the keys that the device plugin (api/config/v1 at 1b826acc, version 0.20) acts on, without the numbers
// of list entries, and those above them.
var pluginKeys = func() map[string]bool {
	out := map[string]bool{}
	for under, names := range map[string]string{
		"": "version",
		"flags.": "migStrategy failOnInitError mpsRoot nvidiaDriverRoot nvidiaDevRoot gdrcopyEnabled gdsEnabled " +
			"mofedEnabled useNodeFeatureAPI deviceDiscoveryStrategy",
		"flags.plugin.": "passDeviceSpecs deviceListStrategy deviceIDStrategy cdiAnnotationPrefix nvidiaCTKPath " +
			"containerDriverRoot sharedDevicesAllocationPolicy",
		"flags.gfd.":                     "oneshot noTimestamp sleepInterval outputFile machineTypeFile",
		"imex.":                          "channelIDs required",
		"sharing.timeSlicing.":           "renameByDefault failRequestsGreaterThanOne",
		"sharing.mps.":                   "renameByDefault failRequestsGreaterThanOne",
		"sharing.timeSlicing.resources.": "name replicas",
		"sharing.mps.resources.":         "name replicas",
	} {
		for name := range strings.FieldsSeq(names) {
			for key := under + name; key != ""; key, _ = cutLast(key, '.') {
				out[key] = true
			}
		}
	}
	return out
}()

// ignoredKeys are keys that the plugin reads and does not act on, with the remedy.
var ignoredKeys = map[string]string{
	"resources":                            "remove it: the plugin has no custom resources",
	"flags.renameByDefault":                "move it into the sharing block",
	"flags.failRequestsGreaterThanOne":     "move it into the sharing block",
	"sharing.timeSlicing.resources.rename": "use renameByDefault",
	"sharing.mps.resources.rename":         "use renameByDefault",
	"sharing.timeSlicing.resources.devices": "every device of this name is replicated: give GPUs that are to be shared " +
		"differently a node pool of their own",
	"sharing.mps.resources.devices": "every device of this name is replicated: give GPUs that are to be shared " +
		"differently a node pool of their own",
}

// checkKeys reports the keys of a configuration that the plugin ignores silently. path is that of n, and key the same
// without the numbers of list entries.
func (c *Collector) checkKeys(p *pluginConfig, n *yaml.Node, path, key string) {
	switch n.Kind {
	case yaml.DocumentNode:
		c.checkKeys(p, n.Content[0], path, key)
	case yaml.SequenceNode:
		for i, item := range n.Content {
			c.checkKeys(p, item, fmt.Sprintf("%s[%d]", path, i), key)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			name := n.Content[i].Value
			at, below := strings.TrimPrefix(path+"."+name, "."), strings.TrimPrefix(key+"."+name, ".")
			remedy := ignoredKeys[below]
			switch {
			case pluginKeys[below]:
				c.checkKeys(p, n.Content[i+1], at, below)
				continue
			case remedy == "":
				remedy = "it knows no such key"
			}
			c.find("config-ignored", sharing.SeverityMedium, p.object, p.source, "%s: the plugin ignores it silently (%s)", at,
				remedy)
		}
	}
}

// refuse reports a reason for which the plugin does not start with a configuration.
func (c *Collector) refuse(p *pluginConfig, path, format string, args ...any) {
	p.refused = true
	c.find("config-refused", sharing.SeverityHigh, p.object, p.source, "%s: %s: the plugin does not start with it", path,
		fmt.Sprintf(format, args...))
}

// checkEffect compares the configuration that a node's label selects with the node's whole GPUs.
func (b *build) checkEffect(n *node) {
	key := n.label(labelPlugin)
	if key == "" || len(b.c.plugins) == 0 {
		return
	}
	all := b.c.plugins[key]
	if len(all) == 0 {
		b.find("config-missing", sharing.SeverityMedium, "node "+n.name, "label "+labelPlugin,
			"label %s selects %.60q, which no ConfigMap that was read has: the node has another configuration, or none",
			labelPlugin, key)
		return
	}
	has, m := n.replicas, n.mechanism
	if n.single != "" && len(n.inside) > 0 {
		has, m = n.inside[0].Pods, plain(n.inside[0].Mechanism)
	}
	for _, p := range all {
		if p.refused || n.offered == 0 || p.replicas == has && (has == 1 || p.mechanism == m) {
			return
		}
	}
	by := func(k int, m sharing.Mechanism) string {
		if k < 2 {
			return "1, whole"
		}
		return fmt.Sprintf("%d, by %v", k, m)
	}
	b.find("config-not-in-effect", sharing.SeverityMedium, "node "+n.name, all[0].source,
		"label %s selects %q of %s, in which %s has replicas: %s; the node offers %s: the configuration is not in effect",
		labelPlugin, key, all[0].object, resourceGPU, by(all[0].replicas, all[0].mechanism), by(has, m))
}
