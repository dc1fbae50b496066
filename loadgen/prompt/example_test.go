// SPDX-License-Identifier: Apache-2.0

package prompt_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/cotenant/cotenant/loadgen/prompt"
)

// A trace gives a tenant its arrivals and its prompts.
func ExampleReadTrace() {
	trace, err := prompt.ReadTrace(strings.NewReader(
		"TIMESTAMP,ContextTokens,GeneratedTokens\n" +
			"2023-11-16 18:15:46.6805900,374,44\n" +
			"2023-11-16 18:15:50.9951690,396,109\n" +
			"2023-11-16 18:15:51.2224670,879,55\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	part := trace.Slice(0, 5*time.Second)
	prompts := part.Prompts(1)
	for at := range part.Schedule(2).Arrivals(nil) {
		p, err := prompts.Next()
		fmt.Println(at, p.PromptTokens, p.MaxTokens, err)
	}
	// Output:
	// 0s 374 44 <nil>
	// 2.1572895s 396 109 <nil>
	// 2.2709385s 879 55 <nil>
}

// A bad prompts file is refused whole, every bad line named.
func ExampleRead() {
	_, err := prompt.Read(strings.NewReader(`{"prompt": "Why is the sky blue?", "max_tokens": 32}
{"promt": "Hello"}
{"messages": [{"role": "user"}]}
`))
	fmt.Println(err)
	// Output:
	// loadgen: unusable input: line 2.promt: unknown field (did you mean "prompt"?)
	// line 2: neither prompt nor messages (give exactly one of "prompt" and "messages")
	// line 3.messages[0].content: missing (add it)
}

// Made-up prompts of given lengths, with a system prompt shared by a third of the requests each.
func ExampleNewSynthetic() {
	source, err := prompt.NewSynthetic(prompt.SyntheticOptions{
		Input: prompt.Lengths{LogNormal: &prompt.LogNormal{Median: 5, Sigma: 0.5, Max: 20}}, Output: prompt.Lengths{Fixed: 64},
		Prefix: prompt.SharedPrefix{Groups: 3, Tokens: 4}, Seed: 1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		p, err := source.Next()
		fmt.Println(p.PromptTokens, p.MaxTokens, p.Text, err)
	}
	_, err = prompt.NewSynthetic(prompt.SyntheticOptions{Input: prompt.Lengths{Fixed: -1}})
	fmt.Println(err)
	// Output:
	// 10 64 old their much people how to those most get did <nil>
	// 10 64 now did through came day great has off get not <nil>
	// loadgen: invalid synthetic prompts: input.length: is -1 (use 1 to 100000000 tokens)
	// output: 0 of them (set exactly one of fixed, log_normal and empirical)
}
