package migrate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/migrate"
)

const today = `version: v1
pools:
  - {name: a100, gpu: A100-SXM4-80GB, count: 12, gpus_per_node: 4, price_per_gpu_hour: 3 USD, delivery: gpu-operator}
workloads:
  - {name: lab/embed, kind: batch, replicas: 2, memory: 9GiB, gpu_busy: 0.05, tenant: lab,
     today: {mechanism: exclusive, may_weaken: true, object: Deployment, places: [{node: n1, replicas: 2}]}}
  - {name: lab/score, kind: batch, replicas: 3, memory: 6GiB, gpu_busy: 0.08, tenant: lab,
     today: {mechanism: exclusive, may_weaken: true, object: Deployment, places: [{node: n2, replicas: 1}, {node: n3, replicas: 2}]}}
  - {name: lab/fit, kind: training, tenant: lab, today: {mechanism: exclusive, object: Job, places: [{node: n2, replicas: 1}]}}
today:
  nodes:
    - {name: n1, pool: a100, gpus: 4}
    - {name: n2, pool: a100, gpus: 4}
    - {name: n3, pool: a100, gpus: 4}
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
	// it empties 1 node of 3
	// 1. Move 2 replicas of lab/embed from n1 (2) to n2 (2), each to exclusive: each new replica is ready before an old one stops
	// 2. Give n1 back: nothing runs on it any more
	// [lab/fit]: a Job's pods run to their end where they are
}
