// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/migrate"
)

const today = `version: v1
pools:
  - {name: a100, gpu: A100-SXM4-80GB, count: 12, gpus_per_node: 4, price_per_gpu_hour: 3 USD, delivery: gpu-operator}
workloads:
  - {name: lab/embed, kind: batch, replicas: 2, memory: 9GiB, gpu_busy: 0.05, tenant: lab,
     today: {mechanism: exclusive, may_weaken: true, object: Deployment}}
  - {name: lab/score, kind: batch, replicas: 3, memory: 6GiB, gpu_busy: 0.08, tenant: lab,
     today: {mechanism: exclusive, may_weaken: true, object: Deployment}}
  - {name: lab/fit, kind: training, tenant: lab, today: {mechanism: exclusive, object: Job}}
today:
  nodes:
    - {name: n1, pool: a100, devices: [{gpu: A100-SXM4-80GB, count: 4, mode: exclusive}],
       assignments: [{workload: lab/embed, replicas: 2}]}
    - {name: n2, pool: a100, devices: [{gpu: A100-SXM4-80GB, count: 4, mode: exclusive}],
       assignments: [{workload: lab/score}, {workload: lab/fit}]}
    - {name: n3, pool: a100, devices: [{gpu: A100-SXM4-80GB, count: 4, mode: exclusive}],
       assignments: [{workload: lab/score, replicas: 2}]}
`

// A fleet file with the cluster's state becomes the steps to a cheaper arrangement, or says why all stays.
func Example() {
	fleet, err := decision.ParseFleet([]byte(today))
	if err != nil {
		log.Fatal(err)
	}
	plan, err := migrate.Make(context.Background(), fleet, decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Why)
	for i := range plan.Steps {
		fmt.Printf("%d. %s\n", i+1, plan.Steps[i].Title())
	}
	for _, s := range plan.Stays {
		fmt.Printf("%v: %s\n", s.Workloads, s.Why)
	}
	// Output:
	// Free 1 of 3 nodes: 8,760 USD a month, 1 move, no objective at risk.
	// 1. Move 2 replicas of lab/embed from n1 (2) to n2 (2), each to exclusive: each new replica is ready before an old one stops
	// 2. Give n1 back: nothing runs on it any more
	// [lab/fit]: a Job's pods run to their end where they are
}

// A workload that comes gets a place beside what runs, where there is one without moving anybody.
func ExampleAdmit() {
	fleet, err := decision.ParseFleet([]byte(strings.Replace(today, "\ntoday:", `
  - {name: lab/new, kind: batch, replicas: 2, memory: 20GiB, gpu_busy: 0.3, tenant: lab}
today:`, 1)))
	if err != nil {
		log.Fatal(err)
	}
	plan, err := migrate.Admit(context.Background(), fleet, decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for i := range plan.Steps {
		fmt.Println(plan.Steps[i].Title())
	}
	fmt.Println("disturbs what runs:", plan.Disturbs())
	fmt.Println(plan.Cost.Comes, plan.Cost.Currency, "a month of devices")
	// Output:
	// Start 2 replicas of lab/new on n1 (2), each on exclusive
	// disturbs what runs: false
	// 4380.00 USD a month of devices
}

// What does the change save, of which not all may come?
func ExampleCost() {
	fleet, err := decision.ParseFleet([]byte(today))
	if err != nil {
		log.Fatal(err)
	}
	plan, err := migrate.Make(context.Background(), fleet, decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	b := plan.Cost
	fmt.Printf("%d nodes for %s, then %d for %s %s a month\n", b.NodesToday, b.MonthlyToday, b.NodesAfter, b.MonthlyAfter, b.Currency)
	fmt.Printf("%s saved, %s of it uncertain\n", b.MonthlySaved, b.Uncertain)
	// Output:
	// 3 nodes for 26280.00, then 2 for 17520.00 USD a month
	// 8760.00 saved, 137.40 of it uncertain
}

// A plan that was begun goes on: what is left of it stays the plan, and is not given up for one that is as good.
