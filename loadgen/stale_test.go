package loadgen_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/cotenant/cotenant/loadgen"
)

// TestStaleConnection: a server that gives up a connection that was idle for a while
// has not seen the request, which goes out once more and is counted. On a connection
// in steady use the same end is the answer to the request.
func TestStaleConnection(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	body := content("a") + finish + done
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for n := 0; ; n++ {
					req, err := http.ReadRequest(in)
					if err != nil || n > 0 {
						return // the second request of each connection finds it closed
					}
					_, _ = io.Copy(io.Discard, req.Body)
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s", sse, len(body), body)
				}
			}()
		}
	}()
	for _, receive := range []loadgen.Receive{loadgen.ReceivePolled, loadgen.ReceivePlain} {
		for think, want := range map[time.Duration]int64{150 * ms: 4, 0: 2} {
			plan := planFor(loadgen.Endpoint{URL: "http://" + ln.Addr().String()}, 4)
			plan.Tenants[0].Load = loadgen.OfferedLoad{Concurrency: 1, ThinkTime: think}
			var c loadgen.Counts
			for range 5 { // on a busy machine a connection in steady use may seem idle
				res, err := loadgen.Run(t.Context(), plan, loadgen.Options{Receive: receive})
				if err != nil {
					t.Fatal(err)
				}
				if c = res.Summary.Counts; think > 0 || c.Stale == 0 {
					break
				}
			}
			if c.OK != want || c.ByClass[loadgen.ClassTruncated] != 4-want || think > 0 != (c.Retries == 3) || c.Stale != c.Retries {
				t.Errorf("%v, %v idle: %+v", receive, think, c)
			}
		}
	}
}
