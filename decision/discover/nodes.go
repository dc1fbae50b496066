// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// dnsName is a DNS subdomain, as Kubernetes names nodes.
var dnsName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

func (c *Collector) takeNode(file string, o *nodeObject) {
	switch name := o.Metadata.Name; {
	case name == "":
		c.trouble(file, "Node", "it has no name")
		return
	case !dnsName.MatchString(name):
		c.trouble(file, "Node", "%.60q is no name of a Node, which is a DNS subdomain: it is left out", name)
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
	n := b.newNode(o.Metadata.Name)
	n.meta, n.offers = o, amountsOf(o.Status.Allocatable, o.Status.Capacity)
	n.group, n.groupFrom = n.first(names().Groups...)
	n.instanceType, n.typeFrom = n.first("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
	n.devices = b.devices[n.name]
	n.readManagers(b)
	n.readOffers(b)
	n.readProduct(b)
	n.readDriver()
	switch {
	case len(n.devices) > 0 && n.offers[resourceGPU] == 0:
		n.readDevices(b)
	case len(n.registered) > 0:
		n.readRegistered(b)
	case n.offers[resourceMilli] > 0:
		n.readMilli(b)
	default:
		n.readPlugin(b)
	}
	n.readShares(b)
	n.readApart(b)
	if n.gpus > mostPerNode {
		n.find("label-lies/too-many", n.gpusFrom.Source, n.gpus)
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
		n.find("label-lies/replicas", n.mechanismFrom.Source, n.replicas)
		n.replicas = 1
	}
	b.checkNode(n)
	return n
}

// cordonHAMi is HAMi's annotation, from 2.10, of the GPUs of a node that take no new pods.
const cordonHAMi = "hami.io/device-cordon"

// readApart finds the GPUs of a node that take no new pods: cordoned, unhealthy, tainted.
func (n *node) readApart(b *build) {
	for text := range strings.SplitSeq(n.meta.Metadata.Annotations[cordonHAMi], ",") {
		if uuid := strings.TrimSpace(text); n.card(uuid) != nil {
			n.apartGPUs[uuid] = "cordoned"
		}
	}
	for _, d := range n.registered {
		if d.Healthy != nil && !*d.Healthy {
			n.apartGPUs[d.ID] = "not healthy"
		}
	}
	var apart []string
	for _, gpu := range sortedKeys(n.apartGPUs) {
		apart = append(apart, gpu+" ("+n.apartGPUs[gpu]+")")
	}
	if len(apart) > 0 {
		n.find("gpus-apart", "annotations and ResourceSlices", some(apart))
	}
}

// otherVendors begin the resources of the plugins of AMD and Intel.
var otherVendors = []string{"amd.com/", "gpu.intel.com/"}

func (b *build) otherVendor(n *node) {
	for _, key := range sortedKeys(n.meta.Status.Capacity) {
		if begins(key, otherVendors) {
			n.find("other-vendor", "resource "+key, n.meta.Status.Capacity[key], key)
		}
	}
}

// notCounted reports a node that has GPUs by some resource, where nothing gives their number.
func (b *build) notCounted(n *node) {
	var names []string
	for _, key := range n.others {
		if n.product != "" || gpuWord.MatchString(key) {
			names = append(names, key)
			b.others[key] = true
		}
	}
	if len(names) > 0 {
		n.find("gpus-not-counted", "resource "+names[0], some(names))
	}
}

func (b *build) checkNode(n *node) {
	object := "node " + n.name
	if v := n.number("nvidia.com/gpu.memory"); n.gpu != nil && n.single == "" && v > 0 {
		got := sharing.Bytes(v) * sharing.MiB
		if known := n.memory(); known > 0 && !near(got, known) {
			b.find("label-lies/memory", object, "label nvidia.com/gpu.memory", got, n.gpu.Name, known)
		}
	}
	if len(n.managers) > 1 {
		b.find("two-managers", object, n.deliveryFrom.Source, strings.Join(n.managers, " and "))
	}
	text, given := n.meta.Status.Allocatable["nvidia.com/gpu"]
	if healthy, all := count(text), n.offers[resourceGPU]; given && len(n.registered) == 0 && healthy < all {
		b.find("unhealthy-gpus", object, "status.allocatable", all-healthy, all)
	}
	b.checkEffect(n)
	if mps := n.mechanism == sharing.MechanismMPS && len(n.instances) > 0; mps ||
		slices.ContainsFunc(n.inside, func(in Inside) bool { return in.Mechanism == sharing.MechanismMIGWithMPS }) {
		b.find("mps-and-mig", object, "labels "+labelStrategy+" and "+migPrefix+"*.sharing-strategy")
	}
	if n.label(labelMIGState) == "failed" {
		b.find("mig-config-failed", object, "label "+labelMIGState, n.label(labelMIG))
	}
	if kinds := n.kinds(); len(kinds) > 1 {
		b.find("gpus-differ", object, n.productFrom.Source, some(kinds), n.product)
	}
	if b.checkGuest(object, n.product, n.productFrom.Source, n.label("nvidia.com/vgpu.present") == "true") {
		return
	}
	if n.gpu != nil && n.gpu.Source == "" {
		b.find("gpu-not-in-table", object, n.productFrom.Source, n.product)
	}
	if n.gpu == nil && n.product != "" {
		if _, err := sharing.LookupGPU(n.product); err != nil {
			b.find("gpu-unknown", object, n.productFrom.Source, strings.TrimPrefix(err.Error(), "sharing: "))
		}
	}
}

// checkGuest reports a GPU that is virtual: its machine's figures hold only inside.
func (b *build) checkGuest(object, product, source string, labelled bool) bool {
	v, ok := sharing.ParseVGPUType(product)
	if !ok && !labelled {
		return false
	}
	what := ""
	if ok {
		what = fmt.Sprintf(" %s, %v of a board %s", v.Name, v.Memory, v.Board)
	}
	if v.Slices > 0 {
		what += fmt.Sprintf(" as a MIG instance of %s", plaintext.Count(v.Slices, "slice"))
	}
	b.find("vgpu-guest", object, source, what)
	return true
}

// readProduct finds the GPU's model: by the first source that names it.
func (n *node) readProduct(b *build) {
	l := n.meta.Metadata.Labels
	text, found := "", declared("label nvidia.com/gpu.product")
	try := func(name string, from Provenance) {
		if text == "" && name != "" {
			text, found = name, from
		}
	}
	try(l["nvidia.com/gpu.product"], found)
	accelerator := l["cloud.google.com/gke-accelerator"]
	try(cmp.Or(names().GKE[accelerator], accelerator), declared("label cloud.google.com/gke-accelerator"))
	machine := derived("label %s=%s is a machine with that GPU", n.typeFrom, n.instanceType)
	if sku, from := n.first(names().SKUs...); sku != "" {
		try(instanceModel(n.instanceType), machine) // a bare "a100" is several boards; the machine has one of them
		try(sku, declared("label %s", from))
	}
	for _, vfio := range []bool{false, true} {
		for _, d := range n.devices {
			if (d.kind == "vfio") == vfio {
				try(d.product, declared("ResourceSlice attribute productName"))
			}
		}
	}
	for _, r := range n.registered {
		try(strings.TrimPrefix(r.Type, "NVIDIA-"), declared("annotation %s", registers[n.registry]))
	}
	for _, key := range sortedKeys(l) { // of the MIG strategy "mixed": nvidia.com/mig-1g.10gb.product
		if strings.HasPrefix(key, migPrefix) && strings.HasSuffix(key, ".product") {
			board, _, _ := strings.Cut(l[key], "-MIG-")
			try(board, declared("label %s", key))
		}
	}
	try(instanceModel(n.instanceType), machine)
	try(l["aliyun.accelerator/nvidia_name"], declared("label aliyun.accelerator/nvidia_name"))
	text = strings.TrimSuffix(text, "-SHARED")
	board, profile, single := strings.Cut(text, "-MIG-")
	if single {
		n.single = profile
	} else if partition := l["cloud.google.com/gke-gpu-partition-size"]; l["nvidia.com/gpu.product"] == "" {
		n.single = partition
	}
	n.product, n.productFrom = board, found
	mib, _ := n.first("nvidia.com/gpu.memory", "karpenter.k8s.aws/instance-gpu-memory",
		"eks.amazonaws.com/instance-gpu-memory")
	if n.gpu = lookupGPU(board, mib, single); n.gpu == nil && !single {
		n.describe(mib)
	}
}

var (
	bracketed = regexp.MustCompile(`\[(.+)\]`)
	chipFirst = regexp.MustCompile(`^[A-Z]{2}\d{3}[A-Z]{0,3} `)
)

// plainBoard is the name of a GPU from a name of the PCI database: "GH100 [H100 SXM5 80GB]".
func plainBoard(name string) string {
	if m := bracketed.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return chipFirst.ReplaceAllString(name, "")
}

// describe makes a GPU that is not in the table from labels, or from attributes of the DRA driver.
func (n *node) describe(mib string) {
	if _, err := sharing.LookupGPU(n.product); !errors.Is(err, sharing.ErrUnknownGPU) {
		return
	}
	l := n.meta.Metadata.Labels
	memory, capability := sharing.Bytes(count(mib))*sharing.MiB, l["nvidia.com/gpu.compute.major"]+"."+
		l["nvidia.com/gpu.compute.minor"]
	family := l["nvidia.com/gpu.family"]
	for _, d := range n.devices {
		if d.kind == "gpu" {
			memory, capability = max(memory, d.memory), strings.TrimSuffix(d.get("cudaComputeCapability"), ".0")
			family = strings.ToLower(d.get("architecture"))
		}
	}
	for i := range n.registered {
		if memory == 0 { // scaled where HAMi is configured to overcommit
			memory = sharing.Bytes(n.registered[i].Memory) * sharing.MiB
		}
	}
	var cc sharing.ComputeCapability
	var a sharing.Architecture
	_ = cc.UnmarshalText([]byte(capability)) // an invalid one is left zero
	_ = a.UnmarshalText([]byte(strings.TrimSuffix(family, " lovelace")))
	name := strings.ReplaceAll(strings.TrimPrefix(n.product, "NVIDIA-"), "-", " ")
	if v, ok := sharing.ParseVGPUType(n.product); ok {
		name = v.Name
	}
	if text := sharing.DescribeGPU(name, memory, cc, a); text != "" {
		n.gpu, _ = sharing.LookupGPU(text)
	}
}

// lookupGPU finds a GPU by the text of a label, and among several of one name by the labelled memory; nil where it is
// not known.
func lookupGPU(name, mib string, single bool) *sharing.GPU {
	if name == "" {
		return nil
	}
	for _, text := range []string{name, plainBoard(name)} {
		if gpu, err := sharing.LookupGPU(text); err == nil {
			return gpu
		}
	}
	v, err := strconv.Atoi(mib)
	if err != nil || single {
		return nil
	}
	var found []*sharing.GPU
	_, err = sharing.LookupGPU(name)
	for _, match := range ambiguous(err) {
		gpu, _ := sharing.LookupGPU(match)
		if known, ok := gpu.Memory.Get(); ok && near(sharing.Bytes(v)*sharing.MiB, known) {
			found = append(found, gpu)
		}
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
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
