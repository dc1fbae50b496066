package discover

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// stringMap is a mapping of which only the keys that keep wants are kept: what an annotation or label may hold
// besides (configurations with environment values among it) is not copied.
type stringMap map[string]string

// keptKeys are the beginnings of the labels and annotations that are read.
var keptKeys = []string{
	"nvidia.com/", "resource.nvidia.com/", "feature.node.kubernetes.io/pci-10de", "node.kubernetes.io/instance-type",
	"beta.kubernetes.io/instance-type",
	"cloud.google.com/gke-", "karpenter.sh/nodepool", "karpenter.k8s.aws/instance-gpu", "eks.amazonaws.com/nodegroup",
	"eks.amazonaws.com/instance-gpu", "karpenter.azure.com/sku-gpu-name",
	"kubernetes.azure.com/agentpool", "kubernetes.azure.com/cluster", "agentpool", "alpha.eksctl.io/nodegroup-name",
	"alpha.eksctl.io/cluster-name",
	"hami.io/", "4pd.io/", "volcano.sh/", "kai.scheduler/", "runai/", "run.ai/", "runai-", "gpu-fraction", "gpu-memory",
	"gpu-group",
	"leaderworkerset.sigs.k8s.io/", "training.kubeflow.org/", "jobset.sigs.k8s.io/", "ray.io/", "notebook-name",
	"serving.kserve.io/", "kueue.x-k8s.io/",
	"pod-template-hash", "cotenant.dev/", "batch.kubernetes.io/",
}

// gpuResources are the beginnings of the resources that are about a GPU.
var gpuResources = []string{"nvidia.com/", "volcano.sh/vgpu", "amd.com/", "gpu.intel.com/", "cotenant.dev/",
	"requests.nvidia.com/"}

// otherVendors are the resources, and the DRA drivers, of the plugins of AMD and Intel.
var otherVendors = []struct{ resource, driver, name string }{{"amd.com/", "gpu.amd.com", "AMD"},
	{"gpu.intel.com/", "gpu.intel.com", "Intel"}}

func begins(key string, with []string) bool {
	return slices.ContainsFunc(with, func(k string) bool { return strings.HasPrefix(key, k) })
}

const longestLabel = 63 // characters of a label's value, by Kubernetes

// UnmarshalJSON keeps the entries that are read, and of other labels a hash. A value that is no text is left out.
func (m *stringMap) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	*m = stringMap{}
	for k, raw := range all {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			continue
		}
		if begins(k, keptKeys) {
			(*m)[k] = s
		} else if len(s) <= longestLabel {
			(*m)[hashed(k, s)] = "" // for selectors
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
		if begins(k, gpuResources) {
			(*q)[k] = strings.Trim(string(raw), `"`)
		}
	}
	return nil
}

type ownerRef struct {
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
	if i := slices.IndexFunc(m.Owners, func(o ownerRef) bool { return o.Controller }); i > 0 {
		return m.Owners[i]
	}
	return append(m.Owners, ownerRef{})[0]
}

// header holds the fields of every object.
type header struct {
	Metadata metadata `json:"metadata"`
}

type nodeObject struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		Allocatable quantities `json:"allocatable"`
		Capacity    quantities `json:"capacity"`
		Conditions  []struct {
			Type   string    `json:"type"`
			Status string    `json:"status"`
			At     time.Time `json:"lastHeartbeatTime"`
		} `json:"conditions"`
	} `json:"status"`
}

type resources struct {
	Limits   quantities `json:"limits"`
	Requests quantities `json:"requests"`
}

type container struct {
	Name          string    `json:"name"`
	Image         string    `json:"image"`
	Command       []string  `json:"command"`
	Args          []string  `json:"args"`
	RestartPolicy string    `json:"restartPolicy"`
	Resources     resources `json:"resources"`
	Ports         []struct {
		Port int `json:"containerPort"`
	} `json:"ports"`
	Security struct {
		Privileged bool   `json:"privileged"`
		RunAsUser  *int64 `json:"runAsUser"`
	} `json:"securityContext"`
}

type podSpec struct {
	NodeName       string      `json:"nodeName"`
	NodeSelector   stringMap   `json:"nodeSelector"`
	Containers     []container `json:"containers"`
	InitContainers []container `json:"initContainers"`
	Claims         []podClaim  `json:"resourceClaims"`
	Security       struct {
		RunAsUser *int64 `json:"runAsUser"`
	} `json:"securityContext"`
}

type podClaim struct {
	Claim    string `json:"resourceClaimName"`
	Template string `json:"resourceClaimTemplateName"`
}

type podObject struct {
	Metadata metadata `json:"metadata"`
	Spec     podSpec  `json:"spec"`
	Status   struct {
		Phase  string    `json:"phase"`
		Start  time.Time `json:"startTime"`
		Claims []struct {
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

type statusObject struct {
	Message string `json:"message"`
}
