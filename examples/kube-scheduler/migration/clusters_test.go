// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cotenant/cotenant/decision"
)

// loaded is a cluster of examples/cotenant/testdata, and its fleet as cotenant plan wrote it from a week of metrics.
func loaded(t *testing.T, name string) (*cluster, *decision.Fleet) {
	read := func(suffix string) []byte {
		data, err := os.ReadFile("../../cotenant/testdata/clusters/" + name + suffix)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	c := &cluster{t: t, nodes: map[string]*v1.Node{}, owners: map[string]*v1.PodTemplateSpec{}, held: map[string]bool{}, freed: map[string]bool{}}
	var list struct{ Items []json.RawMessage }
	err := json.Unmarshal(read(".json"), &list)
	take := func(data json.RawMessage, into any) {
		if err == nil {
			err = json.Unmarshal(data, into)
		}
	}
	for _, data := range list.Items {
		var kind metav1.TypeMeta
		take(data, &kind)
		switch kind.Kind {
		case "Node":
			n := &v1.Node{}
			take(data, n)
			n.Status.Allocatable["pods"] = resource.MustParse("110")
			c.nodes[n.Name] = n
		case "Pod":
			p := &v1.Pod{}
			take(data, p)
			request(&p.Spec)
			c.pods = append(c.pods, p)
		case "PodDisruptionBudget":
			b := &policyv1.PodDisruptionBudget{}
			take(data, b)
			c.budgets = append(c.budgets, b)
		case "Deployment", "StatefulSet":
			d := &appsv1.Deployment{}
			take(data, d)
			request(&d.Spec.Template.Spec)
			c.owners[kind.Kind+"/"+d.Name] = &d.Spec.Template
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := decision.ParseFleet(read(".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return c, fleet
}

// request sets the requests that the API server takes from limits.
func request(s *v1.PodSpec) {
	for i := range s.Containers {
		for name, q := range s.Containers[i].Resources.Limits {
			s.Containers[i].Resources.Requests[name] = q
		}
	}
}

// TestClusters plays the plans of clusters of real shape: on GKE, EKS and premises, under HAMi and the DRA driver.
func TestClusters(t *testing.T) {
	steps := map[string]int{}
	for _, name := range []string{"dra", "eks", "gke", "hami", "premises"} {
		c, fleet := loaded(t, name)
		p, files := c.planned(fleet)
		c.play(rand.New(rand.NewPCG(1, 57)), p, files)
		for i := range p.Steps {
			if p.Steps[i].Action == "move" {
				steps[name]++
			}
		}
	}
	if steps["eks"] < 2 || steps["premises"] < 2 {
		t.Errorf("%v moves: the plans hardly change anything", steps)
	}
}
