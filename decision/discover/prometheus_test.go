package discover_test

import (
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

// A Prometheus server is asked for all series of the window in one query, and what it refuses is said.
func TestReadPrometheus(t *testing.T) {
	end := time.Unix(1793700000, 0)
	answer, status := `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"DCGM_FI_DEV_FB_USED","Hostname":"n","UUID":"GPU-1","gpu":"0"},"values":[[1793699940,"1000"],[1793700000,"2000"]]}]}}`, http.StatusOK
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
