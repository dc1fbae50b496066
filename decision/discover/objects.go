// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/fleet"
)

// The objects of Kubernetes, with only the fields that are read. Fields have the names of their keys, which
// encoding/json finds whatever the case of their letters.

type ownerRef struct {
	Kind, Name string
	Controller bool
}

type metadata struct {
	Name, Namespace, UID string
	Generation           int64
	Labels, Annotations  stringMap
	OwnerReferences      []ownerRef
	DeletionTimestamp    string
}

// controller is the owner that makes an object.
func (m *metadata) controller() ownerRef {
	if i := slices.IndexFunc(m.OwnerReferences, func(o ownerRef) bool { return o.Controller }); i > 0 {
		return m.OwnerReferences[i]
	}
	return append(m.OwnerReferences, ownerRef{})[0]
}

type nodeObject struct {
	Metadata struct {
		metadata
		Labels map[string]string // all of them: pods may select by any
	}
	Spec struct {
		Unschedulable bool
		Taints        []fleet.Taint
	}
	Status struct {
		Allocatable, Capacity quantities
		Conditions            []struct{ Type, Status string }
	}
}

// ready reports whether a node's condition Ready is true; one without conditions is taken to be.
func (o *nodeObject) ready() bool {
	for _, c := range o.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return true
}

// apart is the reason for which a node takes no more pods, empty without one.
func (o *nodeObject) apart() string {
	switch {
	case o.Spec.Unschedulable:
		return "cordoned"
	case !o.ready():
		return "not ready"
	case o.Metadata.DeletionTimestamp != "":
		return "being deleted"
	}
	return ""
}

type resources struct{ Limits, Requests quantities }

type security struct {
	Privileged bool
	RunAsUser  *int64
}

type container struct {
	Name, Image, RestartPolicy string
	Command, Args              []string
	Resources                  resources
	Ports                      []struct{ ContainerPort, HostPort int }
	SecurityContext            security
}

type podSpec struct {
	NodeName, SchedulerName    string
	Containers, InitContainers []container
	Overhead                   quantities
	Resources                  resources // of the whole pod
	ResourceClaims             []struct{ Name, ResourceClaimName, ResourceClaimTemplateName string }
	SecurityContext            security
	HostNetwork                bool
	SchedulingGates            []json.RawMessage
	Volumes                    []struct {
		Name                                       string
		PersistentVolumeClaim, Ephemeral, HostPath json.RawMessage
	}
	NodeSelector map[string]string
	Affinity     struct {
		NodeAffinity struct {
			Required struct {
				NodeSelectorTerms []nodeTerm
			} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
			Preferred []struct {
				Weight     int
				Preference nodeTerm
			} `json:"preferredDuringSchedulingIgnoredDuringExecution"`
		}
		PodAffinity, PodAntiAffinity struct {
			Required []podTerm `json:"requiredDuringSchedulingIgnoredDuringExecution"`
		}
	}
	Tolerations []struct {
		fleet.Toleration
		TolerationSeconds *int64
	}
	TopologySpreadConstraints []struct{ WhenUnsatisfiable string }
}

type nodeTerm struct{ MatchExpressions, MatchFields []fleet.NodeRequirement }

// podTerm is a rule about the pods that a pod may be with.
type podTerm struct {
	LabelSelector, NamespaceSelector *labelSelector
	Namespaces                       []string
}

// labelSelector selects pods by their labels.
type labelSelector struct {
	MatchLabels      map[string]string
	MatchExpressions []fleet.NodeRequirement
}

// selects reports whether a selector matches a pod's labels. An empty one matches all.
func (s *labelSelector) selects(labels stringMap) bool {
	has := func(k, v string) bool {
		_, ok := labels[hashed(k, v)]
		return ok || labels[k] == v && v != ""
	}
	for k, v := range s.MatchLabels {
		if !has(k, v) {
			return false
		}
	}
	for _, r := range s.MatchExpressions {
		_, hashedKey := labels[hashed("", r.Key)]
		_, kept := labels[r.Key]
		there, in := hashedKey || kept, slices.ContainsFunc(r.Values, func(v string) bool { return has(r.Key, v) })
		holds := map[string]bool{"In": in, "NotIn": !in, "Exists": there, "DoesNotExist": !there}
		if is, known := holds[r.Operator]; known && !is { // an unknown operator is taken to select
			return false
		}
	}
	return true
}

type podObject struct {
	Metadata metadata
	Spec     podSpec
	Status   struct {
		Phase                       string
		ResourceClaimStatuses       []struct{ Name, ResourceClaimName string }
		ExtendedResourceClaimStatus struct {
			ResourceClaimName string
			RequestMappings   []struct{ ResourceName string }
		}
	}
}

// ended reports whether all containers of a pod have ended.
func (o *podObject) ended() bool { return o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed" }

// controllerObject is a Deployment, StatefulSet, ReplicaSet, Job, LeaderWorkerSet or another object with a template of
// pods.
type controllerObject struct {
	Metadata metadata
	Spec     struct {
		Replicas, Parallelism *int
		Paused                bool
		Strategy              struct{ Type string }
		UpdateStrategy        struct {
			Type          string
			RollingUpdate struct{ Partition int }
		}
		VolumeClaimTemplates []json.RawMessage
		Template             podObject
	}
	Status struct {
		ObservedGeneration        int64
		Replicas, UpdatedReplicas int
	}
}

// holdsOf returns the setting of a Deployment or StatefulSet that keeps its pods from following a patch.
func (o *controllerObject) holdsOf(kind string) string {
	u, s := &o.Spec.UpdateStrategy, &o.Status
	switch {
	case o.Spec.Paused:
		return "its rollout is paused"
	case kind == "Deployment" && o.Spec.Strategy.Type == "Recreate":
		return "its strategy is Recreate: all of its pods stop before one starts"
	case u.Type == "OnDelete":
		return "its updateStrategy is OnDelete: a patch replaces no pod"
	case u.RollingUpdate.Partition > 0:
		return "its updateStrategy has a partition: a patch replaces only some of its pods"
	case s.UpdatedReplicas < s.Replicas || s.ObservedGeneration < o.Metadata.Generation:
		return "its rollout is under way"
	case len(o.Spec.VolumeClaimTemplates) > 0:
		return "its volumes may be bound to a node or a zone"
	}
	return ""
}

type autoscalerObject struct {
	Metadata metadata
	Spec     struct {
		ScaleTargetRef struct{ Kind, Name string }
		MinReplicas    *int
		MaxReplicas    int
	}
}

type configMapObject struct {
	Metadata metadata
	Data     map[string]string
}

// budgetObject is a PodDisruptionBudget.
type budgetObject struct {
	Metadata metadata
	Spec     struct{ Selector *labelSelector }
	Status   struct {
		DisruptionsAllowed int
		ObservedGeneration int64
	}
}

// allowed is the number of pods that may be missing: none as long as its status is older than its spec.
func (o *budgetObject) allowed() int {
	if o.Status.ObservedGeneration < o.Metadata.Generation {
		return 0
	}
	return max(0, o.Status.DisruptionsAllowed)
}

// matches reports whether a budget counts a pod with labels in a namespace.
func (o *budgetObject) matches(namespace string, labels stringMap) bool {
	return o.Metadata.Namespace == namespace && o.Spec.Selector != nil && o.Spec.Selector.selects(labels)
}

// quotaObject is a ResourceQuota.
type quotaObject struct {
	Metadata metadata
	Status   struct{ Hard, Used quantities }
}

type deviceRequest struct {
	DeviceClassName string
	Count           int
	AdminAccess     bool
	Capacity        struct{ Requests map[string]string }
}

type claimSpec struct {
	Devices struct {
		Requests []struct {
			Name string
			deviceRequest
			Exactly        *deviceRequest
			FirstAvailable []deviceRequest
		}
		Config []claimConfig
	}
}

type claimConfig struct {
	Opaque struct {
		Driver     string
		Parameters json.RawMessage
	}
}

type claimObject struct {
	Metadata metadata
	Spec     claimSpec
	Status   struct {
		Allocation struct {
			Devices struct {
				Results []struct {
					Driver, Pool, Device, Request string
					AdminAccess                   bool
					ConsumedCapacity              map[string]string
				}
				Config []claimConfig
			}
		}
		ReservedFor []struct{ Resource string }
	}
}

type claimTemplateObject struct {
	Metadata metadata
	Spec     struct{ Spec claimSpec }
}

type deviceBody struct {
	Attributes map[string]struct{ String, Version string }
	Capacity   map[string]struct{ Value string }
	// AllowMultipleAllocations is set where claims may share the device (the driver's ConsumableShares), each consuming
	// a part of its capacity; the capacity shares is their largest number, 0 without a limit.
	AllowMultipleAllocations bool
	Taints                   []struct{ Key, Effect string }
}

type sliceObject struct {
	Spec struct {
		Driver, NodeName string
		Pool             struct {
			Name       string
			Generation int64
		}
		Devices []struct {
			Name string
			deviceBody
			Basic *deviceBody // v1beta1
		}
	}
}

type deviceClassObject struct {
	Metadata metadata
	Spec     struct {
		Selectors            []struct{ CEL struct{ Expression string } }
		ExtendedResourceName string
		Config               []claimConfig
	}
}

// stringMap is a mapping of labels or annotations with only the keys of names.yaml: others may hold secrets, such as
// configurations with environment values.
type stringMap map[string]string

const longestLabel = 63 // characters of a label's value, by Kubernetes

// UnmarshalJSON keeps the entries that are read, and of other labels a hash. A value that is no text is left out.
func (m *stringMap) UnmarshalJSON(data []byte) error {
	*m = stringMap{}
	return entries(data, func(k string, raw json.RawMessage) {
		var s string
		switch err := json.Unmarshal(raw, &s); {
		case err != nil:
		case begins(k, names().Kept):
			(*m)[k] = s
		case len(s) <= longestLabel:
			(*m)[hashed(k, s)], (*m)[hashed("", k)] = "", "" // for selectors
		}
	})
}

// hashed is a hash in the place of a label's key and value, so that selectors match without keeping either.
func hashed(key, value string) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s=%s", key, value)
	return fmt.Sprintf("#%x", h.Sum64())
}

// quantities are amounts by resource. They may be written as text or numbers.
type quantities map[string]string

// UnmarshalJSON reads the amounts.
func (q *quantities) UnmarshalJSON(data []byte) error {
	*q = quantities{}
	return entries(data, func(k string, raw json.RawMessage) { (*q)[k] = strings.Trim(string(raw), `"`) })
}

func entries(data []byte, take func(k string, raw json.RawMessage)) error {
	var all map[string]json.RawMessage
	err := json.Unmarshal(data, &all)
	for k, raw := range all {
		take(k, raw)
	}
	return err
}
