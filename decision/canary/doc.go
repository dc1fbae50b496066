// SPDX-License-Identifier: Apache-2.0

// Package canary tests at every snapshot whether a new replica and its neighbours on a GPU meet their objectives. The
// verdict is promote, take back, keep observing or, at the deadline, cannot tell, with the data that would decide.
//
//	c, err := canary.New(canary.Plan{Deadline: 30 * time.Minute, Tenants: []canary.Tenant{
//		{Name: "newcomer", Objectives: []canary.Objective{{Metric: "ttft", Quantile: 0.5, Limit: 0.4}}},
//		{Name: "chat", Objectives: []canary.Objective{{Metric: "ttft", Quantile: 0.5, Limit: 0.3}}},
//	}})
//	for c.Observe(snapshot()) == canary.KeepObserving { // once a second, from anything
//		time.Sleep(time.Second)
//	}
//	fmt.Println(c.Result())
//
// The test uses the shares of requests beyond a limit in blocks of time. Blocks are as long as disturbances that affect
// all requests, estimated online by a bank of Kalman filters. On the blocks' shares it bets (Waudby-Smith and Ramdas,
// Estimating means of bounded random variables by betting, JRSS B 2024): the capital is an e-process, so that repeated
// testing does not raise the error rate (Ville's inequality). Promotion needs that evidence for every objective of
// every tenant. Taking back needs evidence against one, by a Shiryaev-Roberts e-detector (Shin, Ramdas and Rinaldo,
// E-detectors, 2024), since harm may begin at any time.
//
// The one assumption: for a tenant exactly at its limit the expected share of a block, given all earlier ones, is
// within a quarter of the limit's. The bounds in a Result hold under it; the tests compare them with simulated noise.
//
// A Canary's only input is its snapshots. An [Endpoint] reads metrics pages and answers Argo Rollouts and Flagger,
// which place, promote and take back. It is experimental: its API may change between minor versions.
package canary
