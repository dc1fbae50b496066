// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"math"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// FuzzPages reads any pages of a tenant's server, one after another: no count goes back or ceases to be a number.
func FuzzPages(f *testing.F) {
	const page = "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{model_name=\"m\"} "
	f.Add(page + "1\n\x00" + page + "900\n\x00" + page + "1.7e308\n\x00" + page + "950\n")
	f.Add(page + "7\n\x00<html>\x00" + page + "8\n# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total 3\n")
	f.Add("# TYPE vllm:time_to_first_token_seconds histogram\nvllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 5\n" +
		"vllm:time_to_first_token_seconds_count 5\nvllm:time_to_first_token_seconds_sum 1\n" + page + "5\n\x00" + page + "50\n")
	f.Add(page + "NaN\n\x00" + page + "-4\n\x00" + page + "+Inf\n\x00" + page + "12\n")
	f.Fuzz(func(t *testing.T, pages string) {
		a := New(Options{Clock: still, Servers: map[container.Pod]string{shop: ""}})
		var before Tokens
		for _, text := range strings.SplitN(pages, "\x00", 20) {
			readings, err := serving.Parse(strings.NewReader(text))
			a.servers.note(shop, readings, err)
			now := a.View().Tokens[shop]
			for k, n := range now.fields() {
				if v, was := n.Or(0), before.fields()[k].Or(0); !(v >= was) || math.IsInf(v, 0) {
					t.Fatalf("%q: %v after %v", text, now, before)
				}
			}
			before = now
		}
	})
}
