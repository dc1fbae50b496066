package usage

import (
	"cmp"
	"net"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/optional"
)

// Key names whose figures they are: those of a GPU or a MIG instance, and of a pod's
// container on it where the source says so. What is not known is empty.
type Key struct {
	Node      string // as the source names it; of old exporters the exporter's own pod
	GPU       string // UUID of the GPU, of its parent for an instance
	Index     optional.Value[int]
	Instance  optional.Value[int] // the GPU instance's id
	Profile   string              // "1g.10gb"
	Namespace string
	Pod       string
	UID       string // the pod's, where the source has it: another pod of the name has another
	Container string
}

// Compare orders keys by node, GPU, instance and pod.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Node, o.Node), cmp.Compare(k.Index.Or(-1), o.Index.Or(-1)), cmp.Compare(k.GPU, o.GPU),
		cmp.Compare(k.Instance.Or(-1), o.Instance.Or(-1)), cmp.Compare(k.Profile, o.Profile),
		cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Pod, o.Pod), cmp.Compare(k.UID, o.UID),
		cmp.Compare(k.Container, o.Container))
}

// device is the key without the pod.
func (k Key) device() Key {
	k.Namespace, k.Pod, k.UID, k.Container = "", "", "", ""
	return k
}

// samePod reports whether two keys are of one pod, as far as their sources know it.
func (k Key) samePod(o Key) bool {
	return k.Namespace == o.Namespace && k.Pod == o.Pod && (k.UID == o.UID || k.UID == "" || o.UID == "")
}

// String names the key for problems.
func (k Key) String() string {
	var parts []string
	add := func(name, v string) {
		if v != "" {
			parts = append(parts, name+"="+v)
		}
	}
	add("node", k.Node)
	add("gpu", k.GPU)
	if i, ok := k.Index.Get(); ok && k.GPU == "" {
		add("index", strconv.Itoa(i))
	}
	if i, ok := k.Instance.Get(); ok {
		add("instance", strconv.Itoa(i))
	}
	if k.Pod != "" {
		add("pod", k.Namespace+"/"+k.Pod)
		add("uid", k.UID)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// labels are the labels of a series that are read. No other is kept.
type labels struct {
	metric, hostname, node, instance, uuid, gpu, device, profile, instanceID string
	namespace, pod, uid, container                                           string
	exportedNamespace, exportedPod, exportedUID, exportedContainer           string
}

// field returns the place of a label's value, or nil. The names are those of dcgm-exporter (pod_name and the like
// of its first versions), of Prometheus' relabelling, and our own.
func (l *labels) field(name string) *string {
	switch name {
	case "__name__":
		return &l.metric
	case "Hostname", "hostname":
		return &l.hostname
	case "node", "nodename", "node_name", "kubernetes_node", "exported_node":
		return &l.node
	case "instance":
		return &l.instance
	case "UUID", "uuid", "gpu_uuid":
		return &l.uuid
	case "gpu":
		return &l.gpu
	case "device":
		return &l.device
	case "GPU_I_PROFILE":
		return &l.profile
	case "GPU_I_ID", "gpu_instance":
		return &l.instanceID
	case "namespace", "pod_namespace":
		return &l.namespace
	case "pod", "pod_name":
		return &l.pod
	case "pod_uid": // of dcgm-exporter under --kubernetes-enable-pod-uid
		return &l.uid
	case "container", "container_name":
		return &l.container
	case "exported_namespace":
		return &l.exportedNamespace
	case "exported_pod":
		return &l.exportedPod
	case "exported_pod_uid":
		return &l.exportedUID
	case "exported_container":
		return &l.exportedContainer
	}
	return nil
}

// rawKey is a key before it is known whether the labels pod, namespace and container are those of the tenant or, as
// without honorLabels, of the exporter itself. That shows only in other series.
type rawKey struct {
	Key
	plain bool // they came from the labels without exported_
}

// scraper names an exporter's own pod, or its pods of all nodes by their container.
type scraper struct{ namespace, pod, container string }

// key reads the labels. It answers false where they name neither a GPU nor a pod.
func (l *labels) key() (rawKey, bool) {
	k := rawKey{Key: Key{GPU: l.uuid, Profile: l.profile}}
	for _, s := range []string{l.gpu, strings.TrimPrefix(l.device, "nvidia")} {
		if i, err := strconv.Atoi(s); err == nil && i >= 0 && k.Index.IsZero() {
			k.Index = optional.Of(i)
		}
	}
	if i, err := strconv.Atoi(l.instanceID); err == nil && i >= 0 {
		k.Instance = optional.Of(i)
	}
	switch {
	case l.exportedPod != "":
		k.Namespace, k.Pod, k.UID, k.Container = l.exportedNamespace, l.exportedPod, cmp.Or(l.exportedUID, l.uid),
			l.exportedContainer
	case l.pod != "" && !isExporter(l.pod):
		k.Namespace, k.Pod, k.UID, k.Container = l.namespace, l.pod, l.uid, l.container
		k.plain = true
	}
	host, _, err := net.SplitHostPort(l.instance)
	if err != nil {
		host = l.instance
	}
	k.Node = cmp.Or(l.hostname, l.node, host)
	if isExporter(k.Node) {
		k.Node = cmp.Or(l.node, k.Node)
	}
	return k, k.GPU != "" || !k.Index.IsZero() || k.Pod != ""
}

// isExporter reports whether a pod is one of the exporter's own.
func isExporter(pod string) bool { return strings.Contains(pod, "dcgm-exporter") }
