package loadgen_test

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cotenant/cotenant/loadgen"
)

// A trace gives a tenant its arrivals and its prompts.
func ExampleReadTrace() {
	trace, err := loadgen.ReadTrace(loadgen.TraceAzure, strings.NewReader(
		"TIMESTAMP,ContextTokens,GeneratedTokens\n"+
			"2023-11-16 18:15:46.6805900,374,44\n"+
			"2023-11-16 18:15:50.9951690,396,109\n"+
			"2023-11-16 18:15:51.2224670,879,55\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	part := trace.Slice(0, 5*time.Second)
	prompts, err := part.Prompts(loadgen.TracePromptOptions{MaxInput: 300})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(part.Schedule(2))
	for at := range part.Schedule(2).Arrivals(nil) {
		p, err := prompts.Next()
		fmt.Println(at, p.PromptTokens, p.MaxTokens, err)
	}
	// Output:
	// trace of 3 arrivals at speed 2, from 0s to its end
	// 0s 300 44 <nil>
	// 2.1572895s 300 109 <nil>
	// 2.2709385s 300 55 <nil>
}

// A bad prompts file is refused whole, every bad line named.
func ExampleReadPrompts() {
	_, err := loadgen.ReadPrompts(strings.NewReader(`{"prompt": "Why is the sky blue?", "max_tokens": 32}
{"promt": "Hello"}
{"messages": [{"role": "user"}]}
`))
	fmt.Println(err)
	// Output:
	// loadgen: unusable input: line 2.promt: unknown field (did you mean "prompt"?)
	// line 2: neither prompt nor messages (give exactly one of "prompt" and "messages")
	// line 3.messages[0].content: missing (add it)
}

// Three runs of each cannot show a difference at 5%, however far apart they are.
func ExampleCompare() {
	c, err := loadgen.Compare("ttft_ms.p99", []float64{50, 51, 52}, []float64{90, 91, 92}, loadgen.CompareOptions{})
	fmt.Println(c.Verdict, c.Reasons, err)
	c, err = loadgen.Compare("ttft_ms.p99", []float64{50, 51, 52, 53}, []float64{90, 91, 92, 93}, loadgen.CompareOptions{})
	fmt.Printf("%v by %.0f ms (p %.3f) %v\n", c.Verdict, c.Shift, *c.P, err)
	// Output:
	// unsupported [3 and 3 values cannot show a difference at level 0.05: the least possible p is 0.1 (use at least 4 of each)] <nil>
	// higher by 40 ms (p 0.029) <nil>
}

// Results of other tools keep their names and definitions.
func ExampleReadResults() {
	f, err := os.Open("testdata/results/aiperf.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	results, err := loadgen.ReadResults("aiperf.json", f)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, fig := range results[0].Figures {
		if fig.Statistic == "p99" {
			fmt.Println(fig.Name, fig.Value, fig.Unit, "-", strings.SplitAfter(fig.Definition, ".")[0])
		}
	}
	// Output:
	// time_to_first_token.p99 69 ms - First response with content or reasoning minus the request's start; a role-only one is skipped.
	// inter_token_latency.p99 20.4 ms - (request_latency - time_to_first_token)/(n - 1), a mean for each request: what others call TPOT.
	// request_latency.p99 2049.5 ms - Last response with content minus the request's start.
}

// Made-up prompts of given lengths, with a system prompt shared by a third of
// the requests each.
func ExampleNewSynthetic() {
	source, err := loadgen.NewSynthetic(loadgen.SyntheticOptions{
		Input: loadgen.LogNormal{Median: 5, Sigma: 0.5, Max: 20}, Output: loadgen.Fixed(64),
		Prefix: loadgen.SharedPrefix{Groups: 3, Tokens: 4}, Seed: 1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		p, err := source.Next()
		fmt.Println(p.Prefix, p.PromptTokens, p.MaxTokens, p.Text, err)
	}
	_, err = loadgen.NewSynthetic(loadgen.SyntheticOptions{Input: loadgen.Fixed(0)})
	fmt.Println(err)
	// Output:
	// p0 10 64 old their much people how to those most get did <nil>
	// p1 10 64 now did through came day great has off get not <nil>
	// loadgen: invalid synthetic prompts: input.length: is 0 (use 1 to 100000000 tokens)
	// output: missing (set it, e.g. to loadgen.Fixed(128))
}
