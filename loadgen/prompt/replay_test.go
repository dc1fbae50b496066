// SPDX-License-Identifier: Apache-2.0

package prompt_test

import (
	"strings"
	"testing"

	"github.com/cotenant/cotenant/loadgen/prompt"
)

// TestReplayedBlocksAreSharedPrefixes: the prompts of a replayed Mooncake trace share exactly the words of the leading
// blocks that they have in common.
func TestReplayedBlocksAreSharedPrefixes(t *testing.T) {
	const lines = `{"timestamp": 0, "input_length": 1200, "output_length": 2, "hash_ids": [0, 1, 2]}
{"timestamp": 1, "input_length": 1500, "output_length": 2, "hash_ids": [0, 1, 9]}
{"timestamp": 2, "input_length": 600, "output_length": 2, "hash_ids": [7, 1]}
{"timestamp": 3, "input_length": 520, "output_length": 2, "hash_ids": [0, 5]}
{"timestamp": 4, "input_length": 1500, "output_length": 2, "hash_ids": [0, 1, 9]}
`
	trace, err := prompt.ReadTrace(strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	source := trace.Prompts(3)
	var before [][]string
	for i, want := range []int{0, 1024, 0, 512, 1500} {
		p, err := source.Next()
		if err != nil {
			t.Fatal(err)
		}
		words, most := strings.Fields(p.Text), 0
		for _, other := range before {
			n := 0
			for n < min(len(words), len(other)) && words[n] == other[n] {
				n++
			}
			most = max(most, n)
		}
		if before = append(before, words); most < want || most > want+2 { // other blocks may begin with the same word
			t.Errorf("%d words of prompt %d are shared, want %d", most, i, want)
		}
	}
}
