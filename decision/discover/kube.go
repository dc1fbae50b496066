package discover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// stringMap is a mapping of which only the keys that keep wants are kept: what
// an annotation or label may hold besides (configurations with environment
// values among it) is not copied.
type stringMap map[string]string

// keptKeys are the beginnings of the labels and annotations that are read.
var keptKeys = []string{
	"nvidia.com/", "resource.nvidia.com/", "feature.node.kubernetes.io/pci-10de", "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type",
	"cloud.google.com/gke-", "karpenter.sh/nodepool", "karpenter.k8s.aws/instance-gpu", "eks.amazonaws.com/nodegroup", "eks.amazonaws.com/instance-gpu",
	"kubernetes.azure.com/agentpool", "kubernetes.azure.com/cluster", "agentpool", "alpha.eksctl.io/nodegroup-name", "alpha.eksctl.io/cluster-name",
	"hami.io/", "4pd.io/", "volcano.sh/", "kai.scheduler/", "runai/", "run.ai/", "runai-", "gpu-fraction", "gpu-memory", "gpu-group",
	"leaderworkerset.sigs.k8s.io/", "training.kubeflow.org/", "jobset.sigs.k8s.io/", "ray.io/", "notebook-name", "serving.kserve.io/", "kueue.x-k8s.io/",
	"pod-template-hash", "cotenant.dev/", "batch.kubernetes.io/",
}

func keepKey(key string) bool {
	for _, k := range keptKeys {
		if strings.HasPrefix(key, k) {
			return true
		}
	}
	return false
}

// UnmarshalJSON keeps the entries that are read. A value that is no text is
// left out.
func (m *stringMap) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	*m = stringMap{}
	for k, raw := range all {
		var s string
		if keepKey(k) && json.Unmarshal(raw, &s) == nil {
			(*m)[k] = s
		}
	}
	return nil
}

// quantities are amounts by resource. They may be written as text or numbers.
type quantities map[string]string

// UnmarshalJSON reads the amounts of everything that is about a GPU.
func (q *quantities) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	*q = quantities{}
	for k, raw := range all {
		if !strings.HasPrefix(k, "nvidia.com/") && !strings.HasPrefix(k, "volcano.sh/vgpu") && !strings.HasPrefix(k, "amd.com/") && !strings.HasPrefix(k, "gpu.intel.com/") &&
			!strings.HasPrefix(k, "cotenant.dev/") {
			continue
		}
		(*q)[k] = strings.Trim(string(raw), `"`)
	}
	return nil
}

type ownerRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Controller bool   `json:"controller"`
}

type metadata struct {
	Name        string     `json:"name"`
	Namespace   string     `json:"namespace"`
	UID         string     `json:"uid"`
	Labels      stringMap  `json:"labels"`
	Annotations stringMap  `json:"annotations"`
	Owners      []ownerRef `json:"ownerReferences"`
	Deleted     string     `json:"deletionTimestamp"`
}

// controller is the owner that makes an object.
func (m *metadata) controller() ownerRef {
	for _, o := range m.Owners {
		if o.Controller {
			return o
		}
	}
	if len(m.Owners) > 0 {
		return m.Owners[0]
	}
	return ownerRef{}
}

// header is what every object has.
type header struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
}

type nodeObject struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		ProviderID    string `json:"providerID"`
		Unschedulable bool   `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		Allocatable quantities `json:"allocatable"`
		Capacity    quantities `json:"capacity"`
	} `json:"status"`
}

type resources struct {
	Limits   quantities `json:"limits"`
	Requests quantities `json:"requests"`
	Claims   []struct {
		Name string `json:"name"`
	} `json:"claims"`
}

type container struct {
	Name          string    `json:"name"`
	Image         string    `json:"image"`
	Command       []string  `json:"command"`
	Args          []string  `json:"args"`
	RestartPolicy string    `json:"restartPolicy"`
	Resources     resources `json:"resources"`
	Ports         []struct {
		Port int    `json:"containerPort"`
		Name string `json:"name"`
	} `json:"ports"`
	Security struct {
		Privileged bool   `json:"privileged"`
		RunAsUser  *int64 `json:"runAsUser"`
	} `json:"securityContext"`
}

type podSpec struct {
	NodeName       string      `json:"nodeName"`
	Scheduler      string      `json:"schedulerName"`
	RuntimeClass   string      `json:"runtimeClassName"`
	NodeSelector   stringMap   `json:"nodeSelector"`
	Containers     []container `json:"containers"`
	InitContainers []container `json:"initContainers"`
	Claims         []podClaim  `json:"resourceClaims"`
	Security       struct {
		RunAsUser *int64 `json:"runAsUser"`
	} `json:"securityContext"`
}

type podClaim struct {
	Name     string `json:"name"`
	Claim    string `json:"resourceClaimName"`
	Template string `json:"resourceClaimTemplateName"`
}

type podObject struct {
	Metadata metadata `json:"metadata"`
	Spec     podSpec  `json:"spec"`
	Status   struct {
		Phase  string `json:"phase"`
		Claims []struct {
			Name  string `json:"name"`
			Claim string `json:"resourceClaimName"`
		} `json:"resourceClaimStatuses"`
	} `json:"status"`
}

// controllerObject is a Deployment, StatefulSet, ReplicaSet, Job,
// LeaderWorkerSet or another object with a template of pods.
type controllerObject struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Replicas    *int `json:"replicas"`
		Parallelism *int `json:"parallelism"`
		Template    struct {
			Metadata metadata `json:"metadata"`
			Spec     podSpec  `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

type autoscalerObject struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Target struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		Min *int `json:"minReplicas"`
		Max int  `json:"maxReplicas"`
	} `json:"spec"`
}

type configMapObject struct {
	Metadata metadata          `json:"metadata"`
	Data     map[string]string `json:"data"`
}

// maxObjects bounds how many problems of one file are told one by one.
const maxTold = 20

// readKube reads Kubernetes objects from r as they come: one object, Lists of
// them, or several such documents one after another. No more than one object is
// held at a time. The error says where the input stopped making sense; what came
// before it was taken.
func (c *Collector) readKube(name string, r io.Reader) error {
	dec := json.NewDecoder(r)
	for documents := 0; ; documents++ {
		err := c.document(name, dec)
		switch {
		case err == io.EOF && documents > 0:
			return nil
		case err == io.EOF:
			return fmt.Errorf("%s: it is empty", name)
		case err != nil:
			if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
				return fmt.Errorf("%s: the JSON is cut off after %d objects (%d bytes): write the file again; what came before is used", name, c.objects, dec.InputOffset())
			}
			return fmt.Errorf("%s: after %d objects (%d bytes): %w", name, c.objects, dec.InputOffset(), err)
		}
	}
}

// document reads one JSON value: an object or a List.
func (c *Collector) document(name string, dec *json.Decoder) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return fmt.Errorf("it is no Kubernetes object but %v: give what `kubectl get ... -o json` writes", clipToken(t))
	}
	// A single object is put together from its fields; a List's items are read
	// one by one. kubectl writes items before kind.
	fields := map[string]json.RawMessage{}
	kind, items := "", false
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return eof(err)
		}
		key, _ := t.(string)
		if key != "items" {
			var raw json.RawMessage
			if err := dec.Decode(&raw); err != nil {
				return eof(err)
			}
			if key == "kind" {
				_ = json.Unmarshal(raw, &kind)
			}
			fields[key] = raw
			continue
		}
		items = true
		t, err = dec.Token()
		switch {
		case err != nil:
			return eof(err)
		case t == nil:
			continue
		case t != json.Delim('['):
			return errors.New("items: is no list")
		}
		for dec.More() {
			var raw json.RawMessage
			if err := dec.Decode(&raw); err != nil {
				return eof(err)
			}
			c.object(name, strings.TrimSuffix(kind, "List"), raw)
		}
		if _, err := dec.Token(); err != nil {
			return eof(err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return eof(err)
	}
	if items {
		return nil
	}
	if kind == "" {
		return errors.New("an object without kind: give what `kubectl get ... -o json` writes")
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	c.object(name, kind, raw)
	return nil
}

// eof makes the end of input inside a value what it is.
func eof(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func clipToken(t json.Token) string { return fmt.Sprintf("%.30q", fmt.Sprint(t)) }

// object takes one object over. Secrets are not looked into.
func (c *Collector) object(file, kind string, raw json.RawMessage) {
	c.objects++
	var h struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		c.trouble(file, fmt.Sprintf("object %d", c.objects), err.Error())
		return
	}
	if h.Kind == "" {
		h.Kind = kind
	}
	read, ok := readers[h.Kind]
	if h.Kind == "List" {
		c.trouble(file, fmt.Sprintf("object %d", c.objects), "a List within a List is not read")
		return
	}
	if !ok {
		c.skipped[h.Kind]++
		return
	}
	group, version, found := strings.Cut(h.APIVersion, "/")
	if !found {
		group, version = "", group
	}
	if h.APIVersion != "" && (group != read.group && !(read.group == "*")) {
		c.skipped[h.Kind]++ // another project's object of the same kind
		return
	}
	if h.APIVersion != "" && !read.knows(version) {
		c.unknownVersion(file, h.Kind, h.APIVersion, read.versions)
		if !read.lenient {
			return
		}
	}
	if err := read.take(c, file, raw); err != nil {
		c.trouble(file, fmt.Sprintf("%s (object %d)", h.Kind, c.objects), err.Error())
	}
}

// reader takes over the objects of a kind.
type reader struct {
	group    string
	versions []string
	lenient  bool // an unknown version is read nevertheless
	take     func(c *Collector, file string, raw json.RawMessage) error
}

func (r *reader) knows(version string) bool {
	for _, v := range r.versions {
		if v == version {
			return true
		}
	}
	return false
}

// taking decodes an object and hands it on.
func taking[T any](take func(c *Collector, file string, o *T)) func(*Collector, string, json.RawMessage) error {
	return func(c *Collector, file string, raw json.RawMessage) error {
		var o T
		err := json.Unmarshal(raw, &o)
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			// encoding/json goes on after a value of the wrong type.
			take(c, file, &o)
			return fmt.Errorf("%s is a %s where a %s belongs; the rest is used", wrong.Field, wrong.Value, wrong.Type)
		}
		if err == nil {
			take(c, file, &o)
		}
		return err
	}
}

var readers map[string]*reader

func init() { // the readers refer to what refers to them
	controller := func(kind string, group string, versions ...string) *reader {
		return &reader{group, versions, true, taking(func(c *Collector, file string, o *controllerObject) { c.takeController(file, kind, o) })}
	}
	readers = map[string]*reader{
		"Node":                    {"", []string{"v1"}, false, taking((*Collector).takeNode)},
		"Pod":                     {"", []string{"v1"}, false, taking((*Collector).takePod)},
		"ConfigMap":               {"", []string{"v1"}, false, taking((*Collector).takeConfigMap)},
		"Namespace":               {"", []string{"v1"}, false, taking((*Collector).takeNamespace)},
		"Deployment":              controller("Deployment", "apps", "v1"),
		"StatefulSet":             controller("StatefulSet", "apps", "v1"),
		"ReplicaSet":              controller("ReplicaSet", "apps", "v1"),
		"DaemonSet":               controller("DaemonSet", "apps", "v1"),
		"Job":                     controller("Job", "batch", "v1"),
		"LeaderWorkerSet":         controller("LeaderWorkerSet", "leaderworkerset.x-k8s.io", "v1"),
		"HorizontalPodAutoscaler": {"autoscaling", []string{"v1", "v2", "v2beta2"}, true, taking((*Collector).takeAutoscaler)},
		"ResourceSlice":           {"resource.k8s.io", []string{"v1", "v1beta2", "v1beta1"}, false, taking((*Collector).takeSlice)},
		"ResourceClaim":           {"resource.k8s.io", []string{"v1", "v1beta2", "v1beta1"}, false, taking((*Collector).takeClaim)},
		"ResourceClaimTemplate":   {"resource.k8s.io", []string{"v1", "v1beta2", "v1beta1"}, false, taking((*Collector).takeClaimTemplate)},
		"DeviceClass":             {"resource.k8s.io", []string{"v1", "v1beta2", "v1beta1"}, false, taking((*Collector).takeClass)},
	}
}
