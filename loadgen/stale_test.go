// SPDX-License-Identifier: Apache-2.0

package loadgen_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// TestShortKeepAlive: a server that ends connections idle for 30 ms while requests are on their way to them has not
// accepted these, which go out once more as soon as it was seen to do so.
func TestShortKeepAlive(t *testing.T) {
	body := content("a") + finish + done
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, body)
	}))
	srv.Config.IdleTimeout = 30 * ms
	srv.Start()
	defer srv.Close()
	for _, receive := range []wire.Mode{wire.ModePolled, wire.ModeStamped, wire.ModePlain} {
		const requests, users = 1000, 16
		var c loadgen.Counts
		for range 3 { // on a busy machine an end may be seen much later than it came
			plan := planFor(loadgen.Endpoint{URL: srv.URL}, requests)
			plan.Tenants[0].Load = loadgen.OfferedLoad{Concurrency: users, ThinkTime: 29 * ms}
			res, err := loadgen.Run(t.Context(), plan, loadgen.Receiving(receive, loadgen.Options{}))
			if err != nil {
				t.Fatal(err)
			}
			c = res.Summary.Counts
			t.Logf("%v: %v, %d sent once more", receive, c.ByClass, c.Stale)
			// Each user may fail once before any idle connection was seen to end. Without sending again 4% to 9% do.
			if c.Failed <= users {
				break
			}
		}
		if c.Failed > users || c.Failed != c.ByClass[loadgen.ClassTruncated] {
			t.Errorf("%v: %v; %v", receive, c.ByClass, c.Examples)
		}
	}
}

// TestPlainHTTPToTLS: a request in the clear to a server that speaks TLS fails with that
// reason, whatever the server does.
func TestPlainHTTPToTLS(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string
		text   string
	}{
		"closes":         {"", "if the server speaks TLS, use https"},
		"sends an alert": {"\x15\x03\x01\x00\x02\x02\x46", "the server speaks TLS: use https"},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 5)) // a record's head
				_, _ = io.WriteString(c, tc.answer)
				c.Close()
			}
		}()
		for _, receive := range []wire.Mode{wire.ModePolled, wire.ModePlain} {
			plan := planFor(loadgen.Endpoint{URL: "http://" + ln.Addr().String()}, 4)
			res, err := loadgen.Run(t.Context(), plan, loadgen.Receiving(receive, loadgen.Options{KeepRecords: true}))
			if err != nil {
				t.Fatal(err)
			}
			// The reset that follows unread data may overtake the alert.
			if r := res.Records[0]; res.Summary.Counts.Failed != 4 || !strings.Contains(r.Error, tc.text) && !strings.Contains(r.Error, "if the server speaks TLS") {
				t.Errorf("%s, %v: %v, %q", name, receive, r.Class, r.Error)
			}
		}
		ln.Close()
	}
}

// TestStaleConnection: a server that gives up a connection that was idle for a while has not seen the request, which
// goes out once more and is counted. On a connection in steady use the same end is the answer to the request.
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
	for _, receive := range []wire.Mode{wire.ModePolled, wire.ModePlain} {
		for think, want := range map[time.Duration]int64{150 * ms: 4, 0: 2} {
			plan := planFor(loadgen.Endpoint{URL: "http://" + ln.Addr().String()}, 4)
			plan.Tenants[0].Load = loadgen.OfferedLoad{Concurrency: 1, ThinkTime: think}
			var c loadgen.Counts
			for range 5 { // on a busy machine a connection in steady use may seem idle
				res, err := loadgen.Run(t.Context(), plan, loadgen.Receiving(receive, loadgen.Options{}))
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

// TestSecondResponse: a server sends each answer twice. No request takes the second for its own answer: it goes out on
// another connection.
func TestSecondResponse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	log.SetOutput(io.Discard) // net/http reports the second answers
	defer log.SetOutput(os.Stderr)
	answer := framings["chunked"](sse, content("a")+finish+done)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					time.Sleep(ms)
					_, _ = io.WriteString(c, answer+answer)
				}
			}()
		}
	}()
	for _, receive := range []wire.Mode{wire.ModePolled, wire.ModeStamped, wire.ModePlain} {
		plan := planFor(loadgen.Endpoint{URL: "http://" + ln.Addr().String()}, 1000)
		plan.Tenants[0].Load = loadgen.OfferedLoad{Concurrency: 16}
		res, err := loadgen.Run(t.Context(), plan, loadgen.Receiving(receive, loadgen.Options{KeepRecords: true}))
		if err != nil {
			t.Fatal(err)
		}
		hasty := 0
		for _, r := range res.Records {
			if r.FirstByteNS-r.ConnectedNS < int64(ms)*9/10 {
				hasty++ // its own answer takes a millisecond
			}
		}
		if c := res.Summary.Counts; c.OK != 1000 || hasty > 0 {
			t.Errorf("%v: %d answers before their time, %v; %v", receive, hasty, c.ByClass, c.Examples)
		}
	}
}
