// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
)

// TestKindsAreWritten: a cluster with a StatefulSet under a PodDisruptionBudget, Jobs, and a CronJob with a running job
// is planned and written: movable pods move, jobs stay until they finish, and each is written as its own kind of object
// with a rollback that fits it.
func TestKindsAreWritten(t *testing.T) {
	owned := func(kind, name, by, byName, spec string) string {
		return fmt.Sprintf(`{"apiVersion": "batch/v1", "kind": %q, "metadata": {"namespace": "ml", "name": %q, "labels": {"app": "nightly"}, "ownerReferences": [{"kind": %q, "name": %q, "controller": true}]}, %s}`,
			kind, name, by, byName, spec)
	}
	const pod = `{"nodeName": "b", "containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}`
	w := twoNodes{kind: "StatefulSet", objects: []string{budget("rank", `{"matchLabels": {"app": "rank"}}`, 1), budget("nightly", `{"matchLabels": {"app": "nightly"}}`, 0),
		owned("Job", "nightly-29400000", "CronJob", "nightly", `"spec": {"parallelism": 1, "template": {"spec": `+pod+`}}`),
		strings.Replace(owned("Pod", "nightly-29400000-x", "Job", "nightly-29400000", `"spec": `+pod+`, "status": {"phase": "Running"}`), "batch/v1", "v1", 1)}}
	d := w.read(t)
	planned, err := manifest.Migration(d.Plan)
	if err != nil {
		t.Fatal(err)
	}
	if steps := fmt.Sprint(d.Plan.Steps); !d.Plan.Changes() || !strings.Contains(steps, "ml/rank") || strings.Contains(steps, "nightly") || strings.Contains(steps, "base") {
		t.Errorf("%v; %v", d.Plan.Steps, d.Plan.Why)
	}
	r, err := decision.Decide(t.Context(), &d.Discovery.Fleet, decision.Options{})
	if err != nil {
		t.Fatal(err)
	}
	folder, err := manifest.Build(&d.Discovery.Fleet, r)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range append(planned.Files, folder.Files...) {
		files[f.Path] += string(f.Data)
	}
	for path, want := range map[string]string{"pods/ml.rank.yaml": "kind: StatefulSet", "pods/ml.nightly.yaml": "kind: CronJob", "pods/ml.base.yaml": "kind: Job",
		"plan.md": "what was kept of cronjob/nightly -n ml"} {
		if !strings.Contains(files[path], want) {
			t.Errorf("%s lacks %q:\n%s", path, want, files[path])
		}
	}
}
