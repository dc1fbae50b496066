// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"go.yaml.in/yaml/v3"
)

// documents reads the YAML documents of a file.
func documents(t *testing.T, file string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var out []map[string]any
	for {
		var doc map[string]any
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, doc)
	}
}

// TestDeploy holds the files together: the program takes the arguments, the kustomization names every file, the prices
// can be read, and no rights are requested.
func TestDeploy(t *testing.T) {
	var k struct {
		Resources          []string
		ConfigMapGenerator []struct{ Files []string } `yaml:"configMapGenerator"`
	}
	data, err := os.ReadFile("deploy/kustomization.yaml")
	if err == nil {
		err = yaml.Unmarshal(data, &k)
	}
	if err != nil {
		t.Fatal(err)
	}
	named := append(k.Resources, "kustomization.yaml", "rules.yaml")
	for _, g := range k.ConfigMapGenerator {
		named = append(named, g.Files...)
	}
	files, err := filepath.Glob("deploy/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.Contains(named, filepath.Base(f)) {
			t.Errorf("%s is named nowhere", f)
		}
	}
	for _, r := range k.Resources {
		for _, doc := range documents(t, filepath.Join("deploy", r)) {
			if doc["kind"] == "" || doc["apiVersion"] == "" || doc["kind"] == "ClusterRole" || doc["kind"] == "ClusterRoleBinding" {
				t.Errorf("%s: %v", r, doc["kind"])
			}
		}
	}
	var ds struct {
		Spec struct {
			Template struct {
				Spec struct {
					HostPID    bool `yaml:"hostPID"`
					Containers []struct {
						Args            []string
						SecurityContext struct {
							AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
							ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
							Privileged               bool
						} `yaml:"securityContext"`
					}
				}
			}
		}
	}
	data, err = os.ReadFile("deploy/daemonset.yaml")
	if err == nil {
		err = yaml.Unmarshal(data, &ds)
	}
	if err != nil {
		t.Fatal(err)
	}
	pod := ds.Spec.Template.Spec
	c := pod.Containers[0]
	if s := c.SecurityContext; !pod.HostPID || s.Privileged || !s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
		t.Errorf("%+v", pod)
	}
	if _, err := parse(c.Args, io.Discard); err != nil {
		t.Error(err)
	}
	p, err := readPrices("deploy/prices.yaml")
	if h200 := p.of("GPU-x", "NVIDIA H200"); err != nil || h200.Micros() != 3_800_000 {
		t.Errorf("%v, %v", h200, err)
	}
}

// TestOperator reads the objects for the Prometheus operator strictly as its types.
func TestOperator(t *testing.T) {
	read := func(file, kind string, v any) {
		t.Helper()
		for _, doc := range documents(t, file) {
			if doc["kind"] != kind {
				continue
			}
			data, err := json.Marshal(doc)
			if err == nil {
				err = decode(bytes.NewReader(data), v)
			}
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			return
		}
		t.Errorf("%s has no %s", file, kind)
	}
	var m monitoring.ServiceMonitor
	read("deploy/servicemonitor.yaml", "ServiceMonitor", &m)
	if len(m.Spec.Endpoints) != 1 || m.Spec.Endpoints[0].Port != "metrics" || !m.Spec.Endpoints[0].HonorLabels {
		t.Errorf("%+v", m.Spec)
	}
	var r monitoring.PrometheusRule
	read("deploy/prometheusrule.yaml", "PrometheusRule", &r)
	want := ruleGroups(t)
	if len(r.Spec.Groups) != len(want) {
		t.Fatalf("%+v", r.Spec)
	}
	for i, g := range r.Spec.Groups {
		if g.Name != want[i].Name || len(g.Rules) != len(want[i].Rules) || g.Rules[0].Expr.String() != want[i].Rules[0].Expr {
			t.Errorf("%+v", g)
		}
	}
	var bad monitoring.ServiceMonitor
	if decode(strings.NewReader(`{"spec": {"endpoints": [{"honourLabels": true}]}}`), &bad) == nil {
		t.Error("an unknown field passes")
	}
}
