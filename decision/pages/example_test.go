// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/decision/pages"
)

// The first sentence of a page is the answer; its sections draw each pool's GPUs.
func ExampleDecide() {
	fleet, err := decision.LoadFleet("../../examples/quickstart/fleet.yaml")
	if err != nil {
		log.Fatal(err)
	}
	result, err := decision.Decide(context.Background(), fleet, decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	page := pages.Decide(result)
	fmt.Println(page.Answer)
	for _, section := range page.Sections[2:5] {
		fmt.Println(section.Title+":", section.Maps[0].Nodes[0].Name)
	}
	// Output:
	// Free 8 of 22 GPUs: 12,439.20 USD a month less (47,347.80 today, 34,908.60 after).
	// 5 of 5 workloads have a place at 97% confidence.
	// dev: 2 of 6 GPUs in use
	// prod: 4 of 8 GPUs in use
	// train: 8 of 8 GPUs in use
}

// A change of what runs, with its money and each node's GPUs before and after.
func ExamplePlan() {
	fleet, err := decision.LoadFleet("../migrate/testdata/known.yaml")
	if err != nil {
		log.Fatal(err)
	}
	plan, err := migrate.Make(context.Background(), fleet, decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pages.Plan(plan).Answer)
	// Output:
	// Free 1 of 4 nodes: 18,980 USD a month, 1 move, no objective at risk.
	// 4 nodes with GPUs today, 3 after.
}
