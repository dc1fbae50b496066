// SPDX-License-Identifier: Apache-2.0

package prompt_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/prompt"
)

// TestReplayedBlocksAreSharedPrefixes: a server with a prefix cache finds exactly those
// tokens of a replayed Mooncake trace there whose leading block hashes it has seen.
func TestReplayedBlocksAreSharedPrefixes(t *testing.T) {
	const lines = `{"timestamp": 0, "input_length": 1200, "output_length": 2, "hash_ids": [0, 1, 2]}
{"timestamp": 1, "input_length": 1500, "output_length": 2, "hash_ids": [0, 1, 9]}
{"timestamp": 2, "input_length": 600, "output_length": 2, "hash_ids": [7, 1]}
{"timestamp": 3, "input_length": 520, "output_length": 2, "hash_ids": [0, 5]}
{"timestamp": 4, "input_length": 1500, "output_length": 2, "hash_ids": [0, 1, 9]}
`
	// In tokens: nothing; blocks 0 and 1; nothing, since block 1 follows another; block 0;
	// all of the second prompt's whole cache blocks of 16.
	want := []int{0, 1024, 0, 512, 1488}
	trace, err := prompt.ReadTrace(prompt.TraceMooncake, strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	for _, api := range []loadgen.API{loadgen.APIChat, loadgen.APICompletions} {
		srv, err := loadgentest.NewServer(loadgentest.Options{CacheBlocks: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		prompts, err := trace.Prompts(prompt.TraceOptions{Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		res, err := loadgen.Run(context.Background(), loadgen.LoadPlan{Tenants: []loadgen.Tenant{{
			Name: "t", API: api, Endpoints: []loadgen.Endpoint{{URL: srv.URL}}, Prompts: prompts, Load: loadgen.OfferedLoad{Concurrency: 1},
		}}}, loadgen.Options{KeepRecords: true})
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for i, r := range res.Records {
			got, ok := r.CachedTokens.Get()
			if !ok || got != want[i] {
				t.Errorf("%v: %v tokens of request %d were cached, want %d", api, r.CachedTokens, i, want[i])
			}
			total += want[i]
		}
		if c := res.Summary.PromptCache; c == nil || c.CachedTokens != int64(total) || c.Hits != 3 || len(res.Records) != 5 {
			t.Errorf("%v: %+v", api, c)
		}
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	}
}
