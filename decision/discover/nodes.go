// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"regexp"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// dnsName is a DNS subdomain, as Kubernetes names nodes.
var dnsName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// takeNode keeps a node that may have GPUs.
func (c *Collector) takeNode(file string, o *nodeObject) {
	if o.Metadata.Name == "" {
		c.trouble(file, "Node", "it has no name")
		return
	}
	if !dnsName.MatchString(o.Metadata.Name) {
		c.trouble(file, "Node", fmt.Sprintf("%.60q is no name of a Node, which is a DNS subdomain: it is left out",
			o.Metadata.Name))
		return
	}
	for key, text := range o.Metadata.Labels {
		o.Metadata.Labels[key] = plaintext.Show(oneLine(text))
	}
	if had, ok := c.nodes[o.Metadata.Name]; ok {
		c.sameObject(file, "Node "+o.Metadata.Name, had.Metadata.UID, o.Metadata.UID)
		return
	}
	if name := cmp.Or(o.Metadata.Labels["alpha.eksctl.io/cluster-name"],
		o.Metadata.Labels["kubernetes.azure.com/cluster"]); name != "" {
		c.clusters[name] = append(c.clusters[name], o.Metadata.Name)
	}
	c.nodes[o.Metadata.Name] = o
}

// readNode reads a node's labels, annotations and resources. It returns nil for a node without NVIDIA GPUs.
func (b *build) readNode(o *nodeObject) *node {
	n := &node{name: o.Metadata.Name, meta: o, replicas: 1, mechanism: sharing.MechanismExclusive,
		instances: map[string]int{}, apartGPUs: map[string]string{}, opaque: map[string][]string{}}
	n.group, n.groupFrom = n.first(names().Groups...)
	n.instanceType, n.typeFrom = n.first("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
	n.devices = b.devices[n.name]
	n.readManagers(b)
	n.readOffers(b)
	n.readProduct(b)
	n.readDriver()
	switch {
	case len(n.devices) > 0 && n.capacity(resourceGPU) == 0:
		n.readDevices(b)
	case len(n.registered) > 0:
		n.readRegistered(b)
	case n.capacity(resourceMilli) > 0:
		n.readMilli(b)
	default:
		n.readPlugin(b)
	}
	n.readShares(b)
	n.readApart(b)
	if n.gpus > mostPerNode {
		b.find("label-lies/too-many", "node "+n.name, n.gpusFrom.Source, n.gpus)
		return nil
	}
	if n.gpus == 0 {
		b.otherVendor(n)
		b.notCounted(n)
		return nil
	}
	switch {
	case !o.ready():
		n.apart = "not ready"
	case o.Spec.Unschedulable:
		n.apart = "cordoned"
	}
	if n.replicas > mostReplicas {
		b.find("label-lies/replicas", "node "+n.name, n.mechanismFrom.Source, n.replicas)
		n.replicas = 1
	}
	b.checkNode(n)
	return n
}
