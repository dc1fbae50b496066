// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// canaryFiles are the canary's files of a folder, as far as YAML reads them.
func canaryFiles(t *testing.T, f *Folder) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, file := range f.Files {
		if !strings.HasPrefix(file.Path, "canary/") {
			continue
		}
		var doc map[string]any
		if err := yaml.Unmarshal(file.Data, &doc); err != nil {
			t.Errorf("%s: %v", file.Path, err)
		}
		out[file.Path] = doc
	}
	return out
}

// at follows keys and indices through a document.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				return nil
			}
			v = list[p]
		}
	}
	return v
}

// TestCanary: a service with objectives that shares a GPU gets a plan with its neighbours, an AnalysisTemplate and a
// Canary by the schemas of Argo Rollouts and Flagger; one without objectives, or on a slice of its own, gets none.
func TestCanary(t *testing.T) {
	s := mixed(t)
	embed, chat := s.workload("ml/embed"), s.workload("ml/chat")
	embed.Kind, embed.SLO.TTFTP99, embed.SLO.TPOTP50 = decision.KindOnlineInference, limit(500), limit(20)
	chat.Kind, chat.SLO.TTFTP99 = decision.KindOnlineInference, limit(500)
	s.workload("search/rerank").Kind = decision.KindTraining
	folder, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	files := canaryFiles(t, folder)
	if len(files) != 3 {
		t.Fatalf("%d files: %v", len(files), files)
	}
	plan, argo, flagger := files["canary/ml.embed.yaml"], files["canary/ml.embed.argo-rollouts.yaml"], files["canary/ml.embed.flagger.yaml"]
	for _, c := range []struct {
		doc  any
		want any
		path []any
	}{
		{plan, "ml/embed-canary", []any{"tenants", 0, "name"}},
		{plan, "http://embed-canary.ml:8000/metrics", []any{"tenants", 0, "page"}},
		{plan, "ttft", []any{"tenants", 0, "objectives", 0, "metric"}},
		{plan, 0.5, []any{"tenants", 0, "objectives", 0, "limit"}},
		{plan, true, []any{"tenants", 0, "objectives", 1, "after_promotion"}},
		{plan, 0.02, []any{"tenants", 0, "objectives", 2, "limit"}},
		{plan, "http://embed.ml:8000/metrics", []any{"tenants", 1, "page"}}, // the replica next to the new one
		{plan, "http://rerank.search:9100/metrics", []any{"tenants", 2, "counter", "url"}},
		{plan, true, []any{"tenants", 2, "objectives", 0, "at_least"}},
		{argo, "argoproj.io/v1alpha1", []any{"apiVersion"}},
		{argo, "AnalysisTemplate", []any{"kind"}},
		{argo, "ml", []any{"metadata", "namespace"}},
		{argo, "rollout", []any{"spec", "args", 0, "name"}},
		{argo, `result == "pass"`, []any{"spec", "metrics", 0, "successCondition"}},
		{argo, `result == "fail"`, []any{"spec", "metrics", 0, "failureCondition"}},
		{argo, 1, []any{"spec", "metrics", 0, "consecutiveSuccessLimit"}},
		{argo, "{$.answer}", []any{"spec", "metrics", 0, "provider", "web", "jsonPath"}},
		{argo, "http://cotenant-canary-embed.ml:8080/?rollout={{args.rollout}}", []any{"spec", "metrics", 0, "provider", "web", "url"}},
		{flagger, "flagger.app/v1beta1", []any{"apiVersion"}},
		{flagger, "Canary", []any{"kind"}},
		{flagger, "embed", []any{"spec", "targetRef", "name"}},
		{flagger, "pre-rollout", []any{"spec", "analysis", "webhooks", 0, "type"}},
		{flagger, "http://cotenant-canary-embed.ml:8080/begin", []any{"spec", "analysis", "webhooks", 0, "url"}},
		{flagger, "rollout", []any{"spec", "analysis", "webhooks", 1, "type"}},
		{flagger, "confirm-promotion", []any{"spec", "analysis", "webhooks", 2, "type"}},
		{flagger, 1, []any{"spec", "analysis", "threshold"}},
	} {
		if got := at(c.doc, c.path...); got != c.want {
			t.Errorf("%v: %v, want %v", c.path, got, c.want)
		}
	}
	if page := find(t, folder, "plan.md"); strings.Count(page, "canary/ has") != 1 {
		t.Error(page)
	}
}

func limit(ms int) sharing.Optional[profile.Duration] {
	return sharing.Some(profile.Duration(time.Duration(ms) * time.Millisecond))
}

// TestCanaryOfAPlan: a service that a plan brings to a shared node gets a canary with the tenants of that node.
func TestCanaryOfAPlan(t *testing.T) {
	f, err := decision.ParseFleet([]byte(`version: v1
pools: [{name: a, gpu: A100-SXM4-80GB, count: 8, gpus_per_node: 4, price_per_gpu_hour: 3 USD, delivery: gpu-operator}]
workloads:
  - {name: t/chat, kind: online-inference, tenant: t, memory: 8GiB, gpu_busy: 0.06, evidence: measured, slo: {ttft_p99: 2s}, today: {mechanism: exclusive, object: Deployment, container: main}}
  - {name: t/old, kind: batch, tenant: t, memory: 8GiB, gpu_busy: 0.06, today: {mechanism: time-slicing, object: Deployment, container: main}}
today:
  nodes:
    - {name: t1, pool: a, devices: [{gpu: A100-SXM4-80GB, count: 4, mode: time-slicing, slots: 4}], assignments: [{workload: t/old}]}
    - {name: g1, pool: a, devices: [{gpu: A100-SXM4-80GB, count: 4, mode: exclusive}], assignments: [{key: chat, workload: t/chat}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	today, _ := f.Layout()
	gone, _ := today.Release("chat")
	after, err := gone.Assign("t1", layout.Assignment{Key: "chat", Workload: f.Tenants()["t/chat"], Device: 3})
	if err != nil {
		t.Fatal(err)
	}
	p := &migrate.Plan{Fleet: f, Today: today, After: after, Steps: []migrate.Step{{Action: "move", Workload: "t/chat", Replicas: 1, Device: "time-slicing",
		From: []migrate.Place{{Node: "g1", Replicas: 1}}, To: []migrate.Place{{Node: "t1", Replicas: 1}}}}}
	folder, err := Migration(p)
	if err != nil {
		t.Fatal(err)
	}
	plan := canaryFiles(t, folder)["canary/t.chat.yaml"]
	if got := at(plan, "tenants", 1, "name"); got != "t/old" {
		t.Errorf("%v next to the service in %v", got, plan)
	}
}
