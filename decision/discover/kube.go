// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/discover/internal/stream"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/internal/plaintext"
)

// Resources lists the built-in resources that are read, in kubectl's syntax: kubectl get RESOURCES -A -o json.
const Resources = "nodes,pods,deploy,sts,rs,ds,jobs,hpa,pdb,quota"

const maxReported = 20 // problems of one kind in one file

// readKube reads Kubernetes objects from r as they come: one object, Lists of them, or several such documents one
// after another. No more than one object is in memory at a time. The error names the position of the first unreadable
// one; those before it are kept.
func (c *Collector) readKube(name string, r io.Reader) error {
	dec, before := json.NewDecoder(r), c.objects
	for {
		err := c.document(name, dec)
		came := fmt.Sprintf("after %s (%d bytes)", plaintext.Count(c.objects-before, "object"), dec.InputOffset())
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("%s: the JSON is cut off %s: write the file again; what came before is used", name, came)
		case err != nil:
			return fmt.Errorf("%s: %s: %w", name, came, err)
		}
	}
}

// document reads one JSON value: an object, or a List item by item. kubectl writes items before kind.
func (c *Collector) document(name string, dec *json.Decoder) error {
	fields, kind, items := map[string]json.RawMessage{}, "", false
	err := stream.Object(dec, func(key string) error {
		var raw json.RawMessage
		if key == "items" {
			items = true
			return stream.Array(dec, func() error {
				err := dec.Decode(&raw)
				if err == nil {
					c.object(name, strings.TrimSuffix(kind, "List"), raw)
				}
				return err
			})
		}
		err := dec.Decode(&raw)
		if fields[key] = raw; err == nil && key == "kind" {
			_ = json.Unmarshal(raw, &kind)
		}
		return err
	})
	switch {
	case err != nil || items:
		return err
	case kind == "":
		return errors.New("an object without kind: give what `kubectl get ... -o json` writes")
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	c.object(name, kind, raw)
	return nil
}

// takeStatus notes an error that the API server answered instead of objects.
func (c *Collector) takeStatus(file string, o *statusObject) {
	c.troubles.Addf(file, "", "the API server refused: %.200q", o.Message)
}

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
	if h.Kind = cmp.Or(h.Kind, kind); h.Kind == "" {
		c.trouble(file, fmt.Sprintf("object %d", c.objects), "it does not say its kind")
		return
	}
	read, ok := readers[h.Kind]
	if h.Kind == "List" {
		c.trouble(file, fmt.Sprintf("object %d", c.objects), "a List within a List is not read")
		return
	}
	if !ok {
		return
	}
	group, version, found := strings.Cut(h.APIVersion, "/")
	if !found {
		group, version = "", group
	}
	if h.APIVersion != "" && group != read.group {
		return // another project's object of the same kind
	}
	if h.APIVersion != "" && !slices.Contains(read.versions, version) {
		if key := file + h.Kind + h.APIVersion; c.reported[key] == 0 {
			c.reported[key]++
			c.troubles.Addf(file+": "+h.Kind, "read are "+strings.Join(read.versions, ", "), "version %.60q is not known",
				h.APIVersion)
		}
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

func init() { // a composite literal would be an initialization cycle
	controller := func(kind, group string) *reader {
		return &reader{group, []string{"v1"}, true, taking(func(c *Collector, file string, o *controllerObject) {
			c.takeController(file, kind, o)
		})}
	}
	dra := []string{"v1", "v1beta2", "v1beta1"}
	readers = map[string]*reader{
		"Node":            {"", []string{"v1"}, false, taking((*Collector).takeNode)},
		"Pod":             {"", []string{"v1"}, false, taking((*Collector).takePod)},
		"ConfigMap":       {"", []string{"v1"}, false, taking((*Collector).takeConfigMap)},
		"Status":          {"", []string{"v1"}, false, taking((*Collector).takeStatus)},
		"Deployment":      controller("Deployment", "apps"),
		"StatefulSet":     controller("StatefulSet", "apps"),
		"ReplicaSet":      controller("ReplicaSet", "apps"),
		"DaemonSet":       controller("DaemonSet", "apps"),
		"Job":             controller("Job", "batch"),
		"LeaderWorkerSet": controller("LeaderWorkerSet", "leaderworkerset.x-k8s.io"),
		"HorizontalPodAutoscaler": {"autoscaling", []string{"v1", "v2", "v2beta2"}, true,
			taking((*Collector).takeAutoscaler)},
		"PodDisruptionBudget": {"policy", []string{"v1"}, true, taking(
			func(c *Collector, _ string, o *budgetObject) { c.budgets = append(c.budgets, o) })},
		"ResourceQuota": {"", []string{"v1"}, false, taking(
			func(c *Collector, _ string, o *quotaObject) { c.quotas = append(c.quotas, o) })},
		"DeviceClass":           {"resource.k8s.io", dra, false, taking((*Collector).takeDeviceClass)},
		"ResourceSlice":         {"resource.k8s.io", dra, false, taking((*Collector).takeSlice)},
		"ResourceClaim":         {"resource.k8s.io", dra, false, taking((*Collector).takeClaim)},
		"ResourceClaimTemplate": {"resource.k8s.io", dra, false, taking((*Collector).takeClaimTemplate)},
	}
}

// stringMap is a mapping of labels or annotations with only the keys of names.yaml: others may hold secrets, such as
// configurations with environment values.
type stringMap map[string]string

func begins(key string, with []string) bool {
	return slices.ContainsFunc(with, func(k string) bool { return strings.HasPrefix(key, k) })
}

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

func entries(data []byte, take func(k string, raw json.RawMessage)) error {
	var all map[string]json.RawMessage
	err := json.Unmarshal(data, &all)
	for k, raw := range all {
		take(k, raw)
	}
	return err
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
	Generation  int64      `json:"generation"`
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

type nodeObject struct {
	Metadata struct {
		metadata
		Labels map[string]string `json:"labels"` // all of them: pods may select by any
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool          `json:"unschedulable"`
		Taints        []fleet.Taint `json:"taints"`
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
		Host int `json:"hostPort"`
	} `json:"ports"`
	Security struct {
		Privileged bool   `json:"privileged"`
		RunAsUser  *int64 `json:"runAsUser"`
	} `json:"securityContext"`
}

type podSpec struct {
	scheduling
	Overhead       quantities  `json:"overhead"`
	Resources      resources   `json:"resources"` // of the whole pod
	NodeName       string      `json:"nodeName"`
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
		Phase  string    `json:"phase"`
		Start  time.Time `json:"startTime"`
		Claims []struct {
			Name  string `json:"name"`
			Claim string `json:"resourceClaimName"`
		} `json:"resourceClaimStatuses"`
		Extended struct {
			Claim    string `json:"resourceClaimName"`
			Mappings []struct {
				Resource string `json:"resourceName"`
			} `json:"requestMappings"`
		} `json:"extendedResourceClaimStatus"`
	} `json:"status"`
}

// controllerObject is a Deployment, StatefulSet, ReplicaSet, Job,
// LeaderWorkerSet or another object with a template of pods.
type controllerObject struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Replicas    *int `json:"replicas"`
		Parallelism *int `json:"parallelism"`
		Paused      bool `json:"paused"`
		Strategy    struct {
			Type string `json:"type"`
		} `json:"strategy"`
		Update struct {
			Type    string `json:"type"`
			Rolling struct {
				Partition int `json:"partition"`
			} `json:"rollingUpdate"`
		} `json:"updateStrategy"`
		Volumes  []json.RawMessage `json:"volumeClaimTemplates"`
		Template struct {
			Metadata metadata `json:"metadata"`
			Spec     podSpec  `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		Observed int64 `json:"observedGeneration"`
		Replicas int   `json:"replicas"`
		Updated  int   `json:"updatedReplicas"`
	} `json:"status"`
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
