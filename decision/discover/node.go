package discover

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// fact says where a figure comes from.
type fact = Provenance

func declared(format string, args ...any) fact {
	return fact{BasisDeclared, fmt.Sprintf(format, args...)}
}
func derived(format string, args ...any) fact {
	return fact{BasisDerived, fmt.Sprintf(format, args...)}
}
func guessed(format string, args ...any) fact { return fact{BasisGuess, fmt.Sprintf(format, args...)} }

// node is what is known of a Kubernetes node with GPUs, or of a machine whose
// nvidia-smi output was given.
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
	replicas               int            // of a shared GPU; 1 = whole
	whole                  int            // GPUs that are not in MIG mode
	inMIG                  int            // GPUs in MIG mode
	instances              map[string]int // MIG instances by profile
	single                 string         // the profile that nvidia.com/gpu stands for
	layouts                []string       // exact, of the GPUs in MIG mode
	uuids                  []string
	devices                map[string]*device // of DRA, by name
	managers               []string           // who hands out its GPUs
	offered                int                // of nvidia.com/gpu or gpu.shared
	registered             []hamiDevice
}

// takeNode keeps a node that may have GPUs.
func (c *Collector) takeNode(file string, o *nodeObject) {
	if o.Metadata.Name == "" {
		c.trouble(file, "Node", "it has no name")
		return
	}
	if had, ok := c.nodes[o.Metadata.Name]; ok {
		c.sameObject(file, "Node "+o.Metadata.Name, had.Metadata.UID, o.Metadata.UID)
		return
	}
	if name := cmp.Or(o.Metadata.Labels["alpha.eksctl.io/cluster-name"], o.Metadata.Labels["kubernetes.azure.com/cluster"]); name != "" {
		c.clusters[name] = append(c.clusters[name], o.Metadata.Name)
	}
	c.nodes[o.Metadata.Name] = o
}

// groupLabels name the node pool or group that a node belongs to: GKE, EKS,
// eksctl, AKS, Karpenter.
var groupLabels = []string{"cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name", "kubernetes.azure.com/agentpool", "agentpool", "karpenter.sh/nodepool"}

// readNode reads what a node's labels, annotations and resources say.
func (b *build) readNode(o *nodeObject) *node {
	n := &node{name: o.Metadata.Name, meta: o, replicas: 1, mechanism: sharing.MechanismExclusive, instances: map[string]int{}}
	l := o.Metadata.Labels
	for _, key := range groupLabels {
		if l[key] != "" {
			n.group, n.groupFrom = l[key], key
			break
		}
	}
	for _, key := range []string{"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"} {
		if n.instanceType == "" && l[key] != "" {
			n.instanceType, n.typeFrom = l[key], key
		}
	}
	n.readManagers(b)
	n.readProduct(b)
	n.readDriver()
	switch {
	case len(b.devices[n.name]) > 0 && n.capacity("nvidia.com/gpu") == 0:
		n.readDevices(b)
	case len(n.registered) > 0:
		n.readRegistered(b)
	case l["cloud.google.com/gke-accelerator"] != "" && l["nvidia.com/gpu.product"] == "":
		n.readGKE(b)
	default:
		n.readPlugin(b)
	}
	if n.gpus == 0 {
		return nil
	}
	b.checkNode(n)
	return n
}

func (n *node) label(key string) string {
	if n.meta == nil {
		return ""
	}
	return n.meta.Metadata.Labels[key]
}

// capacity is what the node offered of a resource with all devices healthy.
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
	text, ok := n.meta.Metadata.Labels[key]
	if !ok {
		return 0, false
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < 0 || v > 1<<30 {
		b.find("label-unreadable", sharing.SeverityMedium, "node "+n.name, "label "+key, "label %s is %.40q, not a number; it is not used", key, text)
		return 0, false
	}
	return v, true
}

const (
	registerHAMi    = "hami.io/node-nvidia-register"
	registerVolcano = "volcano.sh/node-vgpu-register"
)

// readManagers finds who hands out the node's GPUs.
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
		devices, err := parseRegister(text)
		if err != nil {
			b.find("annotation-unreadable", sharing.SeverityMedium, "node "+n.name, "annotation "+r.key, "annotation %s: %v", r.key, err)
		}
		if len(devices) > 0 {
			n.registered = devices
			add(r.d, r.name, declared("annotation %s", r.key))
		}
	}
	plugin := n.capacity("nvidia.com/gpu") > 0 || n.capacity("nvidia.com/gpu.shared") > 0 || len(n.migResources()) > 0
	if len(b.devices[n.name]) > 0 {
		add(sharing.DeliveryDRA, "the DRA driver", declared("ResourceSlice of gpu.nvidia.com"))
	}
	if plugin && !slices.Contains(n.managers, "HAMi") {
		d, from := sharing.DeliveryDevicePlugin, declared("resource nvidia.com/*")
		for _, key := range slices.Sorted(maps.Keys(l)) {
			if strings.HasPrefix(key, "nvidia.com/gpu.deploy.") {
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

// readProduct finds the GPU's model.
func (n *node) readProduct(b *build) {
	l := n.meta.Metadata.Labels
	text, from := l["nvidia.com/gpu.product"], "label nvidia.com/gpu.product"
	basis := BasisDeclared
	switch {
	case text != "":
	case l["cloud.google.com/gke-accelerator"] != "":
		text, from = gkeModels[l["cloud.google.com/gke-accelerator"]], "label cloud.google.com/gke-accelerator"
		if text == "" {
			text = l["cloud.google.com/gke-accelerator"]
		}
	default:
		for _, d := range b.devices[n.name] {
			if d.product != "" {
				text, from = d.product, "ResourceSlice attribute productName"
				break
			}
		}
		for _, r := range n.registered {
			if text == "" && r.Type != "" {
				text, from = strings.TrimPrefix(r.Type, "NVIDIA-"), "annotation "+cmp.Or(map[bool]string{true: registerVolcano}[n.delivery == sharing.DeliveryVolcano], registerHAMi)
			}
		}
	}
	if text == "" {
		if model, ok := instanceModel(n.instanceType); ok {
			text, from, basis = model, fmt.Sprintf("label %s=%s is a machine with that GPU", n.typeFrom, n.instanceType), BasisDerived
		}
	}
	text = strings.TrimSuffix(text, "-SHARED")
	board, profile, single := strings.Cut(text, "-MIG-")
	if single {
		n.single = profile
	}
	n.product, n.productFrom = board, fact{basis, from}
	n.gpu = lookupGPU(board, l["nvidia.com/gpu.memory"], single)
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
	var found *sharing.GPU
	for _, gpu := range candidates(name) {
		known, ok := gpu.Memory.Get()
		if !ok || !near(sharing.Bytes(v)*sharing.MiB, known) {
			continue
		}
		if found != nil {
			return nil
		}
		found = gpu
	}
	return found
}

// candidates are the boards that an ambiguous name may mean.
func candidates(name string) []*sharing.GPU {
	var out []*sharing.GPU
	_, err := sharing.LookupGPU(name)
	for _, match := range ambiguous(err) {
		if gpu, err := sharing.LookupGPU(match); err == nil {
			out = append(out, gpu)
		}
	}
	return out
}

func (n *node) readDriver() {
	l := n.meta.Metadata.Labels
	text, from := l["nvidia.com/cuda.driver-version.full"], "label nvidia.com/cuda.driver-version.full"
	if text == "" && l["nvidia.com/cuda.driver.major"] != "" {
		from = "labels nvidia.com/cuda.driver.*"
		text = l["nvidia.com/cuda.driver.major"]
		for _, part := range []string{l["nvidia.com/cuda.driver.minor"], l["nvidia.com/cuda.driver.rev"]} {
			if part == "" {
				break
			}
			text += "." + part
		}
	}
	if d, err := sharing.ParseDriver(text); err == nil {
		n.driver, n.driverFrom = d, declared("%s", from)
	}
}

const migPrefix = "nvidia.com/mig-"

// migResources are the MIG instances that the node offers, by profile.
func (n *node) migResources() map[string]int {
	out := map[string]int{}
	for _, list := range []quantities{n.meta.Status.Allocatable, n.meta.Status.Capacity} {
		for key, text := range list {
			if profile, ok := strings.CutPrefix(key, migPrefix); ok && count(text) > 0 {
				profile, _ = strings.CutSuffix(profile, ".shared")
				out[profileName(profile)] = max(out[profileName(profile)], count(text))
			}
		}
	}
	return out
}

// profileName undoes what resource names do to profiles: "1g.10gb.me" is
// 1g.10gb+me.
func profileName(s string) string {
	for _, suffix := range []string{".me.all", ".me", ".gfx"} {
		if base, ok := strings.CutSuffix(s, suffix); ok {
			return base + "+" + strings.TrimPrefix(suffix, ".")
		}
	}
	return s
}

// readPlugin reads a node of the device plugin and GPU Feature Discovery.
func (n *node) readPlugin(b *build) {
	resource := "nvidia.com/gpu"
	if n.capacity("nvidia.com/gpu.shared") > 0 {
		resource = "nvidia.com/gpu.shared"
	}
	n.offered = n.capacity(resource)
	n.instances = n.migResources()
	labelled, stated := n.number(b, "nvidia.com/gpu.count")
	from := declared("label nvidia.com/gpu.count")
	switch {
	case n.single != "":
		n.readSingle(b, labelled)
		return
	case len(n.instances) > 0:
		n.whole = n.offered / max(1, n.readReplicas(b, resource))
		n.inMIG, from = n.gpusForInstances(b, labelled-n.whole, from)
		n.gpus, n.gpusFrom = n.whole+n.inMIG, from
		if stated && labelled >= n.whole+n.inMIG {
			n.gpus, n.gpusFrom, n.inMIG = labelled, declared("label nvidia.com/gpu.count"), labelled-n.whole
		}
		return
	case n.offered == 0:
		if stated && labelled > 0 && n.label("nvidia.com/gpu.present") == "true" {
			// GFD runs and the plugin does not offer anything.
			n.gpus, n.whole, n.gpusFrom = labelled, labelled, from
			b.find("gpus-not-offered", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/gpu.count", "has %d GPUs by its labels and offers none: no pod can use them", labelled)
		}
		return
	}
	replicas := n.readReplicas(b, resource)
	n.gpus, n.gpusFrom = n.offered/replicas, derived("resource %s", resource)
	if replicas > 1 {
		n.gpusFrom = derived("resource %s divided by label nvidia.com/gpu.replicas", resource)
	}
	if n.offered%replicas != 0 {
		b.find("label-lies", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/gpu.replicas",
			"offers %d of %s, which is no multiple of the %d replicas that label nvidia.com/gpu.replicas says", n.offered, resource, replicas)
		n.gpus = (n.offered + replicas - 1) / replicas
	}
	if stated && labelled > 0 {
		if labelled != n.gpus {
			b.find("label-lies", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/gpu.count",
				"offers %d of %s: with %d replica(s) a GPU that is %d GPUs, and label nvidia.com/gpu.count says %d; what is offered is used", n.offered, resource, replicas, n.gpus, labelled)
		} else {
			n.gpusFrom = from
		}
	}
	n.whole = n.gpus
}

// readReplicas reads how the GPUs that are not in MIG mode are shared, and how
// many replicas one has.
func (n *node) readReplicas(b *build, resource string) int {
	replicas, stated := n.number(b, "nvidia.com/gpu.replicas")
	if !stated || replicas == 0 {
		replicas = 1
	}
	strategy := n.label("nvidia.com/gpu.sharing-strategy")
	shared := strings.HasSuffix(n.label("nvidia.com/gpu.product"), "-SHARED") || resource == "nvidia.com/gpu.shared"
	capable := n.label("nvidia.com/mps.capable")
	n.mechanismFrom = declared("label nvidia.com/gpu.sharing-strategy")
	switch {
	case strategy == "mps":
		n.mechanism = sharing.MechanismMPS
	case strategy == "time-slicing":
		n.mechanism = sharing.MechanismTimeSlicing
	case strategy != "" && strategy != "none":
		b.find("label-unreadable", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/gpu.sharing-strategy", "there is no sharing strategy %.40q", strategy)
	case strategy == "" && (shared || replicas > 1):
		n.mechanism, n.mechanismFrom = sharing.MechanismTimeSlicing, declared("label nvidia.com/gpu.replicas")
		if capable == "true" {
			n.mechanism, n.mechanismFrom = sharing.MechanismMPS, declared("label nvidia.com/mps.capable")
		}
	case strategy == "":
		n.mechanismFrom = derived("no label says that it is shared")
	}
	if strategy == "none" && replicas > 1 {
		b.find("replicas-without-sharing", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/gpu.sharing-strategy",
			"label nvidia.com/gpu.replicas says %d and nvidia.com/gpu.sharing-strategy says none: replicas without sharing; it is taken for whole GPUs", replicas)
		if labelled := count(n.label("nvidia.com/gpu.count")); labelled*replicas != n.capacity(resource) {
			replicas = 1
		}
	}
	if n.mechanism == sharing.MechanismMPS && capable == "false" {
		b.find("mps-not-capable", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/mps.capable", "shares by MPS and label nvidia.com/mps.capable says false: the control daemon does not run")
	}
	if n.mechanism == sharing.MechanismMPS && (len(n.instances) > 0 || n.single != "") {
		b.find("mps-and-mig", sharing.SeverityHigh, "node "+n.name, "label nvidia.com/gpu.sharing-strategy", "MPS and MIG together: the device plugin refuses MPS on MIG devices")
	}
	if n.mechanism != sharing.MechanismExclusive && replicas < 2 {
		b.find("sharing-without-replicas", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/gpu.replicas", "GPUs are shared by %v, and label nvidia.com/gpu.replicas does not say among how many", n.mechanism)
	}
	n.replicas = replicas
	return replicas
}

// readSingle reads a node under the MIG strategy "single": nvidia.com/gpu are
// instances, and so are the GPUs that the labels count.
func (n *node) readSingle(b *build, labelled int) {
	n.readReplicas(b, "nvidia.com/gpu")
	offered := n.offered / n.replicas
	if n.replicas > 1 {
		b.find("mig-instances-shared", sharing.SeverityLow, "node "+n.name, "label nvidia.com/gpu.replicas", "each MIG instance is shared by %d pods", n.replicas)
	}
	if n.single == "INVALID" {
		b.find("mig-invalid", sharing.SeverityHigh, "node "+n.name, "label nvidia.com/gpu.product", "the MIG layout does not suit the strategy \"single\": nothing can be placed")
	} else {
		n.instances[n.single] = offered
	}
	if s := n.label("nvidia.com/mig.strategy"); s != "" && s != "single" {
		b.find("label-lies", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/mig.strategy", "label nvidia.com/gpu.product names a MIG profile and nvidia.com/mig.strategy says %q", s)
	}
	n.inMIG, n.gpusFrom = n.gpusForInstances(b, 0, fact{})
	if labelled > 0 && labelled != offered && labelled >= n.inMIG && labelled < offered {
		n.inMIG, n.gpusFrom = labelled, declared("label nvidia.com/gpu.count")
	}
	n.gpus = n.inMIG
}

// gpusForInstances is how many GPUs hold the node's MIG instances: what a label
// says, or the fewest that can, packed exactly.
func (n *node) gpusForInstances(b *build, stated int, from fact) (int, fact) {
	if stated > 0 {
		return stated, from
	}
	model := n.model()
	if model == nil {
		b.find("mig-model-unknown", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/gpu.product", "has MIG instances, and no MIG profiles are known of %.60q", n.product)
		return max(1, stated), derived("MIG instances on a GPU whose profiles are not known: at least one GPU")
	}
	p, err := model.Pack(counts(n.instances))
	if err != nil {
		b.find("label-lies", sharing.SeverityHigh, "node "+n.name, "resources "+migPrefix+"*", "offers MIG instances that its GPUs cannot have: %v", err)
		return max(1, stated), derived("MIG instances: at least one GPU")
	}
	return p.GPUs, derived("the fewest GPUs that hold its MIG instances")
}

func counts(instances map[string]int) []mig.Count {
	var out []mig.Count
	for _, profile := range slices.Sorted(maps.Keys(instances)) {
		out = append(out, mig.Count{Profile: profile, N: instances[profile]})
	}
	return out
}

// model is the GPU's model in the MIG catalogue, nil where there is none.
func (n *node) model() *mig.Model {
	name := n.product
	if n.gpu != nil {
		name = n.gpu.Name
	}
	m, err := mig.Lookup(name)
	if err != nil || !m.PlacementsKnown() {
		return nil
	}
	return m
}

// gkeModels are the names that GKE's label gives GPUs.
var gkeModels = map[string]string{
	"nvidia-tesla-t4": "Tesla T4", "nvidia-tesla-v100": "Tesla V100-SXM2-16GB", "nvidia-tesla-p100": "Tesla P100-PCIE-16GB", "nvidia-l4": "L4",
	"nvidia-tesla-a100": "A100-SXM4-40GB", "nvidia-a100-80gb": "A100-SXM4-80GB", "nvidia-h100-80gb": "H100 80GB HBM3", "nvidia-h100-mega-80gb": "H100 80GB HBM3",
	"nvidia-h200-141gb": "H200", "nvidia-b200": "B200",
}

// readGKE reads a node of GKE, which labels sharing and partitions itself.
func (n *node) readGKE(b *build) {
	n.readPlugin(b)
	offered := n.offered
	partition := n.label("cloud.google.com/gke-gpu-partition-size")
	each := count(n.label("cloud.google.com/gke-max-shared-clients-per-gpu"))
	if each > 1 && offered%each == 0 {
		offered /= each
		n.replicas = each
		n.mechanism, n.mechanismFrom = sharing.MechanismTimeSlicing, declared("label cloud.google.com/gke-max-shared-clients-per-gpu")
		if n.label("cloud.google.com/gke-gpu-sharing-strategy") == "mps" {
			n.mechanism, n.mechanismFrom = sharing.MechanismMPS, declared("label cloud.google.com/gke-gpu-sharing-strategy")
		}
		n.gpus, n.whole = offered, offered
		n.gpusFrom = derived("resource nvidia.com/gpu divided by label cloud.google.com/gke-max-shared-clients-per-gpu")
	}
	if partition != "" && offered > 0 {
		n.single, n.instances = partition, map[string]int{partition: offered}
		n.inMIG, n.gpusFrom = n.gpusForInstances(b, 0, fact{})
		n.gpus, n.whole = n.inMIG, 0
	}
}

// ECC takes up to 7% of a board's memory, and the GPU table has some boards with
// it and some without.
func near(got, known sharing.Bytes) bool {
	return float64(got) >= 0.9*float64(known) && float64(got) <= 1.08*float64(known)
}

// checkNode looks for what a node's labels say wrongly.
func (b *build) checkNode(n *node) {
	object := "node " + n.name
	if v, ok := n.number(b, "nvidia.com/gpu.memory"); ok && n.gpu != nil && n.single == "" && v > 0 {
		got := sharing.Bytes(v) * sharing.MiB
		if known, ok := n.gpu.Memory.Get(); ok && !near(got, known) {
			b.find("label-lies", sharing.SeverityHigh, object, "label nvidia.com/gpu.memory", "label nvidia.com/gpu.memory says %v, and no %s has that: it has %v", got, n.gpu.Name, known)
		}
	}
	if len(n.managers) > 1 {
		b.find("two-managers", sharing.SeverityHigh, object, n.deliveryFrom.Source, "%s hand out its GPUs: each gives away what the other has given", strings.Join(n.managers, " and "))
	}
	if healthy, all := count(n.meta.Status.Allocatable["nvidia.com/gpu"]), n.capacity("nvidia.com/gpu"); len(n.registered) == 0 && healthy < all {
		b.find("unhealthy-gpus", sharing.SeverityMedium, object, "status.allocatable", "%d of %d of nvidia.com/gpu are not healthy", all-healthy, all)
	}
	if n.gpu == nil && n.product != "" {
		b.find("gpu-unknown", sharing.SeverityMedium, object, n.productFrom.Source, "%s", unknownGPU(n.product))
	}
}

func unknownGPU(product string) string {
	_, err := sharing.LookupGPU(product)
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), "sharing: ")
}

// hamiDevice is a GPU as HAMi's and Volcano's device plugins register it.
type hamiDevice struct {
	ID      string `json:"id"`
	Count   int    `json:"count"`  // pods that may share it
	Memory  int64  `json:"devmem"` // MiB, scaled
	Cores   int    `json:"devcore"`
	Type    string `json:"type"`
	Mode    string `json:"mode"` // hami-core, mps, mig
	Healthy *bool  `json:"health"`
}

// parseRegister reads a list of devices: JSON, or fields divided by commas and
// devices by colons (HAMi before 2.5 with seven fields, Volcano with five or six).
func parseRegister(text string) ([]hamiDevice, error) {
	var out []hamiDevice
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			return nil, fmt.Errorf("it is no list of devices: %w", err)
		}
		return out, nil
	}
	for part := range strings.SplitSeq(text, ":") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		f := strings.Split(part, ",")
		if len(f) < 5 {
			return out, fmt.Errorf("%.60q has %d fields; at least five belong there", part, len(f))
		}
		d := hamiDevice{ID: f[0]}
		var err1, err2 error
		d.Count, err1 = strconv.Atoi(f[1])
		d.Memory, err2 = strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil {
			return out, fmt.Errorf("%.60q: its shares and memory are no numbers", part)
		}
		if cores, err := strconv.Atoi(f[3]); err == nil && len(f) >= 6 {
			d.Cores, d.Type = cores, f[4]
		} else {
			d.Type = f[3]
			if len(f) > 5 {
				d.Mode = f[5]
			}
		}
		out = append(out, d)
	}
	return out, nil
}

// readRegistered reads the GPUs that HAMi or Volcano registered.
func (n *node) readRegistered(b *build) {
	n.mechanism, n.mechanismFrom = sharing.MechanismHAMi, n.deliveryFrom
	n.gpus, n.whole, n.gpusFrom = len(n.registered), len(n.registered), n.deliveryFrom
	for i := range n.registered {
		d := &n.registered[i]
		n.uuids = append(n.uuids, d.ID)
		n.replicas = max(n.replicas, d.Count)
		if d.Mode == "mps" {
			n.mechanism = sharing.MechanismHAMiWithMPS
		}
		if d.Mode == "mig" {
			n.inMIG, n.whole = n.inMIG+1, n.whole-1
		}
		if d.Healthy != nil && !*d.Healthy {
			b.find("unhealthy-gpus", sharing.SeverityMedium, "node "+n.name, n.deliveryFrom.Source, "GPU %s is not healthy", d.ID)
		}
		if n.gpu == nil {
			continue
		}
		if known, ok := n.gpu.Memory.Get(); ok && sharing.Bytes(d.Memory)*sharing.MiB > known+known/12 {
			b.find("memory-oversubscribed", sharing.SeverityMedium, "node "+n.name, n.deliveryFrom.Source,
				"GPU %s is registered with %v, and a %s has %v: memory is handed out that is not there", d.ID, sharing.Bytes(d.Memory)*sharing.MiB, n.gpu.Name, known)
		}
	}
	if labelled := count(n.label("nvidia.com/gpu.count")); labelled > 0 && labelled != n.gpus {
		b.find("label-lies", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/gpu.count", "%d GPUs are registered, and label nvidia.com/gpu.count says %d", n.gpus, labelled)
	}
}
