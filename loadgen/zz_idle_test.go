package loadgen_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/cotenant/cotenant/loadgen"
)

func TestZZIdle(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	body := content("a") + finish + done
	srv := &http.Server{IdleTimeout: 30 * ms, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		io.WriteString(w, body)
	})}
	go srv.Serve(ln)
	defer srv.Close()
	for _, receive := range []loadgen.Receive{loadgen.ReceivePolled, loadgen.ReceiveStamped, loadgen.ReceivePlain} {
		plan := planFor(loadgen.Endpoint{URL: "http://" + ln.Addr().String()}, 9000)
		plan.Tenants[0].Load = loadgen.OfferedLoad{Concurrency: 64, ThinkTime: 29 * time.Millisecond}
		res, err := loadgen.Run(t.Context(), plan, loadgen.Options{Receive: receive, KeepRecords: true})
		if err != nil {
			t.Fatal(err)
		}
		c := res.Summary.Counts
		errs := map[string]int{}
		for _, r := range res.Records {
			if r.Error != "" && len(r.Error) > 30 {
				errs[r.Error[len(r.Error)-30:]]++
			} else if r.Error != "" {
				errs[r.Error]++
			}
		}
		t.Logf("%v: %+v %v, %v", receive, c.ByClass, c.Stale, errs)
	}
}
