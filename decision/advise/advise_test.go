package advise_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/advise"
	"github.com/cotenant/cotenant/decision/discover/kube"
)

func load(t *testing.T, name string) *decision.Fleet {
	t.Helper()
	f, err := decision.LoadFleet("../migrate/testdata/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestLook: a proposal stands when it has been the best for the patience, and not when it comes and goes; what changed,
// drifted and was settled is told.
func TestLook(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "looks")
	at := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	look := func(hours int, f *decision.Fleet, unknown ...string) *advise.Advice {
		t.Helper()
		a, err := advise.Look(t.Context(), dir, at.Add(time.Duration(hours)*time.Hour), f, advise.Options{Patience: 3 * time.Hour, Unknown: unknown})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := look(0, load(t, "nothing"), "chat's memory", "mid's load"); a.Plan.Changes() || a.Stands || len(a.Changed) > 0 {
		t.Errorf("nothing is known: %+v", a)
	}
	a := look(1, load(t, "known"), "mid's load")
	if !a.Plan.Changes() || a.Stands || len(a.Settled) != 1 || a.Settled[0] != "chat's memory" {
		t.Errorf("a new proposal: %q, stands %t, settled %v", a.Plan.Why, a.Stands, a.Settled)
	}
	if a := look(2, load(t, "nothing")); a.Plan.Changes() {
		t.Error("it is gone")
	}
	look(3, load(t, "known"))
	if a := look(5, load(t, "known")); a.Stands || !a.Since.Equal(at.Add(3*time.Hour)) {
		t.Errorf("stands %t since %v, and was gone in between", a.Stands, a.Since)
	}
	a = look(6, load(t, "known"))
	var text strings.Builder
	if err := a.WriteText(&text); err != nil || !a.Stands || !strings.Contains(text.String(), "do this: it empties 1 node of 4") {
		t.Errorf("stands %t, %v\n%s", a.Stands, err, &text)
	}
	// A node is lost, chat runs elsewhere than proposed.
	f := load(t, "known")
	f.Today.Nodes[1].Assignments = f.Today.Nodes[1].Assignments[1:]
	f.Today.Nodes[3].Closed = "not ready"
	a = look(7, f)
	for _, want := range []string{"node t4-2: time-slicing, 4 pods to a GPU, not ready", "workload llm/chat: 2 on a100-2, before 3 on a100-2"} {
		if !strings.Contains(strings.Join(a.Changed, "\n"), want) {
			t.Errorf("%q is missing in %q", want, a.Changed)
		}
	}
	if len(a.Drifted) == 0 || a.Stands {
		t.Errorf("drifted %v, stands %t", a.Drifted, a.Stands)
	}
	if _, err := advise.Look(t.Context(), dir, at, f, advise.Options{}); err == nil || !strings.Contains(err.Error(), "has a look of 2026-11-01T15:00:00Z already, and this one is of 2026-11-01T08:00:00Z: look again later") {
		t.Error("a look into the past: ", err)
	}
	for _, text := range []string{"{", "{}", "null", `{"plan": {}, "nodes": {}}`, `{"plan": {}, "places": {}}`} {
		if err := os.WriteFile(filepath.Join(dir, "2026-12-01T00-00-00Z.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := advise.Look(t.Context(), dir, at.AddDate(1, 0, 0), f, advise.Options{}); err == nil || !strings.Contains(err.Error(), "remove the file") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCronJob(t *testing.T) {
	for every, want := range map[time.Duration]string{15 * time.Minute: "*/15 * * * *", time.Hour: "0 */1 * * *", 6 * time.Hour: "0 */6 * * *",
		24 * time.Hour: "0 0 * * *", 7 * time.Hour: "", time.Second: "", 90 * time.Minute: "", 48 * time.Hour: ""} {
		data, err := advise.CronJob("ops", "example.org/cotenant:1", every, 36*time.Hour)
		if (err == nil) != (want != "") || want != "" && !strings.Contains(string(data), want) {
			t.Errorf("%v: %v\n%s", every, err, data)
		}
		if want == "" {
			continue
		}
		mayRead := []string{}
		kinds, dec := []string{}, yaml.NewDecoder(strings.NewReader(string(data)))
		for {
			var o struct {
				Kind  string
				Rules []struct{ Verbs, Resources []string }
			}
			if dec.Decode(&o) != nil {
				break
			}
			kinds = append(kinds, o.Kind)
			for _, r := range o.Rules {
				if strings.Join(r.Verbs, " ") != "get list" {
					t.Errorf("it may %v", r.Verbs)
				}
				mayRead = append(mayRead, r.Resources...)
			}
		}
		if got := strings.Join(kinds, " "); got != "ServiceAccount ClusterRole ClusterRoleBinding PersistentVolumeClaim CronJob" {
			t.Error(got)
		}
		// A look at a part of a cluster is refused: it has to read all that there may be.
		for _, name := range append(strings.Split(kube.Resources(), ","), "leaderworkersets", "resourceslices", "resourceclaims", "resourceclaimtemplates", "deviceclasses", "gpuclusters") {
			if !slices.Contains(mayRead, name) {
				t.Errorf("it may not read %s", name)
			}
		}
	}
}
