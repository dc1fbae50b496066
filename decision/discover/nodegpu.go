package discover

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

// skuLabels name the GPU of a machine of Karpenter's or EKS's.
var skuLabels = []string{"karpenter.k8s.aws/instance-gpu-name", "eks.amazonaws.com/instance-gpu-name",
	"karpenter.azure.com/sku-gpu-name"}

// readProduct finds the GPU's model.
func (n *node) readProduct(b *build) {
	l := n.meta.Metadata.Labels
	text, from := l["nvidia.com/gpu.product"], "label nvidia.com/gpu.product"
	basis := BasisDeclared
	byMachine := func() {
		if model, ok := instanceModel(n.instanceType); ok {
			text, from, basis = model, fmt.Sprintf("label %s=%s is a machine with that GPU", n.typeFrom, n.instanceType),
				BasisDerived
		}
	}
	sku := slices.IndexFunc(skuLabels, func(key string) bool { return l[key] != "" })
	switch {
	case text != "":
	case l["cloud.google.com/gke-accelerator"] != "":
		accelerator := l["cloud.google.com/gke-accelerator"]
		text, from = cmp.Or(names().GKE[accelerator], accelerator), "label cloud.google.com/gke-accelerator"
	case sku >= 0:
		text, from = l[skuLabels[sku]], "label "+skuLabels[sku]
		byMachine() // a bare "a100" is several boards; the machine has one of them
	default:
		for _, d := range b.devices[n.name] {
			if d.product != "" {
				text, from = d.product, "ResourceSlice attribute productName"
				break
			}
		}
		for _, r := range n.registered {
			if text == "" && r.Type != "" {
				text, from = strings.TrimPrefix(r.Type, "NVIDIA-"),
					"annotation "+cmp.Or(map[bool]string{true: registerVolcano}[n.delivery == sharing.DeliveryVolcano], registerHAMi)
			}
		}
	}
	if text == "" { // of the MIG strategy "mixed": nvidia.com/mig-1g.10gb.product
		for _, key := range slices.Sorted(maps.Keys(l)) {
			if strings.HasPrefix(key, migPrefix) && strings.HasSuffix(key, ".product") && text == "" {
				text, _, _ = strings.Cut(l[key], "-MIG-")
				from = "label " + key
			}
		}
	}
	if text == "" {
		byMachine()
	}
	text = strings.TrimSuffix(text, "-SHARED")
	board, profile, single := strings.Cut(text, "-MIG-")
	if single {
		n.single = profile
	}
	n.product, n.productFrom = board, fact{basis, from}
	mib := cmp.Or(l["nvidia.com/gpu.memory"], l["karpenter.k8s.aws/instance-gpu-memory"],
		l["eks.amazonaws.com/instance-gpu-memory"])
	if n.gpu = lookupGPU(board, mib, single); n.gpu == nil && !single {
		n.describe(b, mib)
	}
}

// describe makes a GPU of what labels or the DRA driver's attributes say of one that the table does not have.
func (n *node) describe(b *build, mib string) {
	var unknown *sharing.UnknownGPUError
	if _, err := sharing.LookupGPU(n.product); !errors.As(err, &unknown) {
		return
	}
	l := n.meta.Metadata.Labels
	memory, capability := sharing.Bytes(count(mib))*sharing.MiB, l["nvidia.com/gpu.compute.major"]+"."+
		l["nvidia.com/gpu.compute.minor"]
	family := l["nvidia.com/gpu.family"]
	for _, d := range b.devices[n.name] {
		if d.kind == "gpu" {
			memory, capability, family = max(memory, d.memory), d.capability, strings.ToLower(d.architecture)
		}
	}
	var cc sharing.ComputeCapability
	var a sharing.Architecture
	_ = cc.UnmarshalText([]byte(capability)) // what is no capability describes nothing
	_ = a.UnmarshalText([]byte(strings.TrimSuffix(family, " lovelace")))
	if text := sharing.DescribeGPU(strings.ReplaceAll(strings.TrimPrefix(n.product, "NVIDIA-"), "-", " "), memory, cc,
		a); text != "" {
		n.gpu, _ = sharing.LookupGPU(text)
	}
}

// lookupGPU finds a GPU by the text of a label; nil where it is not known.
// Ambiguous names are settled by the memory that is labelled beside them.
func lookupGPU(name, mib string, single bool) *sharing.GPU {
	if name == "" {
		return nil
	}
	for _, text := range []string{name, strings.TrimPrefix(name, "NVIDIA-"), strings.ReplaceAll(name, "-", " ")} {
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

func (n *node) readMilli(b *build) {
	n.gpus = n.capacity(resourceMilli) / 1000
	n.whole, n.gpusFrom = n.gpus, derived("resource %s", resourceMilli)
	n.mechanism, n.mechanismFrom = sharing.MechanismTimeSlicing,
		derived("resource %s, and no label cotenant.dev/mechanism", resourceMilli)
	if text := n.label("cotenant.dev/mechanism"); text != "" {
		m, err := sharing.ParseMechanism(text)
		if err != nil || m == sharing.MechanismNone {
			b.find("label-unreadable", sharing.SeverityMedium, "node "+n.name, "label cotenant.dev/mechanism",
				"there is no mechanism %.40q", text)
			return
		}
		n.mechanism, n.mechanismFrom = m, declared("label cotenant.dev/mechanism")
	}
}

// ECC takes up to 7% of a board's memory, and the GPU table has some boards with it and some without.
func near(got, known sharing.Bytes) bool {
	return float64(got) >= 0.9*float64(known) && float64(got) <= 1.08*float64(known)
}
