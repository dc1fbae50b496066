// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

const tokensPage = "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total 7\n"

// TestFetchAsksNobodyElse lets a page redirect to another server, and sets a proxy: neither gets a request.
func TestFetchAsksNobodyElse(t *testing.T) {
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, tokensPage)
	}))
	defer other.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		page := httptest.NewServer(http.RedirectHandler(other.URL, code))
		readings, err := NewClient().Fetch(t.Context(), page.URL)
		if len(readings) != 0 || err == nil || !strings.Contains(err.Error(), "redirects is not read") {
			t.Errorf("%d: %v, %v", code, readings, err)
		}
		if n, err := NewClient().Counter(t.Context(), page.URL, "vllm:generation_tokens_total"); n != 0 || err == nil || !strings.Contains(err.Error(), "redirects is not read") {
			t.Errorf("%d: a count of %v, %v", code, n, err)
		}
		page.Close()
	}
	if transport := NewClient().http.Transport.(*http.Transport); transport.Proxy != nil {
		t.Error("a proxy of the environment is used")
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests reached another server", n)
	}
}
