// SPDX-License-Identifier: Apache-2.0

package kubegpu_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/runtime"
	resourceapi "k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/apis/resource/install"
	"k8s.io/kubernetes/pkg/apis/resource/validation"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// upstreamTypes are the API's own types of what is read and written, by apiVersion and kind.
var upstreamTypes = map[string]func() any{
	"v1/Node": func() any { return new(v1.Node) }, "v1/Pod": func() any { return new(v1.Pod) }, "v1/ConfigMap": func() any { return new(v1.ConfigMap) },
	"v1/Namespace": func() any { return new(v1.Namespace) }, "v1/ResourceQuota": func() any { return new(v1.ResourceQuota) },
	"apps/v1/Deployment": func() any { return new(appsv1.Deployment) }, "apps/v1/StatefulSet": func() any { return new(appsv1.StatefulSet) },
	"apps/v1/ReplicaSet": func() any { return new(appsv1.ReplicaSet) }, "apps/v1/DaemonSet": func() any { return new(appsv1.DaemonSet) },
	"batch/v1/Job": func() any { return new(batchv1.Job) }, "autoscaling/v2/HorizontalPodAutoscaler": func() any { return new(autoscalingv2.HorizontalPodAutoscaler) },
	"policy/v1/PodDisruptionBudget":    func() any { return new(policyv1.PodDisruptionBudget) },
	"resource.k8s.io/v1/ResourceSlice": func() any { return new(resourcev1.ResourceSlice) }, "resource.k8s.io/v1/ResourceClaim": func() any { return new(resourcev1.ResourceClaim) },
	"resource.k8s.io/v1/ResourceClaimTemplate": func() any { return new(resourcev1.ResourceClaimTemplate) }, "resource.k8s.io/v1/DeviceClass": func() any { return new(resourcev1.DeviceClass) },
	"resource.k8s.io/v1beta1/ResourceSlice": func() any { return new(resourcev1beta1.ResourceSlice) }, "resource.k8s.io/v1beta1/ResourceClaim": func() any { return new(resourcev1beta1.ResourceClaim) },
	"resource.k8s.io/v1beta2/ResourceSlice": func() any { return new(resourcev1beta2.ResourceSlice) }, "resource.k8s.io/v1beta2/ResourceClaim": func() any { return new(resourcev1beta2.ResourceClaim) },
}

// strictly decodes an object with the type of the API that it names: a field that the API lacks is an error.
func strictly(t *testing.T, where string, raw []byte) {
	t.Helper()
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(raw, &head); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	to := upstreamTypes[head.APIVersion+"/"+head.Kind]
	if to == nil {
		if !strings.Contains(head.APIVersion, ".") || strings.Contains(head.APIVersion, "k8s.io/v") && !strings.Contains(head.APIVersion, "x-k8s.io") {
			t.Errorf("%s: no type for %s %s", where, head.APIVersion, head.Kind)
		}
		return // another project's
	}
	unknown, err := kjson.UnmarshalStrict(raw, to())
	for _, e := range append(unknown, err) {
		if e != nil {
			t.Errorf("%s: %s %s: %v", where, head.APIVersion, head.Kind, e)
		}
	}
}

// TestUpstreamTypes holds the clusters that package discover is tested on, and the objects that are written, against
// the API's types at the version of go.mod: a fixture that the API would not have written tests nothing.
func TestUpstreamTypes(t *testing.T) {
	const root = "../../../decision/"
	files, err := filepath.Glob(root + "discover/testdata/*/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(data, &list); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, raw := range list.Items {
			strictly(t, filepath.Base(file), raw)
		}
	}
	for _, file := range []string{"manifest/testdata/claim.yaml", "manifest/testdata/claim-template.yaml"} {
		data, err := os.ReadFile(root + file)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := yaml.YAMLToJSON(data)
		if err != nil {
			t.Fatal(err)
		}
		strictly(t, file, raw)
	}
}

// TestClaimsAreValid checks package manifest's claims by the API server's own rules.
func TestClaimsAreValid(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	read := func(name string, from, to runtime.Object) {
		t.Helper()
		data, err := os.ReadFile("../../../decision/manifest/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(data, from); err != nil {
			t.Fatal(err)
		}
		scheme.Default(from)
		if err := scheme.Convert(from, to, nil); err != nil {
			t.Fatal(err)
		}
	}
	var claim resourceapi.ResourceClaim
	read("claim.yaml", new(resourcev1.ResourceClaim), &claim)
	if errs := validation.ValidateResourceClaim(&claim); len(errs) > 0 || len(claim.Spec.Devices.Config) == 0 {
		t.Error(errs)
	}
	var template resourceapi.ResourceClaimTemplate
	read("claim-template.yaml", new(resourcev1.ResourceClaimTemplate), &template)
	if errs := validation.ValidateResourceClaimTemplate(&template); len(errs) > 0 {
		t.Error(errs)
	}
}
