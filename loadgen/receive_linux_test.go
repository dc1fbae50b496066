// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// rawServer answers each request by answer, which reports whether the connection is kept.
func rawServer(t *testing.T, answer func(c *net.TCPConn, n int) bool) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for n := 0; ; n++ {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					if _, err := io.Copy(io.Discard, req.Body); err != nil || !answer(c.(*net.TCPConn), n) {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return "http://" + ln.Addr().String()
}

func deltaEvent(text string) string {
	return `data: {"choices":[{"index":0,"delta":{"content":"` + text + `"}}]}` + "\n\n"
}

const streamEnd = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"

const chunkedHead = streamHead + "Transfer-Encoding: chunked\r\n\r\n"

// chatBody is the body of a request.
const chatBody = `{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":100,"stream":true,"stream_options":{"include_usage":true}}`

// testClient is a client of one endpoint.
func testClient(t *testing.T, url string, stamped bool, timeouts Timeouts) *client {
	t.Helper()
	c, err := newClient(context.Background(), &Tenant{Name: "t", Endpoints: []Endpoint{{URL: url}}, Timeouts: timeouts}, wire.NewClock(), stamped, newScrubber(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// TestReceive: answers in every form give the same records with the kernel's times and without.
func TestReceive(t *testing.T) {
	t.Parallel()
	full := chunkedHead + chunk(deltaEvent("a")) + chunk(deltaEvent("b")) + chunk(streamEnd) + "0\r\n\r\n"
	write := func(pieces ...string) func(c *net.TCPConn, n int) bool {
		return func(c *net.TCPConn, _ int) bool {
			for i, p := range pieces {
				if i > 0 {
					time.Sleep(5 * time.Millisecond)
				}
				if _, err := io.WriteString(c, p); err != nil {
					return false
				}
			}
			return true
		}
	}
	// then closes the connection after the pieces, and so on the same edge.
	then := func(f func(c *net.TCPConn) error, pieces ...string) func(c *net.TCPConn, n int) bool {
		return func(c *net.TCPConn, n int) bool {
			write(pieces...)(c, n)
			if err := f(c); err != nil {
				return false
			}
			_, err := c.Read(make([]byte, 1)) // until the client closes too
			return err == nil
		}
	}
	reset := func(c *net.TCPConn) error { c.SetLinger(0); return c.Close() }
	one := chunkedHead + chunk(deltaEvent("a"))
	// The kernel may take a moment to begin with its times, so not every answer has them.
	kernel := map[bool]*atomic.Int64{false: {}, true: {}}
	t.Cleanup(func() {
		for stamped, of := range kernel {
			if n := of.Load(); (n > 0) != stamped {
				t.Errorf("stamped %v: %d answers have the kernel's times", stamped, n)
			}
		}
	})
	for _, c := range []struct {
		name   string
		answer func(c *net.TCPConn, n int) bool
		class  Class
		events int
		reused bool // by the second request
	}{
		{"in one piece", write(full), ClassOK, 2, true},
		{"head apart", write(chunkedHead, full[len(chunkedHead):]), ClassOK, 2, true},
		{"head in pieces", write(full[:20], full[20:60], full[60:100], full[100:]), ClassOK, 2, true},
		{"chunk end apart", write(full[:len(full)-7], full[len(full)-7:len(full)-3], full[len(full)-3:]), ClassOK, 2, true},
		{"extensions and trailers", write(chunkedHead, strings.Replace(chunk(deltaEvent("a")), "\r\n", ";x=y\r\n", 1), chunk(streamEnd)+"0;z\r\nT: 1\r\n", "U: 2\r\n\r\n"), ClassOK, 1, true},
		{"bare LF in the head", write(strings.ReplaceAll(chunkedHead, "\r\n", "\n"), full[len(chunkedHead):]), ClassOK, 2, true},
		{"103 before it", write("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", full), ClassOK, 2, true},
		{"103 with it", write("HTTP/1.1 103 Early Hints\r\n\r\n" + full), ClassOK, 2, true},
		{"many 1xx before it", write(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 20), full), ClassOK, 2, true},
		{"content length", write(streamHead+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(deltaEvent("a")+streamEnd)), deltaEvent("a"), streamEnd), ClassOK, 1, true},
		{"until the close", then((*net.TCPConn).Close, streamHead+"\r\n", deltaEvent("a"), streamEnd), ClassOK, 1, false},
		{"connection: close", then((*net.TCPConn).Close, streamHead+"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(deltaEvent("a")+streamEnd)+"0\r\n\r\n"), ClassOK, 1, false},
		{"proper end without terminator", write(one, "0\r\n\r\n"), ClassTruncated, 1, true},
		{"FIN with data", then((*net.TCPConn).Close, one, chunk(deltaEvent("b"))), ClassTruncated, 2, false},
		{"only FIN", then((*net.TCPConn).CloseWrite, one, ""), ClassTruncated, 1, false},
		{"FIN with everything", then((*net.TCPConn).Close, one), ClassTruncated, 1, false},
		{"FIN in a chunk", then((*net.TCPConn).CloseWrite, one, "40\r\ndata: "), ClassTruncated, 1, false},
		{"RST with data", then(reset, one, chunk(deltaEvent("b"))), ClassTruncated, -1, false},
		{"only RST", then(func(c *net.TCPConn) error { time.Sleep(200 * time.Millisecond); return reset(c) }, one), ClassTruncated, 1, false},
		{"done and no end", then((*net.TCPConn).Close, one+chunk(streamEnd)), ClassOK, 1, false},
		{"done without a token, and no end", write(chunkedHead, chunk("data: [DONE]\n\n")), classMalformed, 0, false},
		{"malformed chunk", write(one, "xyz\r\n"), classMalformed, 1, false},
		{"no CRLF after the chunk", write(one + "1\r\n\nZZ"), classMalformed, 1, false},
		{"error event", write(one, chunk(`data: {"error":{"message":"no"}}`+"\n\n")), classErrorEvent, 1, false},
		{"malformed event", write(one, chunk("data: {\n\n")), classMalformed, 1, false},
		{"stall", write(one), classTimeoutIdle, 1, false},
		{"stall before the head", write(""), classTimeoutTTFT, 0, false},
		{"stall after the head", write(chunkedHead), classTimeoutTTFT, 0, false},
		{"never-ending", func(c *net.TCPConn, _ int) bool {
			_, err := io.WriteString(c, one)
			for err == nil {
				_, err = io.WriteString(c, chunk(": x\n\n"))
				time.Sleep(5 * time.Millisecond)
			}
			return false
		}, classTimeoutIdle, 1, false},
		{"much after the terminator", func(c *net.TCPConn, _ int) bool {
			_, err := io.WriteString(c, one+chunk(streamEnd))
			for err == nil {
				_, err = io.WriteString(c, chunk(strings.Repeat("x", 1<<10)))
			}
			return false
		}, ClassOK, 1, false},
		{"a long event", write(chunkedHead, chunk(deltaEvent(strings.Repeat("x", 1<<20))), chunk(deltaEvent("b")+streamEnd)+"0\r\n\r\n"), ClassOK, 2, true},
		{"500", write("HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("sorry") + "0\r\n\r\n"), classHTTP5xx, 0, true},
		{"JSON", write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("{}") + "0\r\n\r\n"), classMalformed, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, stamped := range []bool{false, true} {
				url := rawServer(t, c.answer)
				limits := Timeouts{FirstToken: time.Minute, Idle: time.Minute} // a busy machine takes its time
				switch c.class {
				case classTimeoutTTFT:
					limits.FirstToken = 400 * time.Millisecond
				case classTimeoutIdle:
					limits.Idle = 300 * time.Millisecond
				}
				client := testClient(t, url, stamped, limits)
				s := &stream{}
				for i := range 2 {
					var rec Record
					client.do(context.Background(), &Prompt{}, []byte(chatBody), &rec, s)
					if rec.Class != c.class || rec.Events != c.events && c.events >= 0 {
						t.Errorf("%v: %v, %d events: %s", stamped, rec.Class, rec.Events, rec.Error)
					}
					if rec.StampSource == "kernel" {
						kernel[stamped].Add(1)
					}
					if i == 1 && rec.Reused != c.reused && !strings.HasPrefix(c.name, "5") && c.name != "JSON" {
						t.Errorf("%v: connection reused: %v", stamped, rec.Reused)
					}
				}
			}
		})
	}
}
