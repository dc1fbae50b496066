// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/decision"
)

// object is the kind of the Kubernetes object that makes a workload's pods: the one that was read from the cluster, or
// one that suits the workload's kind.
func (m *member) object() string { return objectOf(m.workload) }

func objectOf(w *decision.Workload) string {
	switch {
	case w.Today != nil && w.Today.Object != "":
		return w.Today.Object
	case w.Kind == decision.KindOnlineInference:
		return "Deployment"
	case w.Kind == decision.KindNotebook:
		return "StatefulSet"
	}
	return "Job"
}

// rolls reports whether an object brings its pods to another template by itself, and back by kubectl rollout undo.
func rolls(object string) bool { return object == "Deployment" || object == "StatefulSet" }

// keys are the labels of the nodes that a workload is on.
func (m *member) keys() (out []string) {
	for _, g := range m.groups {
		out = append(out, g.key)
	}
	return out
}

// howTo describes the use of a workload's document.
func (m *member) howTo() string {
	switch object := m.object(); {
	case rolls(object):
		return fmt.Sprintf("A patch: add the image, or apply it to the %s that has one.", object)
	case object == "Job" || object == "JobSet" || object == "Pod":
		return fmt.Sprintf("A patch: merge it into the %s and create that anew, as its pods cannot be changed.", object)
	case object == "CronJob":
		return "A patch: merge it into the CronJob; jobs that run stay as they are."
	default:
		return fmt.Sprintf("A pod template: merge it into that of the %s.", object)
	}
}

// back returns the command or instruction that rolls the pods of a workload back.
func (m *member) back() string {
	object := m.object()
	of := strings.ToLower(object) + "/" + m.name + in(m.space)
	switch {
	case rolls(object):
		return fmt.Sprintf("`kubectl rollout undo %s`", of)
	case object == "CronJob":
		return fmt.Sprintf("apply what was kept of %s; its next job has it", of)
	}
	return fmt.Sprintf("`kubectl delete %s`, and create it anew from what was kept of it", of)
}

// objects are the kinds of the workloads' objects, as kubectl takes them.
func (b *builder) objects() string {
	var kinds []string
	for _, m := range b.members {
		if kind := strings.ToLower(m.object()) + "s"; !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return strings.Join(kinds, ",")
}

// versions are the API versions of the kinds of objects that are written. Others are written as a PodTemplate.
var versions = map[string]string{"Deployment": "apps/v1", "StatefulSet": "apps/v1", "ReplicaSet": "apps/v1",
	"Job": "batch/v1", "CronJob": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2"}

// pod holds a workload's object for the template of that name.
type pod struct {
	Kind, Version, Name, Space, Container string
	Replicas                              int
	Labels, Annotations, Limits, Selector map[string]string
	Scheduler                             string
	Args                                  []string
	Env                                   []variable
	Required                              []nodeTerm
	Claim                                 *claim
	Tolerates                             bool // the taint of nodes with GPUs
	SharesMemory                          bool // /dev/shm is in memory
	header                                []string
}

// variable is one of a container's environment.
type variable struct{ Name, Value string }

// nodeTerm is a term of a node affinity.
type nodeTerm struct {
	Labels []requirement `json:"matchExpressions,omitempty"`
	Fields []requirement `json:"matchFields,omitempty"`
}

type requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
