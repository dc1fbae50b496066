// SPDX-License-Identifier: Apache-2.0

package canary_test

import (
	"fmt"
	"time"

	"github.com/cotenant/cotenant/decision/canary"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// seen is a second in which four requests of each of two tenants ended.
func seen(at int, newcomer, chat float64) canary.Snapshot {
	requests := func(v float64) canary.Seen {
		return canary.Seen{Metrics: []canary.Sample{{Values: []float64{0.9 * v, 0.97 * v, 1.03 * v, 1.1 * v}}}}
	}
	return canary.Snapshot{
		At: time.Duration(at) * time.Second, Tenants: []canary.Seen{requests(newcomer), requests(chat)},
	}
}

// A newcomer co-located with a chat, both of which keep their median time to the first token: the whole program.
func Example() {
	c, err := canary.New(canary.Plan{Tenants: []canary.Tenant{
		{Name: "newcomer", Objectives: []canary.Objective{{Metric: "ttft", Limit: 0.4}}},
		{Name: "chat", Objectives: []canary.Objective{{Metric: "ttft", Limit: 0.3}}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	second := 0
	for c.Observe(seen(second, 0.25, 0.2)) == canary.KeepObserving {
		second++
	}
	r := c.Result()
	fmt.Printf("%s after %v: %s (wrongly in at most %v)\n", r.Verdict, r.At, r.Reason, r.WrongPromotion)
	// Output: promote after 1m50s: every objective of every tenant is kept (wrongly in at most 0.01)
}

// The neighbour suffers from the third minute on.
func ExampleCanary_Observe() {
	c, err := canary.New(canary.Plan{WrongPromotion: 1e-6, Tenants: []canary.Tenant{
		{Name: "newcomer", Objectives: []canary.Objective{{Metric: "ttft", Limit: 0.4}}},
		{Name: "chat", Objectives: []canary.Objective{{Metric: "ttft", Limit: 0.3}}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	chat, second := 0.2, 0
	for ; c.Observe(seen(second, 0.25, chat)) == canary.KeepObserving; second++ {
		if second == 120 {
			chat = 1.2
		}
	}
	fmt.Println(c.Result().Verdict, c.Result().At)
	fmt.Println(c.Result().Reason)
	// Output:
	// take back 2m46s
	// chat: 75% of the last minute's ttft lie beyond 0.3, where 50% may
}

// A metrics page has no bucket edge at the limit: most requests may lie on either side of it.
func ExampleCanary_Result() {
	c, err := canary.New(canary.Plan{Deadline: 5 * time.Minute, Tenants: []canary.Tenant{
		{Name: "newcomer", Objectives: []canary.Objective{{Metric: "ttft", Limit: 0.4}}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	page := serving.Histogram{Count: 10, Buckets: []serving.Bucket{{Upper: 0.25, Count: 2}, {Upper: 0.5, Count: 10}}}
	for second := 0; !c.Result().Done; second++ {
		c.Observe(canary.Snapshot{At: time.Duration(second) * time.Second,
			Tenants: []canary.Seen{{Metrics: []canary.Sample{{Histogram: &page}}}}})
	}
	fmt.Println(c.Result().Verdict)
	fmt.Println(c.Result().Needs[0])
	// Output:
	// cannot tell
	// newcomer ttft: a bucket of its page around its limit of 0.4 holds 80% of the observations: add an edge at the limit
}

// No test can decide a 99th percentile in two minutes, which New refuses.
func ExampleNew() {
	_, err := canary.New(canary.Plan{Deadline: 2 * time.Minute, Tenants: []canary.Tenant{
		{Name: "newcomer", Objectives: []canary.Objective{{Metric: "ttft", Quantile: 0.99, Limit: 0.4}}},
	}})
	fmt.Println(err)
	// Output:
	// canary: the deadline is shorter than any test can take: newcomer ttft needs 1h46m0s at the least of quantile 0.99 with 0.01 wrong promotions, the deadline is 2m0s (make it longer, allow more, or set after_promotion)
}
