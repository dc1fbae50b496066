package ledger

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// latencies is a page of a server: so many requests of ten tokens each ended, of which the first number took at most
// 100 ms to the first token, and 10 ms a token, the second at most 200 and 20 ms, and the third longer.
func latencies(ttft, tpot [3]int) string {
	var b strings.Builder
	total := 0
	for name, h := range map[string]struct {
		counts [3]int
		bounds []string
	}{"time_to_first_token_seconds": {ttft, []string{"0.1", "0.2", "+Inf"}}, "request_time_per_output_token_seconds": {tpot, []string{"0.01", "0.02", "+Inf"}}} {
		fmt.Fprintf(&b, "# TYPE vllm:%s histogram\n", name)
		n, sum := 0, 0.0
		for i, c := range h.counts {
			n += c
			sum += float64(c) * []float64{0.008, 0.015, 0.03}[i]
			if name == "time_to_first_token_seconds" {
				sum += float64(c) * []float64{0.072, 0.135, 0.27}[i]
			}
			fmt.Fprintf(&b, "vllm:%s_bucket{model_name=\"m\",le=%q} %d\n", name, h.bounds[i], n)
		}
		fmt.Fprintf(&b, "vllm:%s_sum{model_name=\"m\"} %v\nvllm:%s_count{model_name=\"m\"} %d\n", name, sum, name, n)
		total = n
	}
	fmt.Fprintf(&b, "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{model_name=\"m\"} %d\n", 10*total)
	return b.String()
}

// TestGoodTokens: what histograms tell of how many tokens kept an objective, and no more.
func TestGoodTokens(t *testing.T) {
	pod := container.Pod{Namespace: "shop", Name: "web", Container: "c"}
	none := latencies([3]int{}, [3]int{})
	for name, c := range map[string]struct {
		objective Objective
		pages     []string
		want      string // as it is stored
	}{
		"at a bound":    {Objective{TTFT: telemetry.Some(0.2)}, []string{none, latencies([3]int{6, 2, 2}, [3]int{0, 0, 10})}, "- 100 80 80 0"},
		"between two":   {Objective{TTFT: telemetry.Some(0.15)}, []string{none, latencies([3]int{6, 2, 2}, [3]int{0, 0, 10})}, "- 100 60 80 0"},
		"beyond all":    {Objective{TTFT: telemetry.Some(9.0)}, []string{none, latencies([3]int{6, 2, 2}, [3]int{0, 0, 10})}, "- 100 80 100 0"},
		"two latencies": {Objective{TTFT: telemetry.Some(0.1), TPOT: telemetry.Some(0.01)}, []string{none, latencies([3]int{8, 1, 1}, [3]int{7, 3, 0})}, "- 100 50 70 0"},
		"hardly any":    {Objective{TTFT: telemetry.Some(0.1), TPOT: telemetry.Some(0.01)}, []string{none, latencies([3]int{3, 7, 0}, [3]int{3, 7, 0})}, "- 100 0 30 0"},
		"not said":      {Objective{E2E: telemetry.Some(1.0)}, []string{none, latencies([3]int{6, 2, 2}, [3]int{0, 0, 10})}, "- 100 - - 100"},
		"only what was seen": {Objective{TTFT: telemetry.Some(0.2)}, []string{latencies([3]int{0, 0, 90}, [3]int{0, 0, 90}),
			latencies([3]int{10, 0, 90}, [3]int{10, 0, 90})}, "- 100 100 100 0"},
		"restarted": {Objective{TTFT: telemetry.Some(0.2)}, []string{none, latencies([3]int{10, 0, 0}, [3]int{10, 0, 0}), // the 30 tokens that follow may be good
			latencies([3]int{0, 0, 3}, [3]int{0, 0, 3}), latencies([3]int{0, 0, 5}, [3]int{0, 0, 5})}, "- 150 100 130 0"},
		"no request ended": {Objective{TTFT: telemetry.Some(0.2)}, []string{none, strings.Replace(none, "} 0", "} 0", 1) + "vllm:generation_tokens_total{model_name=\"n\"} 5\n"}, "- 5 0 5 0"},
	} {
		s := NewServers(map[container.Pod]Page{pod: {Objective: c.objective}}, slog.New(slog.DiscardHandler))
		for _, page := range c.pages {
			readings, err := serving.Parse(strings.NewReader(page))
			s.note(pod, readings, err)
		}
		got := s.changes()
		if len(got) != 1 || string(got[0].Value) != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What was not judged when the exporter ended is as much as may have been good.
func TestUnjudgedOverRestart(t *testing.T) {
	kept, err := parseTokens(Record{Name: "tokens a/b/c", Value: []byte("10 100 40 60 30")})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(kept.resume().record()); got != "10 100 40 90 -" {
		t.Error(got)
	}
	old, err := parseTokens(Record{Name: "tokens a/b/c", Value: []byte("10 100")})
	if err != nil || string(old.resume().record()) != "10 100 - - -" {
		t.Error(string(old.resume().record()), err)
	}
}
