// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/sharing"
)

// TestReadPrometheus: one query fetches all series of the window, and a refusal is reported.
func TestReadPrometheus(t *testing.T) {
	end := time.Unix(1793700000, 0)
	answer, status := `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"DCGM_FI_DEV_FB_USED","Hostname":"n","UUID":"GPU-1","gpu":"0","namespace":"t","pod":"p"},"values":[[1793699940,"1000"],[1793700000,"2000"]]}]}}`, http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		user, password, _ := r.BasicAuth()
		if r.URL.Path != "/prom/api/v1/query_range" || q.Get("start") != "1793095200" || q.Get("end") != "1793700000" || q.Get("step") != "300" ||
			!strings.Contains(q.Get("query"), "|DCGM_FI_DEV_GPU_UTIL|") || user != "ada" || password != "s3cret" {
			t.Errorf("%s as %s", r.URL, user)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	at := strings.Replace(server.URL, "//", "//ada:s3cret@", 1) + "/prom"
	c := discover.New(discover.Options{})
	for _, err := range []error{c.Read("objects", strings.NewReader(list(aNode("n", l4, "", "nvidia.com/gpu=1"), aPod("p", "n", "x=1")))), c.ReadPrometheus(t.Context(), at, end, 7*24*time.Hour)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if d := c.Discover(); len(d.Used) != 1 || d.Used[0].MemoryMax.Or(0) != 2000*sharing.MiB {
		t.Errorf("%+v", d.Used)
	}
	for text, want := range map[string]string{`{"status":"error","errorType":"execution","error":"too many samples"}`: `too many samples" (query again) (422`, "no such path": "of no kind that is read"} {
		answer, status = text, http.StatusUnprocessableEntity
		if err := discover.New(discover.Options{}).ReadPrometheus(t.Context(), at, end, 7*24*time.Hour); !errors.Is(err, discover.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Error(err)
		}
	}
	server.Close()
	if err := c.ReadPrometheus(t.Context(), at, end, time.Hour); err == nil || errors.Is(err, discover.ErrInvalid) || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
	if err := c.ReadPrometheus(t.Context(), "prometheus:9090", end, time.Hour); !errors.Is(err, discover.ErrInvalid) {
		t.Error(err)
	}
}

// TestBadPrometheus: the partial answer of a slow server is used, and a server behind a login is named with the remedy.
func TestBadPrometheus(t *testing.T) {
	end := time.Unix(1793700000, 0)
	for name, c := range map[string]struct {
		answer, kind, want string
		status             int
		slow               bool
	}{
		"slow":       {`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"DCGM_FI_DEV_FB_USED","Hostname":"n","UUID":"GPU-1","gpu":"0","namespace":"t","pod":"p"},"values":[[1793700000,"2000"]]},`, "application/json", "did not answer in full in 0 s: what had come is used", 200, true},
		"login":      {"<html>", "text/html; charset=utf-8", "wants a login (200 OK): write https://USER:PASSWORD@HOST", 200, false},
		"no login":   {"Unauthorized", "text/plain", "wants a login (401 Unauthorized)", 401, false},
		"no answers": {`{"status":"success","data":{"resultType":"matrix","result":[]}}`, "application/json", "it has no series", 200, false},
	} {
		done := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.answer)
			if c.slow {
				w.(http.Flusher).Flush()
				<-done
			}
		}))
		ctx, cancel := context.WithTimeout(t.Context(), map[bool]time.Duration{true: 100 * time.Millisecond, false: time.Minute}[c.slow])
		col := discover.New(discover.Options{})
		if err := col.Read("objects", strings.NewReader(list(aNode("n", l4, "", "nvidia.com/gpu=1"), aPod("p", "n", "x=1")))); err != nil {
			t.Fatal(err)
		}
		err := col.ReadPrometheus(ctx, server.URL, end, 7*24*time.Hour)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if used := col.Discover().Used; c.slow != (len(used) == 1 && used[0].MemoryMax.Or(0) == 2000*sharing.MiB) {
			t.Errorf("%s: %+v", name, used)
		}
		cancel()
		close(done)
		server.Close()
	}
}
