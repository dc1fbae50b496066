// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	configv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"sigs.k8s.io/yaml"

	"github.com/cotenant/cotenant/examples/kube-scheduler/plugin"
)

// decode reads the documents of a file with the API's own types, unknown and duplicate fields refused.
func decode(t *testing.T, name string) []runtime.Object {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var out []runtime.Object
	for i, doc := range strings.Split(string(data), "\n---\n") {
		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatalf("%s: document %d: %v", name, i, err)
		}
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(doc), nil, nil)
		if err != nil {
			t.Fatalf("%s: document %d: %v", name, i, err)
		}
		if err := yaml.UnmarshalStrict([]byte(doc), obj); err != nil {
			t.Errorf("%s: document %d: %v", name, i, err)
		}
		out = append(out, obj)
	}
	return out
}

// TestSchedulerConfig decodes the configuration as the scheduler does, checks it
// by the scheduler's own rules, and the plugin's arguments by the plugin's.
func TestSchedulerConfig(t *testing.T) {
	data, err := os.ReadFile("scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	obj, _, err := configscheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := obj.(*config.KubeSchedulerConfiguration)
	cfg.TypeMeta.APIVersion = configv1.SchemeGroupVersion.String()
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		t.Error(err)
	}
	profile := cfg.Profiles[0]
	weight, others := int32(0), int32(0)
	for _, p := range profile.Plugins.MultiPoint.Enabled {
		if p.Name == plugin.Name {
			weight = p.Weight
		} else {
			others += p.Weight
		}
	}
	if weight <= others*100 {
		t.Errorf("a weight of %d does not outdo the others' %d by one point in a hundred", weight, others)
	}
	found := false
	for _, pc := range profile.PluginConfig {
		if pc.Name != plugin.Name {
			continue
		}
		found = true
		args, err := plugin.ParseArgs(pc.Args.(*runtime.Unknown).Raw)
		if err == nil {
			_, err = args.Scorer()
		}
		if err != nil {
			t.Error(err)
		}
	}
	if !found {
		t.Error("the plugin has no arguments")
	}
}

// TestManifests decodes the manifests and follows what they name.
func TestManifests(t *testing.T) {
	var deployment *appsv1.Deployment
	accounts, roles := map[string]bool{}, map[string]bool{"system:kube-scheduler": true, "system:volume-scheduler": true,
		"extension-apiserver-authentication-reader": true}
	var bound []string
	var subjects []rbacv1.Subject
	for _, obj := range append(decode(t, "rbac.yaml"), decode(t, "deployment.yaml")...) {
		switch o := obj.(type) {
		case *v1.ServiceAccount:
			accounts[o.Name] = true
		case *rbacv1.ClusterRole:
			roles[o.Name] = true
			for _, r := range o.Rules {
				if slices.Contains(r.Verbs, "*") || slices.Contains(r.Resources, "*") {
					t.Errorf("%s: a wildcard", o.Name)
				}
			}
		case *rbacv1.Role:
			roles[o.Name] = true
		case *rbacv1.ClusterRoleBinding:
			bound, subjects = append(bound, o.RoleRef.Name), append(subjects, o.Subjects...)
		case *rbacv1.RoleBinding:
			bound, subjects = append(bound, o.RoleRef.Name), append(subjects, o.Subjects...)
		case *appsv1.Deployment:
			deployment = o
		default:
			t.Errorf("a %T that nobody checks", o)
		}
	}
	for _, name := range bound {
		if !roles[name] {
			t.Errorf("role %s is bound and not there", name)
		}
	}
	for _, s := range subjects {
		if !accounts[s.Name] {
			t.Errorf("subject %s is not there", s.Name)
		}
	}
	spec := deployment.Spec.Template.Spec
	if !accounts[spec.ServiceAccountName] {
		t.Errorf("service account %s is not there", spec.ServiceAccountName)
	}
	for k, v := range deployment.Spec.Selector.MatchLabels {
		if deployment.Spec.Template.Labels[k] != v {
			t.Errorf("the selector's %s=%s is not on the pods", k, v)
		}
	}
	if want := "--config=" + filepath.Join(spec.Containers[0].VolumeMounts[0].MountPath, "scheduler-config.yaml"); !slices.Contains(spec.Containers[0].Args, want) {
		t.Errorf("no argument %s", want)
	}
}

// TestKustomization checks that the files it names are there and no other manifest is.
func TestKustomization(t *testing.T) {
	data, err := os.ReadFile("kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var k struct {
		APIVersion         string   `json:"apiVersion"`
		Kind               string   `json:"kind"`
		Namespace          string   `json:"namespace"`
		Resources          []string `json:"resources"`
		ConfigMapGenerator []struct {
			Name  string   `json:"name"`
			Files []string `json:"files"`
		} `json:"configMapGenerator"`
	}
	if err := yaml.UnmarshalStrict(data, &k); err != nil {
		t.Fatal(err)
	}
	named := append([]string{"kustomization.yaml"}, k.Resources...)
	for _, g := range k.ConfigMapGenerator {
		named = append(named, g.Files...)
	}
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(named)
	if !slices.Equal(named, files) {
		t.Errorf("it names %v, and the folder has %v", named, files)
	}
	deployment, err := os.ReadFile("deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(deployment, []byte("name: "+k.ConfigMapGenerator[0].Name)) {
		t.Error("the deployment does not mount the generated config map")
	}
}
