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
	"time"

	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// fact names the source of a figure.
type fact = Provenance

func declared(format string, args ...any) fact {
	return fact{basisDeclared, fmt.Sprintf(format, args...)}
}
func derived(format string, args ...any) fact {
	return fact{basisDerived, fmt.Sprintf(format, args...)}
}
func guessed(format string, args ...any) fact { return fact{basisGuess, fmt.Sprintf(format, args...)} }

// node holds the known facts of a Kubernetes node with GPUs, or of a machine by its driver.
type node struct {
	name string
	meta *nodeObject // nil for machines that no Node describes

	group, groupFrom       string // node pool
	instanceType, typeFrom string
	product                string // as it was read
	gpu                    *sharing.GPU
	productFrom            fact
	driver                 sharing.Driver
	driverFrom             fact
	delivery               sharing.Delivery
	deliveryFrom           fact
	gpus                   int // physical
	gpusFrom               fact
	mechanism              sharing.Mechanism // of the GPUs that are not in MIG mode
	mechanismFrom          fact
	replicas               int // of a shared GPU; 1 = whole
	replicasFrom           string
	whole                  int            // GPUs that are not in MIG mode
	inMIG                  int            // GPUs in MIG mode
	instances              map[string]int // MIG instances by profile
	single                 string         // the profile of nvidia.com/gpu under the MIG strategy single
	layoutsFrom            fact
	layouts                []string // exact, of the GPUs in MIG mode
	uuids                  []string
	pids                   map[uint32]bool     // processes that were counted, of a machine
	apart                  string              // why no pod is placed on it: cordoned, not ready
	apartGPUs              map[string]string   // GPUs that take no new pods, and why
	devices                []*device           // of DRA
	managers               []string            // that hand out its GPUs
	resource               string              // by which pods ask for GPUs that are not in MIG mode
	offered                int                 // of it, by the device plugin
	registry               sharing.Delivery    // HAMi or Volcano, where one of them hands out its GPUs
	registered             []manifest.HAMiGPU  // with it
	countName              string              // the resource of HAMi's count of GPUs, where it is renamed
	inside                 []Inside            // MIG instances that pods share
	others                 []string            // resources that it offers and that are not understood
	opaque                 map[string][]string // pods by resource that is not understood
	closed                 string              // why its free devices are not known, or not for all pods
	pods                   []*pod              // that run there
}

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
	for _, s := range o.Status.Conditions {
		c.seen(s.At)
	}
}

// seen notes a time at which the cluster was as the objects say: the latest is about that of the dump.
func (c *Collector) seen(at time.Time) {
	if at.After(c.at) {
		c.at = at
	}
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
		b.find("label-lies", sharing.SeverityHigh, "node "+n.name, n.gpusFrom.Source,
			"%d GPUs are more than a node has; it is left out", n.gpus)
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
		b.find("label-lies", sharing.SeverityHigh, "node "+n.name, n.mechanismFrom.Source,
			"%d replicas of a GPU are more than any component hands out; the number is not used", n.replicas)
		n.replicas = 1
	}
	b.checkNode(n)
	return n
}

// otherVendors begin the resources of the plugins of AMD and Intel.
var otherVendors = []string{"amd.com/", "gpu.intel.com/"}

// otherVendor reports the GPUs of AMD and Intel on a node.
func (b *build) otherVendor(n *node) {
	for _, key := range sortedKeys(n.meta.Status.Capacity) {
		if begins(key, otherVendors) {
			b.find("other-vendor", sharing.SeverityInfo, "node "+n.name, "resource "+key,
				"offers %s of %s, of another vendor: they are left out", n.meta.Status.Capacity[key], key)
		}
	}
}

// Numbers beyond these are mistakes.
const (
	mostPerNode  = 1024
	mostReplicas = 10_000
	mostPods     = 100_000
	mostMemory   = 16 * sharing.TiB
)

// sharers is the number of replicas of a GPU, 0 of a whole one.
func (n *node) sharers() int {
	if n.replicas > 1 {
		return n.replicas
	}
	return 0
}

// labelsOfGKE are GKE's names of labels of GPU Feature Discovery; gpuSharing of a ComputeClass sets the same ones, from
// 1.35.2.
var labelsOfGKE = map[string]string{labelReplicas: "cloud.google.com/gke-max-shared-clients-per-gpu",
	labelStrategy: "cloud.google.com/gke-gpu-sharing-strategy"}

// label is the value of a label, by GKE's name for it where the node has not the other.
func (n *node) label(key string) string {
	v, _ := n.first(key, labelsOfGKE[key])
	return v
}

// from names the label that label reads.
func (n *node) from(key string) string {
	_, has := n.first(key, labelsOfGKE[key])
	return "label " + cmp.Or(has, key)
}

// first is the value of the first of the labels that the node has, and that label.
func (n *node) first(keys ...string) (value, key string) {
	for _, key := range keys {
		if n.meta != nil && n.meta.Metadata.Labels[key] != "" {
			return n.meta.Metadata.Labels[key], key
		}
	}
	return "", ""
}

// capacity returns the amount that the node offered of a resource with all devices healthy.
func (n *node) capacity(name string) int {
	if text, ok := n.meta.Status.Capacity[name]; ok {
		return count(text)
	}
	return count(n.meta.Status.Allocatable[name])
}

// count reads a number of devices; 0 where it is none.
func count(text string) int {
	scale := 1
	if s, ok := strings.CutSuffix(text, "k"); ok {
		text, scale = s, 1000
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < 0 || v > 1<<20 {
		return 0
	}
	return v * scale
}

// number reads a label that must be a whole number.
func (n *node) number(b *build, key string) (int, bool) {
	text := n.label(key)
	if text == "" {
		return 0, false
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < 0 || v > 1<<30 {
		b.find("label-unreadable", sharing.SeverityMedium, "node "+n.name, n.from(key),
			"%s is %.40q, not a number; it is not used", n.from(key), text)
		return 0, false
	}
	return v, true
}

const (
	registerHAMi    = "hami.io/node-nvidia-register"
	registerVolcano = "volcano.sh/node-vgpu-register"
)

// readManagers finds the components that hand out the node's GPUs.
func (n *node) readManagers(b *build) {
	a, l := n.meta.Metadata.Annotations, n.meta.Metadata.Labels
	add := func(d sharing.Delivery, name string, from fact) {
		n.managers = append(n.managers, name)
		n.delivery, n.deliveryFrom = d, from
	}
	for _, r := range []struct {
		key  string
		d    sharing.Delivery
		name string
	}{{registerHAMi, sharing.DeliveryHAMi, "HAMi"}, {registerVolcano, sharing.DeliveryVolcano, "Volcano"}} {
		text, ok := a[r.key]
		if !ok {
			continue
		}
		devices, err := manifest.ParseHAMiRegister(text)
		if err != nil {
			b.find("annotation-unreadable", sharing.SeverityMedium, "node "+n.name, "annotation "+r.key, "annotation %s: %v",
				r.key, err)
		}
		if len(devices) > 0 {
			n.registered, n.registry = devices, r.d
			add(r.d, r.name, declared("annotation %s", r.key))
		}
	}
	if n.registry == sharing.DeliveryBare && n.capacity("volcano.sh/vgpu-number") > 0 {
		n.registry = sharing.DeliveryVolcano
		add(n.registry, "Volcano", declared("resource volcano.sh/vgpu-number"))
		b.find("register-missing", sharing.SeverityMedium, "node "+n.name, "annotation "+registerVolcano,
			"offers volcano.sh/vgpu-number and lacks the annotation %s: which GPUs it shares, and their memory, is not known, "+
				"and Volcano's scheduler places nothing there", registerVolcano)
	}
	plugin := n.capacity(resourceGPU) > 0 || n.capacity(resourceShared) > 0 ||
		slices.ContainsFunc(sortedKeys(n.amounts()), func(key string) bool { return strings.HasPrefix(key, migPrefix) })
	if len(n.devices) > 0 {
		add(sharing.DeliveryDRA, "the DRA driver", declared("ResourceSlice of gpu.nvidia.com"))
	}
	if plugin && !slices.Contains(n.managers, "HAMi") {
		d, from := sharing.DeliveryDevicePlugin, declared("resource nvidia.com/*")
		for _, key := range slices.Sorted(maps.Keys(l)) {
			if strings.HasPrefix(key, "nvidia.com/gpu.deploy.") || key == mig.LabelConfigState { // of the operator's MIG manager
				d, from = sharing.DeliveryGPUOperator, declared("label %s", key)
				break
			}
		}
		n.managers = append(n.managers, "the device plugin")
		if n.delivery == sharing.DeliveryBare {
			n.delivery, n.deliveryFrom = d, from
		}
	}
}

func (n *node) readDriver() {
	l := n.meta.Metadata.Labels
	text, from := l["nvidia.com/cuda.driver-version.full"], "label nvidia.com/cuda.driver-version.full"
	if text == "" {
		from = "labels nvidia.com/cuda.driver.*"
		text = strings.TrimRight(l["nvidia.com/cuda.driver.major"]+"."+l["nvidia.com/cuda.driver.minor"]+"."+
			l["nvidia.com/cuda.driver.rev"], ".")
	}
	if d, err := sharing.ParseDriver(text); err == nil {
		n.driver, n.driverFrom = d, declared("%s", from)
	}
}

// resourceMilli is thousandths of a GPU, as this repository's scheduler hands them out.
const resourceMilli = "cotenant.dev/gpu-milli"
