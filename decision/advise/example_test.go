package advise_test

import (
	"context"
	"fmt"
	"log"
	"os"
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
