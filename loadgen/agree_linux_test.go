// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// TestMain lets several tests that mostly wait run at once.
func TestMain(m *testing.M) {
	nightly.Parallel(8)
	os.Exit(m.Run())
}

// chatBody is the body of a request.
const chatBody = `{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":100,"stream":true,"stream_options":{"include_usage":true}}`

// TestWaysToReceiveAgree: for random answers of servers, the exchange without net/http has the outcome of net/http.
// Silent servers are recognised by time-outs, which a busy machine may exceed by itself: a difference counts if it
// remains with time-outs 20 times as long.
func TestWaysToReceiveAgree(t *testing.T) {
	t.Parallel()
	for seed := range uint64(agreeSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			for _, silence := range []time.Duration{500 * time.Millisecond, 10 * time.Second} {
				plain, differs := outcomes(t, seed, wire.ModePlain, silence), ""
				for _, receive := range []wire.Mode{wire.ModeStamped, wire.ModePolled} {
					for i, got := range outcomes(t, seed, receive, silence) {
						// net/http may hold back data when the time is over.
						if i < len(plain) && got != plain[i] && !strings.HasPrefix(plain[i], "timeout") {
							differs += fmt.Sprintf("%d, %v: %s, plain: %s\n", i, receive, got, plain[i])
						}
					}
				}
				if differs == "" {
					return
				}
				if silence > time.Second {
					t.Error(differs)
				}
			}
		})
	}
}

// outcomes makes two requests to a server of random answers.
func outcomes(t *testing.T, seed uint64, receive wire.Mode, silence time.Duration) (all []string) {
	var asked atomic.Uint64 // whatever connections the requests come on
	url := rawServer(t, func(c *net.TCPConn, _ int) bool { return randomAnswer(c, rand.New(rand.NewPCG(seed, asked.Add(1)))) })
	client := testClient(t, url, receive, Timeouts{FirstToken: silence, Idle: silence})
	defer client.close()
	s := newTestStream()
	for range 2 {
		var rec Record
		client.do(context.Background(), &Prompt{}, []byte(chatBody), &rec, s)
		if rec.Class == ClassTruncated && rec.Status == 0 && rec.Reused {
			break // the connection's end crossed the request
		}
		got := fmt.Sprintf("%v, status %d, %d events, %d tokens, %d bytes", rec.Class, rec.Status, rec.Events, rec.OutputTokens, s.bytes)
		if all = append(all, got); strings.HasPrefix(got, "timeout") {
			break
		}
		time.Sleep(20 * time.Millisecond) // the end of the connection comes, if it does
	}
	return all
}

// randomAnswer writes an answer with the changes that servers and proxies make, and reports whether the connection stays open.
func randomAnswer(c *net.TCPConn, r *rand.Rand) bool {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	// Mostly the first, so that not everything is wrong at once.
	mostly := func(of ...string) string {
		if r.IntN(4) > 0 {
			return of[0]
		}
		return one(of...)
	}
	var b strings.Builder
	for range max(0, r.IntN(12)-8) * r.IntN(4) {
		b.WriteString(one("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 102 Processing\r\n\r\n"))
	}
	b.WriteString(mostly("HTTP/1.1 200 OK\r\n", "HTTP/1.1 200\r\n", "HTTP/1.1 200 \r\n", "HTTP/1.0 200 OK\r\n", "HTTP/1.1 503 No\r\n", "HTTP/1.1 20 OK\r\n", "HTTP/1.1 2000 OK\r\n",
		"HTTP/3.7 200 OK\r\n", "http/1.1 200 OK\r\n", "HTTP/1.1  200 OK\r\n", "ICY 200 OK\r\n", "HTTP/1.1 204 None\r\n", "HTTP/1.1 429 Slow\r\nRetry-After: 1\r\n", "HTTP/1.1 307 There\r\nLocation: /y\r\n", "\r\n", "HTTP/1.1 200 OK\n"))
	b.WriteString(mostly("Content-Type: text/event-stream\r\n", "content-type: TEXT/event-stream; charset=utf-8\r\n", "Content-Type: application/json\r\n", "Content-Type:text/html\r\n", "", "Content-Type: text/event-stream\n", "Content-Type : x\r\n"))
	b.WriteString(mostly("", "X: "+strings.Repeat("y", 9000)+"\r\n", "X: a\r\n b\r\n", "X\r\n", ": x\r\n", "Connection: close\r\n", "Connection: keep-alive, Close\r\n", "Trailer: T\r\n", "X: \x01\r\n", "Content-Encoding: gzip\r\n"))

	var body strings.Builder
	body.WriteString(mostly("", "\ufeff", ": hello\n\n", "\n\n"))
	text := func(s string) string {
		return mostly(deltaEvent(s), strings.Replace(deltaEvent(s), "data: ", "data:", 1), strings.ReplaceAll(deltaEvent(s), "\n", "\r\n"), ": ping\n\n"+deltaEvent(s), "id: 1\n"+deltaEvent(s), strings.ReplaceAll(deltaEvent(s), "\n", "\r"))
	}
	for i := range r.IntN(5) {
		body.WriteString(text(one("a", "é", "😀", "b b", `\n`, fmt.Sprint(i))))
	}
	body.WriteString(mostly("", `data: {"error":{"message":"no"}}`+"\n\n", "data: {\n\n", `data: {"choices":[]}`+"\n\n", "event: error\ndata: no\n\n", `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":9}}`+"\n\n"))
	body.WriteString(mostly(streamEnd, "data: [DONE]\n\n", "data:[DONE]\n\n", "", "data: [DONE]", "data: [DONE]\r\n\r\n", "data: [done]\n\n"))
	body.WriteString(mostly("", "trailing", deltaEvent("late")))

	keep := true
	whole := body.String()
	switch framing := mostly("chunked", "length", "close", "short", "long", "both", "twice", "gzip"); framing {
	case "chunked":
		b.WriteString(mostly("Transfer-Encoding: chunked\r\n\r\n", "transfer-encoding:Chunked\r\n\r\n", "Transfer-Encoding: chunked\n\n", "Transfer-Encoding: chunked, chunked\r\n\r\n", "Transfer-Encoding: identity\r\n\r\n"))
		for len(whole) > 0 {
			n := min(len(whole), 1+r.IntN(200))
			b.WriteString(mostly(chunk(whole[:n]), strings.Replace(chunk(whole[:n]), "\r\n", ";x=\"y\"\r\n", 1), "0"+chunk(whole[:n])))
			whole = whole[n:]
		}
		b.WriteString(mostly("0\r\n\r\n", "0\r\nT: 1\r\n\r\n", "00\r\n\r\n", "", "x\r\n", "0\r\n"))
	case "length", "short", "long":
		length := len(whole) + map[string]int{"short": -min(20, len(whole)), "long": 20}[framing]
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", length, whole)
	case "both":
		fmt.Fprintf(&b, "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n%s0\r\n\r\n", chunk(whole+"\n"))
	case "twice":
		fmt.Fprintf(&b, "Content-Length: %d\r\nContent-Length: %d\r\n\r\n%s", len(whole), len(whole)+r.IntN(2), whole)
	default:
		b.WriteString("\r\n" + whole)
		keep = false
	}
	if strings.Contains(b.String(), "lose\r\n") || r.IntN(3) == 0 {
		keep = false
	}
	out := b.String()
	if r.IntN(6) == 0 {
		out, keep = out[:r.IntN(len(out)+1)], false
	}
	cuts := []int{0, len(out)}
	for range r.IntN(4) {
		cuts = append(cuts, r.IntN(len(out)+1))
	}
	slices.Sort(cuts)
	for i := 1; i < len(cuts); i++ {
		if _, err := io.WriteString(c, out[cuts[i-1]:cuts[i]]); err != nil {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	if !keep {
		// The end, and no reset that would take the data with it.
		if c.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, c)
		}
	}
	return keep
}
