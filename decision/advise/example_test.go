package advise_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/advise"
)

// The cluster is looked at each hour; what was the best for two hours stands.
func ExampleLook() {
	fleet, err := decision.LoadFleet("../migrate/testdata/known.yaml")
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "looks")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for hour := range 3 {
		at := time.Date(2026, 11, 2, 8+hour, 0, 0, 0, time.UTC)
		a, err := advise.Look(context.Background(), dir, at, fleet, advise.Options{Patience: 2 * time.Hour})
		if err != nil {
			log.Fatal(err)
		}
		if err := a.WriteText(os.Stdout); err != nil {
			log.Fatal(err)
		}
	}
	last, err := advise.Last(dir)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(last.Stands, len(last.Plan.Steps))
	// Output:
	// 2026-11-02T08:00:00Z: wait: it empties 1 node of 4, but only since 2026-11-02T08:00:00Z
	// 2026-11-02T09:00:00Z: wait: it empties 1 node of 4, but only since 2026-11-02T08:00:00Z
	// 2026-11-02T10:00:00Z: do this: it empties 1 node of 4; the best since 2026-11-02T08:00:00Z
	// true 2
}

// The plan of a look stands at once and is not carried out, since somebody cordons the node that it needs: the next
// look says what has changed, what has not come, and what it would do now.
func ExampleAdvice() {
	fleet, err := decision.LoadFleet("../migrate/testdata/known.yaml")
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "looks")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	monday := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	if _, err := advise.Look(context.Background(), dir, monday, fleet, advise.Options{}); err != nil {
		log.Fatal(err)
	}
	fleet.Today.Nodes[0].Closed = "cordoned"
	a, err := advise.Look(context.Background(), dir, monday.Add(time.Hour), fleet, advise.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, change := range a.Changed {
		fmt.Println("changed:", change)
	}
	for _, drift := range a.Drifted {
		fmt.Println("drifted:", drift)
	}
	fmt.Println(a.Headline())
	// Output:
	// changed: node a100-1: whole GPUs and 21 x 1g.10gb and 6 x 3g.40gb, cordoned, before whole GPUs and 21 x 1g.10gb and 6 x 3g.40gb
	// drifted: llm/chat was to run on a100-1 (3 x mig 1g.10gb) and does not
	// drifted: llm/chat was to leave a100-2 and runs there
	// nothing to do: what runs today is the best that was found
}

// The objects with which a cluster looks at itself every hour and proposes what has been the best for two days.
func ExampleCronJob() {
	objects, err := advise.CronJob("ops", "registry.corp/cotenant:v1", time.Hour, 48*time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(objects)) {
		if key, _, _ := strings.Cut(strings.TrimSpace(line), ":"); strings.HasPrefix(line, "kind") || key == "schedule" || key == "args" {
			fmt.Println(strings.TrimSpace(line))
		}
	}
	_, err = advise.CronJob("ops", "registry.corp/cotenant:v1", 7*time.Hour, 48*time.Hour)
	fmt.Println(err)
	// Output:
	// kind: ServiceAccount
	// kind: ClusterRole
	// kind: ClusterRoleBinding
	// kind: PersistentVolumeClaim
	// kind: CronJob
	// schedule: "0 */1 * * *"
	// args: [advise, -kube, -patience, "48h0m0s", -out, /looks]
	// advise: 7h0m0s divides neither an hour nor a day into whole minutes or hours: use 15m, 1h or 24h
}

// The newest look is read from the folder, which may be empty.
func ExampleLast() {
	dir, err := os.MkdirTemp("", "looks")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	before, err := advise.Last(dir)
	fmt.Println(before, err)
	fleet, err := decision.LoadFleet("../migrate/testdata/known.yaml")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := advise.Look(context.Background(), dir, time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC), fleet, advise.Options{}); err != nil {
		log.Fatal(err)
	}
	last, err := advise.Last(dir)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(last.At, last.Nodes["a100-2"], last.Places["llm/chat"])
	for i := range last.Plan.Steps {
		fmt.Println(last.Plan.Steps[i].Title())
	}
	// Output:
	// <nil> <nil>
	// 2026-11-02 08:00:00 +0000 UTC whole GPUs map[a100-2:3]
	// Move 3 replicas of llm/chat from a100-2 (3) to a100-1 (3), each to mig 1g.10gb: each new replica is ready before an old one stops
	// Give a100-2 back: nothing runs on it any more
}
