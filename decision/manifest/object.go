// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/yamlnode"
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

// replicas are those that have a place.
func (m *member) replicas() int {
	if m.Placed > 0 {
		return m.Placed
	}
	return m.Replicas
}

// keys are the labels of the nodes that a workload is on.
func (m *member) keys() (out []string) {
	for _, g := range m.groups {
		out = append(out, g.key)
	}
	return out
}

// nodes ties pods to the nodes of their groups: by a selector, or by an affinity to several.
func (m *member) nodes() (selector map[string]string, affinity any) {
	keys := m.keys()
	if len(keys) == 1 {
		return map[string]string{groupLabel: keys[0]}, nil
	}
	return nil, yamlnode.Map("nodeAffinity", yamlnode.Map("requiredDuringSchedulingIgnoredDuringExecution",
		yamlnode.Map("nodeSelectorTerms", yamlnode.List(yamlnode.Map("matchExpressions", yamlnode.List(
			yamlnode.Map("key", groupLabel, "operator", "In", "values", keys)))))))
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

// wrap puts a pod template into the workload's object.
func (m *member) wrap(p *pod, template *yaml.Node) *yaml.Node {
	object, version := m.object(), "batch/v1"
	job := yamlnode.Map("parallelism", p.replicas, "completions", p.replicas, "template", template)
	var spec *yaml.Node
	switch object {
	case "Deployment", "StatefulSet", "ReplicaSet":
		version, spec = "apps/v1", yamlnode.Map("replicas", p.replicas, "template", template)
	case "Job":
		spec = job
	case "CronJob":
		spec = yamlnode.Map("jobTemplate", yamlnode.Map("spec", job))
	case "JobSet":
		version, spec = "jobset.x-k8s.io/v1alpha2", yamlnode.Map("replicatedJobs", yamlnode.List(yamlnode.Map(
			"name", m.name, "template", yamlnode.Map("spec", job))))
	default:
		return yamlnode.Map("apiVersion", "v1", "kind", "PodTemplate", "metadata", metadata(p.name, m.space),
			"template", template)
	}
	return yamlnode.Map("apiVersion", version, "kind", object, "metadata", metadata(p.name, m.space),
		"spec", spec)
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

// pod holds one delivery's part of a workload's object.
type pod struct {
	name        string // of the object
	replicas    int
	annotations map[string]string
	scheduler   string
	labels      map[string]string
	env         []*yaml.Node
	args        []string
	limits      map[string]string
	claim       *claim
	header      []string
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
