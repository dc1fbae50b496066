// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/review"
)

// cluster is two nodes of two L40S, of which one pod each holds one.
func cluster() *discover.Discovery {
	const node = `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "NAME", "labels": {"nvidia.com/gpu.product": "NVIDIA-L40S",
  "nvidia.com/gpu.count": "2", "nvidia.com/gpu.sharing-strategy": "none", "nvidia.com/gpu.deploy.device-plugin": "true"}}, "status": {"capacity": {"nvidia.com/gpu": "2"}}}`
	const pod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ml", "name": "NAME-5d8-0", "ownerReferences": [{"kind": "ReplicaSet", "name": "NAME-5d8", "controller": true}]},
  "spec": {"nodeName": "NODE", "containers": [{"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}, "status": {"phase": "Running"}}
 {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"namespace": "ml", "name": "NAME-5d8", "ownerReferences": [{"kind": "Deployment", "name": "NAME", "controller": true}]}, "spec": {"replicas": 1}}`
	prices, err := discover.ParsePrices([]byte("L40S: 1.10 USD"))
	if err != nil {
		log.Fatal(err)
	}
	c := discover.New(discover.Options{Prices: prices})
	for _, text := range []string{strings.ReplaceAll(node, "NAME", "a"), strings.ReplaceAll(node, "NAME", "b"),
		strings.NewReplacer("NAME", "rank", "NODE", "a").Replace(pod), strings.NewReplacer("NAME", "embed", "NODE", "b").Replace(pod)} {
		if err := c.Read("cluster.json", strings.NewReader(text)); err != nil {
			log.Fatal(err)
		}
	}
	return c.Discover()
}

// Of pods of which nothing is known it is known still that they fit a GPU like the one that they have.
func ExampleMake() {
	r, err := review.Make(context.Background(), cluster(), decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Answer)
	fmt.Println(r.Plan.Steps[0].Title())
	// Output:
	// Free 1 of 2 nodes: 1,606 USD a month, 1 move, no objective at risk. Idle today: 2 GPUs (1,606 USD a month). Open: 803 USD a month of 1 workload, see the checklist.
	// Move 1 replica of ml/rank from a (1) to b (1), each to exclusive: each new replica is ready before an old one stops
}

// The obstacles to further savings, by the cost of the GPUs that each concerns.
func ExampleReview() {
	r, err := review.Make(context.Background(), cluster(), decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, it := range r.Checklist {
		fmt.Println(it.Monthly, r.Money.Currency, it.Do, it.Workloads)
	}
	// Output:
	// 1606.00 USD measure the memory and busy time of what runs [ml/embed ml/rank]
	// 803.00 USD state the latencies that ml/embed must meet [ml/embed]
	// 803.00 USD state the latencies that ml/rank must meet [ml/rank]
}

// The cost of each workload, and the verdict on it.
func ExampleWorkload() {
	r, err := review.Make(context.Background(), cluster(), decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, w := range r.Workloads {
		fmt.Println(w.Name, w.Runs, w.Monthly, w.Verdict, w.Why)
	}
	// Output:
	// ml/embed 1 x exclusive 803.00 open not known: memory, gpu_busy, slo
	// ml/rank 1 x exclusive 803.00 moves see the plan
}
