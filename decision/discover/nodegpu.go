// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

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

// boardOf takes a GPU's name over from a resource, where nothing else gives it.
func (n *node) boardOf(name, key string) {
	if n.product == "" && name != "" {
		n.product, n.productFrom = name, derived("resource %s", key)
		n.gpu = lookupGPU(name, "", false)
	}
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
	for _, text := range []string{name, strings.TrimPrefix(name, "NVIDIA-"), strings.ReplaceAll(name, "-", " "),
		plainBoard(name)} {
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
