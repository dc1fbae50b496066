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
func ExampleFetch() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, metricsPage) }))
	defer server.Close()
	readings, err := serving.Fetch(context.Background(), server.URL+"/metrics")
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
		readings, err := serving.Fetch(t.Context(), server.URL)
		server.Close()
		if len(readings) != c.n || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d readings, %v", name, len(readings), err)
		}
	}
	if _, err := serving.Fetch(t.Context(), "http://127.0.0.1:1/\x00"); err == nil {
		t.Error("a URL that is none")
	}
}

func say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}
