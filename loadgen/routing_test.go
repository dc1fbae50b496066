// SPDX-License-Identifier: Apache-2.0

package loadgen_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// TestPromptCache: cached tokens that the server reports are counted for each request and in total, and a server that
// reports none leaves no figure.
func TestPromptCache(t *testing.T) {
	words := strings.TrimSpace(strings.Repeat("shared ", 64))
	for _, reports := range []bool{false, true} {
		script := func(r loadgentest.Request) (reply loadgentest.Reply) {
			if reports {
				reply.CachedTokens = optional.Of([]int{0, 64, 0}[r.N])
			}
			return reply
		}
		res, _ := bubble(t, script, func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
			p.Tenants[0].Prompts, p.Tenants[0].Requests = loadgen.Texts(words+" one", words+" two three", "short"), 3
		})
		s := &res.Summary
		if !reports {
			if _, known := res.Records[0].CachedTokens.Get(); known || s.PromptCache != nil {
				t.Errorf("%+v, %+v", res.Records[0], s.PromptCache)
			}
			continue
		}
		want := &loadgen.PromptCache{Requests: 3, Hits: 1, PromptTokens: 65 + 66 + 1, CachedTokens: 64}
		got := *s.PromptCache
		if rate := got.HitRate.Or(0); rate != 64./132 {
			t.Errorf("hit rate %v", rate)
		}
		got.HitRate = want.HitRate
		if diff := cmp.Diff(want, &got); diff != "" {
			t.Error(diff)
		}
		if v, known := res.Records[2].CachedTokens.Get(); !known || v != 0 {
			t.Errorf("the short prompt has %v of its tokens cached", res.Records[2].CachedTokens)
		}
	}
}
