// SPDX-License-Identifier: Apache-2.0

package decision_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/sharing"
)

const fourTeams = `
version: v1
pools:
  - {name: prod, gpu: A100-SXM4-80GB, count: 4, price_per_gpu_hour: "3.25 USD"}
workloads:
  - {name: ads,  kind: online-inference, model: {parameters: 7e9, weights: fp16}, gpu_busy: 0.2, tenant: ads,  isolation: {memory: hardware, fault: hardware}}
  - {name: chat, kind: online-inference, model: {parameters: 7e9, weights: fp16}, gpu_busy: 0.2, tenant: chat, isolation: {memory: hardware, fault: hardware}}
  - {name: docs, kind: online-inference, model: {parameters: 7e9, weights: fp16}, gpu_busy: 0.2, tenant: docs, isolation: {memory: hardware, fault: hardware}}
  - {name: mail, kind: online-inference, model: {parameters: 7e9, weights: fp16}, gpu_busy: 0.2, tenant: mail, isolation: {memory: hardware, fault: hardware}}
`

// Decide chooses a mechanism for each workload, with its cost.
func ExampleDecide() {
	fleet, err := decision.ParseFleet([]byte(fourTeams))
	if err != nil {
		log.Fatal(err)
	}
	result, err := decision.Decide(context.Background(), fleet, decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range result.Decisions {
		fmt.Println(d.Workload, d.Mechanism, d.Profile, "on", d.Pool, d.Cost.PerWorkloadHour, d.Cost.Currency)
	}
	fmt.Println(result.Totals.MonthlyToday, "->", result.Totals.MonthlyAfter)
	// Output:
	// ads mig 1g.20gb on prod 0.8125 USD
	// chat mig 1g.20gb on prod 0.8125 USD
	// docs mig 1g.20gb on prod 0.8125 USD
	// mail mig 1g.20gb on prod 0.8125 USD
	// 9490.00 -> 2372.50
}

// Work that must end in time gets the cheapest place that finishes it: here a GPU that costs less than the one on which
// its time was measured.
func ExampleDecide_deadline() {
	fleet, err := decision.ParseFleet([]byte(`
version: v1
pools:
  - {name: a100, gpu: A100-SXM4-80GB, count: 2, price_per_gpu_hour: "1.80 USD"}
  - {name: h100, gpu: H100-80GB, count: 2, price_per_gpu_hour: "9.90 USD"}
workloads:
  - {name: nightly, kind: training, memory: 30GiB, gpu_busy: 0.6, job: {duration: 4h, on: H100-80GB, deadline: 24h}}
`))
	if err != nil {
		log.Fatal(err)
	}
	for _, deadline := range []string{"24h", "8h", "3h"} {
		if err := fleet.Workloads[0].Job.Deadline.UnmarshalText([]byte(deadline)); err != nil {
			log.Fatal(err)
		}
		result, err := decision.Decide(context.Background(), fleet, decision.Options{})
		if err != nil {
			log.Fatal(err)
		}
		d := result.Decision("nightly")
		fmt.Println(deadline, d.Mechanism, d.Pool, d.Why)
	}
	// Output:
	// 24h exclusive a100 finishes in 9.21 h (3.43 to 14.88) of 24
	// 8h exclusive h100 finishes in 4 h (3.64 to 4.39) of 8
	// 3h none  exclusive on h100: the predicted time to finish is 4 h (3.641 to 4.394), the deadline 3 h
}

// Every candidate keeps its reasons, with a code and a source.
func ExampleDecide_reasons() {
	fleet, err := decision.ParseFleet([]byte(fourTeams))
	if err != nil {
		log.Fatal(err)
	}
	result, err := decision.Decide(context.Background(), fleet, decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range result.Decision("ads").Candidates {
		if c.Mechanism == sharing.MechanismTimeSlicing {
			for _, r := range c.Reasons {
				fmt.Printf("%s: %s [%s]\n", c.Verdict, r.Code, r.Source)
			}
		}
	}
	// Output:
	// reject: isolation [nvidia-gpu-operator-sharing]
	// reject: isolation [k8s-device-plugin]
	// reject: untrusted [nvidia-gpu-operator-sharing]
	// reject: kv-cache-prior [lucaberton-sharing]
}

// ParseFleet names every problem of a file, with path and remedy.
func ExampleParseFleet() {
	_, err := decision.ParseFleet([]byte(`
version: v1
pools:
  - {name: prod, gpu: A100-SXM5-80GB, count: 4}
workloads:
  - {name: chat, kind: online-inference, memory: 18GiB, gpu_bsy: 0.25, slo: {ttft_p99: -5ms}}
`))
	fmt.Println(err)
	// Output:
	// workloads[0].gpu_bsy: unknown key (did you mean "gpu_busy"?)
	// pools[0].gpu: sharing: unknown GPU "A100-SXM5-80GB"; did you mean "A100-SXM4-80GB" or "A100-SXM4-40GB"? Or describe it: gpu: {name: My GPU, memory: 16GiB, bandwidth: 448, sms: 46, compute: "8.6"}
	// workloads[0].slo.ttft_p99: -5ms is out of range (write a positive duration, for example 500ms)
}

// What would less confidence be worth, or HAMi if it were installed?
func ExampleCompare() {
	fleet, err := decision.ParseFleet([]byte(`
version: v1
pools:
  - {name: t4, gpu: T4, count: 4, price_per_gpu_hour: "0.53 USD"}
  - {name: l40s, gpu: L40S, count: 4, price_per_gpu_hour: "1.86 USD"}
  - {name: h100, gpu: H100 80GB HBM3, count: 4, price_per_gpu_hour: "9.10 USD"}
workloads:
  - {name: dev, kind: online-inference, replicas: 4, memory: 3GiB, gpu_busy: 0.1, tenant: shop}
  - {name: chat, kind: online-inference, replicas: 4, tenant: help, slo: {tpot_p99: 40ms},
     model: {parameters: 8e9, weights: fp16, layers: 32, kv_heads: 8, head_dim: 128},
     load: {requests_per_s: 2, input_tokens: 1000, output_tokens: 250}}
`))
	if err != nil {
		log.Fatal(err)
	}
	plain, unsure, hami := decision.Options{}, decision.Options{Confidence: 0.8}, decision.Options{}
	hami.Allow = []sharing.Mechanism{sharing.MechanismHAMi}
	c, err := decision.Compare(context.Background(), fleet, plain, unsure, hami)
	if err != nil {
		log.Fatal(err)
	}
	_ = c.WriteText(os.Stdout)
	// Output:
	// options      plain                           confidence=0.8                        allow=hami
	// confidence   97%                             80%                                   97%
	// decided      2 workloads                     2 workloads                           2 workloads
	// replicas     8 of 8 placed                   8 of 8 placed                         8 of 8 placed
	// GPUs         3, 12 today                     6, 12 today                           2, 12 today
	// a month      7,416.80 USD                    6,205 USD                             7,029.90 USD
	// freed        26,134 USD                      27,345.80 USD                         26,520.90 USD
	// chat         4 x mps on h100, 9.10 an hour   4 x exclusive on l40s, 7.44 an hour   4 x mps on h100, 9.10 an hour
	// dev          4 x mps on t4, 1.06 an hour     4 x mps on t4, 1.06 an hour           4 x hami on t4, 0.53 an hour
}
