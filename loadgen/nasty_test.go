// SPDX-License-Identifier: Apache-2.0

package loadgen_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// nasty is a server's answer byte by byte, and the outcome to report.
type nasty struct {
	name   string
	send   func(c *net.TCPConn)
	class  loadgen.Class
	tokens int            // output tokens of an ok answer
	text   string         // in the error
	body   map[string]any // fields of the request
	whole  bool           // ask for no stream
}

func event(json string) string { return "data: " + json + "\n\n" }

func content(text string) string {
	return event(`{"choices":[{"index":0,"delta":{"content":` + strconv.Quote(text) + `},"finish_reason":null}]}`)
}

func choice(index int, text, finish string) string {
	if finish != "" {
		finish = `,"finish_reason":"` + finish + `"`
	}
	return event(fmt.Sprintf(`{"choices":[{"index":%d,"delta":{"content":%q}%s}]}`, index, text, finish))
}

const (
	finish = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	done   = "data: [DONE]\n\n"
	reset  = "\x00reset" // ends a connection with a reset instead of an end
	stall  = "\x00stall" // keeps it open and sends nothing more
)

// framings are the ways to send a body.
var framings = map[string]func(contentType, body string) string{
	"chunked": func(contentType, body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\n%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", contentType, len(body), body)
	},
	"length": func(contentType, body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s", contentType, len(body), body)
	},
	"close": func(contentType, body string) string {
		return "HTTP/1.1 200 OK\r\n" + contentType + "Connection: close\r\n\r\n" + body
	},
}

const sse = "Content-Type: text/event-stream\r\n"

// say writes a text in one piece, and stalls or resets where the text ends so.
func say(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		for part := range strings.SplitSeq(text, "\x00") {
			switch {
			case strings.HasPrefix(part, "reset"):
				time.Sleep(200 * time.Millisecond) // a reset overtakes data that the client has not read
				_ = c.SetLinger(0)
				return
			case strings.HasPrefix(part, "stall"):
				_, _ = io.Copy(io.Discard, c)
				return
			}
			if _, err := io.WriteString(c, part); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// drip writes in pieces of n bytes.
func drip(text string, n int) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		for left := text; len(left) > 0; {
			piece := left[:min(n, len(left))]
			left = left[len(piece):]
			if _, err := io.WriteString(c, piece); err != nil {
				return
			}
			time.Sleep(50 * time.Microsecond)
		}
	}
}

// repeat writes the same for ever.
func repeat(head, text string, every time.Duration) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		if _, err := io.WriteString(c, head); err != nil {
			return
		}
		for {
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
			time.Sleep(every)
		}
	}
}

// aByteEach puts each byte into a chunk of its own.
func aByteEach(text string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, "1\r\n%c\r\n", text[i])
	}
	return b.String()
}

// bodies are event streams that come whole, in every framing.
func bodies() []nasty {
	ok := func(name string, tokens int, body string) nasty {
		return nasty{name: name, class: loadgen.ClassOK, tokens: tokens, text: body}
	}
	bad := func(name string, class loadgen.Class, body string) nasty {
		return nasty{name: name, class: class, text: body}
	}
	two := map[string]any{"n": 2}
	with := func(n nasty, body map[string]any) nasty { n.body = body; return n }
	usage := func(prompt, completion string) string {
		return event(`{"choices":[],"usage":{"prompt_tokens":` + prompt + `,"completion_tokens":` + completion + `}}`)
	}
	ab := content("a") + content("b")
	return []nasty{
		ok("plain", 2, ab+finish+done),
		ok("no DONE", 2, ab+finish),
		ok("no finish reason", 2, ab+done),
		ok("CRLF", 2, strings.ReplaceAll(ab+finish+done, "\n", "\r\n")),
		ok("CR", 2, strings.ReplaceAll(ab+finish+done, "\n", "\r")),
		ok("no space", 2, strings.ReplaceAll(ab+finish+done, "data: ", "data:")),
		ok("comments", 2, ": ping\n\n"+strings.ReplaceAll(ab+finish+done, "data: ", ": x\n\ndata: ")),
		ok("byte-order mark", 2, "\ufeff"+ab+finish+done),
		ok("several data lines", 1, "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"a\"}}]}\n\n"+done),
		ok("ids, retry and names", 2, "id: 7\nretry: 10\n"+strings.ReplaceAll(ab, "data: ", "event: message\ndata: ")+done),
		ok("role first", 2, event(`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`)+ab+finish+done),
		ok("usage", 5, ab+finish+usage("3", "5")+done),
		ok("usage 5.0", 5, ab+finish+usage("3.0", "5.0")+done),
		ok("usage null", 2, ab+event(`{"choices":[],"usage":null}`)+done),
		ok("content in parts", 2, event(`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a"}]}}]}`)+content("b")+finish+done),
		ok("thinking parts", 2, event(`{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"r"}]}]}}]}`)+content("b")+done),
		ok("reasoning", 2, event(`{"choices":[{"index":0,"delta":{"reasoning_content":"r","content":null}}]}`)+content("b")+finish+done),
		ok("tool calls", 2, strings.Repeat(event(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}`), 2)+done),
		ok("empty events", 2, "data:\n\n"+content("a")+"data: \n\n"+content("b")+done),
		ok("unknown fields", 2, strings.ReplaceAll(ab, `{"choices"`, `{"x":{"y":[1,{"z":null}]},"choices"`)+done),
		ok("log probabilities", 2, strings.ReplaceAll(ab, `"finish_reason":null`, `"logprobs":{"content":[{"token":"content","logprob":-0.5}]},"finish_reason":null`)+done),
		ok("escapes", 2, event(`{"choices":[{"index":0,"delta":{"content":"\ud83d\ude00\u0000\"\\"}}]}`)+content("b")+done),
		ok("bad UTF-8", 2, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xff\xfe\"}}]}\n\n"+content("b")+done),
		ok("after DONE", 2, ab+done+content("c")+"rubbish"),
		ok("spaces around DONE", 2, ab+"data:   [DONE] \n\n"),
		ok("an event of 1 MB", 2, content(strings.Repeat("x", 1<<20))+content("b")+done),
		ok("error null", 2, strings.ReplaceAll(ab, `{"choices"`, `{"error":null,"choices"`)+done),
		ok("300 events at once", 300, strings.Repeat(content("a"), 300)+finish+done),
		with(ok("two choices", 4, ab+choice(1, "a", "")+choice(1, "b", "stop")+finish), two),
		with(ok("two choices and DONE", 2, choice(0, "a", "stop")+choice(1, "b", "")+done), two),
		with(bad("second choice unfinished", loadgen.ClassTruncated, choice(0, "a", "stop")+choice(1, "b", "")), two),
		with(bad("second choice never begun", loadgen.ClassTruncated, choice(0, "a", "stop")), two),
		bad("a choice too many, unfinished", loadgen.ClassTruncated, choice(0, "a", "stop")+choice(1, "b", "")),
		bad("no end", loadgen.ClassTruncated, ab),
		bad("nothing", loadgen.ClassTruncated, ""),
		bad("only comments", loadgen.ClassTruncated, ": ping\n\n: ping\n\n"),
		bad("only a role", loadgen.ClassTruncated, event(`{"choices":[{"index":0,"delta":{"role":"assistant"}}]}`)),
		bad("cut inside an event", loadgen.ClassTruncated, ab+`data: {"choices":[{"index":0,"del`),
		bad("cut inside the first event", loadgen.ClassTruncated, `data: {"choices":[{"index":0,"del`),
		bad("DONE without a line end", loadgen.ClassTruncated, ab+"data: [DONE]"),
		bad("error first", "error_event", event(`{"error":{"message":"out of memory"}}`)),
		bad("error later", "error_event", ab+event(`{"error":{"message":"out of memory"}}`)),
		bad("error after the finish", "error_event", ab+finish+event(`{"error":{"message":"out of memory"}}`)+done),
		bad("event named error", "error_event", ab+"event: error\ndata: out of memory\n\n"),
		bad("error object", "error_event", event(`{"object":"error","message":"out of memory"}`)+done),
		bad("error as JSON", "error_event", `{"error":{"message":"out of memory","code":500}}`),
		bad("error as indented JSON", "error_event", "{\n  \"error\": {\n    \"message\": \"out of memory\"\n  }\n}\n"),
		bad("error as JSON, a text", "error_event", `{"error":"out of memory"}`),
		bad("no JSON", "malformed", ab+event("pong")),
		bad("an array", "malformed", event("[1,2]")+done),
		bad("content is a number", "malformed", event(`{"choices":[{"delta":{"content":7}}]}`)+done),
		bad("whole answer", "malformed", `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}`),
		bad("plain text", "malformed", "upstream connect error"),
		bad("a page", "malformed", "<html><body>502</body></html>\n"),
		bad("DONE without a token", "malformed", done),
		bad("finish without a token", "malformed", finish+done),
		bad("negative usage", "malformed", ab+usage("3", "-5")+done),
		bad("usage 7.5", "malformed", ab+usage("3", "7.5")+done),
		bad("NaN", "malformed", event(`{"choices":[{"index":NaN,"delta":{"content":"a"}}]}`)+done),
		bad("an event of 9 MB", "malformed", ab+content(strings.Repeat("x", 9<<20))+done),
		bad("nested deep", "malformed", event(strings.Repeat(`{"a":`, 20000)+"1"+strings.Repeat("}", 20000))+done),
		bad("a line without a colon for ever", "malformed", strings.Repeat("x", 9<<20)),
	}
}

// exchanges are answers with unusual HTTP.
func exchanges() []nasty {
	ab := content("a") + content("b")
	chunk := func(body string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(body), body) }
	head := "HTTP/1.1 200 OK\r\n" + sse
	chunked := head + "Transfer-Encoding: chunked\r\n\r\n"
	typed := func(contentType, body string) string {
		return framings["chunked"]("Content-Type: "+contentType+"\r\n", body)
	}
	status := func(code int, body string) string {
		return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", code, len(body), body)
	}
	all := []nasty{
		{name: "closed at once", send: say(""), class: loadgen.ClassTruncated},
		{name: "reset at once", send: say(reset), class: loadgen.ClassTruncated},
		{name: "not HTTP", send: say("SSH-2.0-OpenSSH_9.7\r\n"), class: "malformed"},
		{name: "status not a number", send: say("HTTP/1.1 abc OK\r\n\r\n"), class: "malformed"},
		{name: "HTTP 9", send: say("HTTP/9 200 OK\r\n\r\n"), class: "malformed"},
		{name: "header without a colon", send: say("HTTP/1.1 200 OK\r\nrubbish\r\n\r\n"), class: "malformed"},
		{name: "two lengths", send: say(head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde"), class: "malformed"},
		{name: "negative length", send: say(head + "Content-Length: -5\r\n\r\n"), class: "malformed"},
		{name: "length not a number", send: say(head + "Content-Length: many\r\n\r\n"), class: "malformed"},
		{name: "unknown transfer coding", send: say(head + "Transfer-Encoding: smoke\r\n\r\n"), class: "malformed"},
		{name: "headers without end", send: repeat("HTTP/1.1 200 OK\r\n", strings.Repeat("X-More: "+strings.Repeat("y", 4000)+"\r\n", 50), 0), class: "malformed"},
		{name: "a header without end", send: repeat("HTTP/1.1 200 OK\r\nX-More: ", strings.Repeat("y", 1<<16), 0), class: "malformed"},
		{name: "head cut", send: say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"), class: loadgen.ClassTruncated},
		{name: "length too long, after DONE", send: say(head + "Content-Length: 9999\r\n\r\n" + ab + done), class: loadgen.ClassOK, tokens: 2},
		{name: "length too long, no end", send: say(head + "Content-Length: 9999\r\n\r\n" + ab), class: loadgen.ClassTruncated},
		{name: "length too short", send: say(head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(ab)-10) + ab), class: loadgen.ClassTruncated},
		{name: "chunk size not hex", send: say(chunked + chunk(ab) + "zz\r\n"), class: "malformed"},
		{name: "negative chunk size", send: say(chunked + chunk(ab) + "-5\r\n"), class: "malformed"},
		{name: "chunk without its end", send: say(chunked + "5\r\ndata:XX"), class: "malformed"},
		{name: "huge chunk size", send: say(chunked + "ffffffffffffffffff\r\n"), class: "malformed"},
		{name: "no last chunk, after DONE", send: say(chunked + chunk(ab+done)), class: loadgen.ClassOK, tokens: 2},
		{name: "no last chunk, no end", send: say(chunked + chunk(ab)), class: loadgen.ClassTruncated},
		{name: "cut inside a chunk", send: say(chunked + "1000\r\n" + ab), class: loadgen.ClassTruncated},
		{name: "reset in the stream", send: say(chunked + chunk(ab) + reset), class: loadgen.ClassTruncated},
		{name: "reset after the finish", send: say(chunked + chunk(ab+finish) + reset), class: loadgen.ClassOK, tokens: 2},
		{name: "reset after DONE", send: say(chunked + chunk(ab+done) + reset), class: loadgen.ClassOK, tokens: 2},
		{name: "reset after one of two choices", send: say(chunked + chunk(choice(0, "a", "stop")+choice(1, "b", "")) + reset), class: loadgen.ClassTruncated, body: map[string]any{"n": 2}},
		{name: "100 first", send: say("HTTP/1.1 100 Continue\r\n\r\n" + chunked + chunk(ab+done) + "0\r\n\r\n"), class: loadgen.ClassOK, tokens: 2},
		{name: "103 first", send: say("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + chunked + chunk(ab+done) + "0\r\n\r\n"), class: loadgen.ClassOK, tokens: 2},
		{name: "103 for ever", send: repeat("", "HTTP/1.1 103 Early Hints\r\n\r\n", 0), class: "malformed"},
		{name: "204", send: say("HTTP/1.1 204 No Content\r\n\r\n"), class: "malformed"},
		{name: "206", send: say(status(206, "{}")), class: "malformed"},
		{name: "301", send: say("HTTP/1.1 301 X\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"), class: "malformed", text: "/elsewhere"},
		{name: "503 that stalls", send: say("HTTP/1.1 503 X\r\nContent-Length: 100\r\n\r\nbusy" + stall), class: "http_5xx", text: "busy"},
		{name: "503 that is cut", send: say("HTTP/1.1 503 X\r\nContent-Length: 100\r\n\r\nbusy"), class: "http_5xx", text: "busy"},
		{name: "503 without end", send: repeat("HTTP/1.1 503 X\r\n\r\n", strings.Repeat("busy ", 1000), 0), class: "http_5xx", text: "busy"},
		{name: "429 that stalls", send: say("HTTP/1.1 429 X\r\nRetry-After: 3\r\nContent-Length: 100\r\n\r\n" + stall), class: "http_429", text: "Retry-After 3"},
		{name: "401 in chunks", send: say("HTTP/1.1 401 X\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(`{"error":"no`) + chunk(` key"}`) + "0\r\n\r\n"), class: "http_4xx", text: "no key"},
		{name: "a page that stalls", send: say("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\n<html>login" + stall), class: "malformed", text: "login"},
		{name: "no head", send: say(stall), class: "timeout_ttft"},
		{name: "half a head", send: say("HTTP/1.1 200 O" + stall), class: "timeout_ttft"},
		{name: "only the head", send: say(chunked + stall), class: "timeout_ttft"},
		{name: "role and no more", send: say(chunked + chunk(event(`{"choices":[{"index":0,"delta":{"role":"assistant"}}]}`)) + stall), class: "timeout_ttft"},
		{name: "comments for ever", send: repeat(chunked, chunk(": ping\n\n"), 10*time.Millisecond), class: "timeout_ttft"},
		{name: "empty events for ever", send: repeat(chunked, chunk("data:\n\n"), 10*time.Millisecond), class: "timeout_ttft"},
		{name: "a token and no more", send: say(chunked + chunk(content("a")) + stall), class: "timeout_idle"},
		{name: "a token, then comments", send: repeat(chunked+chunk(content("a")), chunk(": ping\n\n"), 10*time.Millisecond), class: "timeout_idle"},
		{name: "half a chunk and no more", send: say(chunked + chunk(content("a")) + strings.Repeat("\x00", 60) + "20\r\ndata: {" + stall), class: "timeout_idle"},
		{name: "tokens for ever", send: repeat(chunked, chunk(content("a")), 2*time.Millisecond), class: "timeout_total"},
		{name: "DONE and no end", send: say(chunked + chunk(ab+done) + stall), class: loadgen.ClassOK, tokens: 2},
		{name: "finish and no end", send: say(chunked + chunk(ab+finish) + stall), class: loadgen.ClassOK, tokens: 2},
		{name: "after DONE for ever", send: repeat(chunked+chunk(ab+done), chunk(content("c")), 0), class: loadgen.ClassOK, tokens: 2},
		{name: "byte by byte", send: drip(chunked+chunk(ab)+chunk(finish+done)+"0\r\n\r\n", 1), class: loadgen.ClassOK, tokens: 2},
		{name: "in threes", send: drip(chunked+chunk(ab)+chunk(finish+done)+"0\r\n\r\n", 3), class: loadgen.ClassOK, tokens: 2},
		{name: "a chunk a byte", send: say(chunked + aByteEach(ab+done) + "0\r\n\r\n"), class: loadgen.ClassOK, tokens: 2},
		{name: "chunk extensions", send: say(chunked + fmt.Sprintf("%x;a=b\r\n%s\r\n0;c\r\n\r\n", len(ab+done), ab+done)), class: loadgen.ClassOK, tokens: 2},
		{name: "trailers", send: say(chunked + chunk(ab+done) + "0\r\nX-Sum: 7\r\n\r\n"), class: loadgen.ClassOK, tokens: 2},
		{name: "more after the answer", send: say(chunked + chunk(ab+done) + "0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"), class: loadgen.ClassOK, tokens: 2},
		{name: "HTTP/1.0", send: say("HTTP/1.0 200 OK\r\n" + sse + "\r\n" + ab + done), class: loadgen.ClassOK, tokens: 2},
		{name: "gzip that was not requested", send: say(head + "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("\x1f\x8b\x08rubbish") + "0\r\n\r\n"), class: "malformed"},
		{name: "events as text/plain", send: say(typed("text/plain", ab+done)), class: loadgen.ClassOK, tokens: 2},
		{name: "events without a type", send: say(framings["chunked"]("", ab+done)), class: loadgen.ClassOK, tokens: 2},
		{name: "error as text/plain", send: say(typed("text/plain", `{"error":"out of memory"}`)), class: "error_event", text: "out of memory"},
		{name: "error as application/json", send: say(typed("application/json; charset=utf-8", `{"error":{"message":"out of memory"}}`)), class: "error_event", text: "out of memory"},
		{name: "whole answer as JSON", send: say(typed("application/json", `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`)), class: "malformed", text: "one piece"},
		{name: "JSON cut", send: say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"choices\":[{"), class: loadgen.ClassTruncated},
		{name: "asked whole", whole: true, send: say(typed("application/json", `{"choices":[{"message":{"content":"a b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":4.0}}`)), class: loadgen.ClassOK, tokens: 4},
		{name: "asked whole, in parts", whole: true, send: say(typed("application/json", `{"choices":[{"message":{"content":[{"type":"text","text":"a"}]},"finish_reason":"stop"}],"usage":{"completion_tokens":4}}`)), class: loadgen.ClassOK, tokens: 4},
		{name: "asked whole, an error", whole: true, send: say(typed("application/json", `{"error":"out of memory"}`)), class: "error_event", text: "out of memory"},
		{name: "asked whole, empty", whole: true, send: say(typed("application/json", `{}`)), class: "malformed"},
		{name: "asked whole, stalls", whole: true, send: say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{" + stall), class: "timeout_ttft"},
	}
	for code, class := range map[int]loadgen.Class{400: "http_4xx", 401: "http_4xx", 404: "http_4xx", 413: "http_4xx", 422: "http_4xx",
		429: "http_429", 500: "http_5xx", 502: "http_5xx", 503: "http_5xx", 504: "http_5xx", 529: "http_5xx"} {
		all = append(all, nasty{name: strconv.Itoa(code), send: say(status(code, `{"error":{"message":"because"}}`)), class: class, text: "because"})
	}
	return all
}

// TestNastyServers: the client classifies each of many faulty answers. Each is read by the poller, with kernel times
// only, and as the transport delivers it.
func TestNastyServers(t *testing.T) {
	scenarios := exchanges()
	names := slices.Sorted(maps.Keys(framings))
	for i, b := range bodies() {
		for k, name := range names {
			if race.Enabled && k != i%len(names) {
				continue // parsing is done by one goroutine: one framing of each body shows its races
			}
			n, frame := b, framings[name]
			n.name, n.send, n.text = b.name+", "+name, say(frame(sse, b.text)), ""
			if b.class == "error_event" {
				n.text = "out of memory"
			}
			scenarios = append(scenarios, n)
		}
	}
	if !race.Enabled && len(scenarios) < 80 {
		t.Fatalf("%d scenarios", len(scenarios))
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var handlers sync.WaitGroup
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			handlers.Go(func() {
				defer c.Close()
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, req.Body); err != nil {
					return
				}
				at, _ := strconv.Atoi(strings.Split(req.URL.Path, "/")[1])
				scenarios[at].send(c.(*net.TCPConn))
			})
		}
	}()
	t.Cleanup(func() { ln.Close(); handlers.Wait() })
	var runs sync.WaitGroup
	turns := make(chan struct{}, 32)
	for i, n := range scenarios {
		runs.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			for _, receive := range []wire.Mode{wire.ModePolled, wire.ModeStamped, wire.ModePlain} {
				plan := planFor(loadgen.Endpoint{URL: fmt.Sprintf("http://%s/%d/v1/chat/completions", ln.Addr(), i)}, 1)
				tenant := &plan.Tenants[0]
				tenant.Body, tenant.NonStreaming = n.body, n.whole
				tenant.Timeouts = loadgen.Timeouts{Connect: 20 * time.Second, FirstToken: 20 * time.Second, Idle: 20 * time.Second, Total: 30 * time.Second}
				switch n.class {
				case "timeout_ttft":
					tenant.Timeouts.FirstToken = 300 * ms
				case "timeout_idle":
					tenant.Timeouts.Idle = 300 * ms
				case "timeout_total":
					tenant.Timeouts.Total = 300 * ms
				}
				if n.name == "finish and no end" {
					tenant.Timeouts.Idle = 300 * ms
				}
				res, err := loadgen.Run(t.Context(), plan, loadgen.Receiving(receive, loadgen.Options{KeepRecords: true}))
				if err != nil {
					t.Error(err)
					return
				}
				r := &res.Records[0]
				if r.Class != n.class || n.class == loadgen.ClassOK && (r.OutputTokens != n.tokens || r.Error != "") || !strings.Contains(r.Error, n.text) || r.Class != loadgen.ClassOK && r.Error == "" {
					t.Errorf("%s, %v: %v (%q) with %d tokens, want %v (%q) with %d", n.name, receive, r.Class, r.Error, r.OutputTokens, n.class, n.text, n.tokens)
				}
			}
		})
	}
	runs.Wait()
	t.Logf("%d scenarios", len(scenarios))
}
