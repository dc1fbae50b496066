// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/telemetry/serving"
)

// Ask a server. What happened between two pages is Reading.Since.
func ExampleClient_Fetch() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, metricsPage) }))
	defer server.Close()
	readings, err := serving.NewClient().Fetch(context.Background(), server.URL+"/metrics")
	fmt.Println(len(readings), readings[0].Model, readings[0].GenerationTokens, err)
	// Output: 1 llama 50000 <nil>
}

// TestFetchRefuses: a page that is cut, endless, broken off, of too many or of
// two of the same is none. One of a damaged line is read without it.
func TestFetchRefuses(t *testing.T) {
	head := "# TYPE vllm:generation_tokens_total counter\n"
	var many strings.Builder
	for i := range 300 {
		fmt.Fprintf(&many, "vllm:generation_tokens_total{model_name=\"m%d\"} 1\n", i)
	}
	for name, c := range map[string]struct {
		page http.HandlerFunc
		want string // of the error
		n    int    // readings
	}{
		"cut":     {say(head + "vllm:generation_tokens_total{model_name=\"m\"} 123"), "cut short", 0},
		"endless": {say(head + strings.Repeat("x", 5<<20) + "\n"), "more than 4 MiB", 0},
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, head+"vllm:generation_tokens_total 7\n")
		}, "unexpected EOF", 0},
		"many":    {say(head + many.String()), "300 replicas and models", 0},
		"twice":   {say(head + "vllm:generation_tokens_total 1\n" + head + "vllm:generation_tokens_total 2\n"), "twice", 0},
		"refused": {http.NotFound, "404", 0},
		"empty":   {say(""), serving.ErrNone.Error(), 0},
		"damaged": {say(head + "vllm:generation_tokens_total 7\nwhat is this\n"), "line 3", 1},
		"whole":   {say(head + "vllm:generation_tokens_total 7\n"), "", 1},
	} {
		server := httptest.NewServer(c.page)
		readings, err := serving.NewClient().Fetch(t.Context(), server.URL)
		server.Close()
		if len(readings) != c.n || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d readings, %v", name, len(readings), err)
		}
	}
	if _, err := serving.NewClient().Fetch(t.Context(), "http://127.0.0.1:1/\x00"); err == nil {
		t.Error("a URL that is none")
	}
}

// TestCounter: a metric is the sum of its series; a page that is cut or damaged, and a figure that is no count, are errors.
func TestCounter(t *testing.T) {
	head := "# TYPE steps_total counter\n"
	for name, c := range map[string]struct {
		page, want string
		sum        float64
	}{
		"whole":     {head + "steps_total{rank=\"0\"} 3\nsteps_total{rank=\"1\"} 4\nother 5\n", "", 7},
		"cut":       {head + "steps_total 12", "cut short", 0},
		"endless":   {head + strings.Repeat("x", 5<<20) + "\n", "more than 4 MiB", 0},
		"damaged":   {head + "steps_total 7\nwhat is this\n", "line 3", 0},
		"missing":   {"other 5\n", "no metric steps_total", 0},
		"no count":  {"steps_total NaN\n", "counts nothing", 0},
		"endlessly": {"steps_total +Inf\n", "counts nothing", 0},
		"negative":  {"steps_total -1\n", "counts nothing", 0},
	} {
		server := httptest.NewServer(say(c.page))
		sum, err := serving.NewClient().Counter(t.Context(), server.URL, "steps_total")
		server.Close()
		if sum != c.sum || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", name, sum, err)
		}
	}
}

func say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}
