// SPDX-License-Identifier: Apache-2.0

package loadgentest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

type answer struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	req    Request
	reply  Reply
	served *Served

	buf     bytes.Buffer
	pending int // content events in buf
	sent    int // tokens written or in buf
	gone    bool
}

// faults lists the values of Reply.Fault.
var faults = []string{"", "cut", "truncate", "error-object", "error-event", "bad-json", "stall", "huge-event",
	"endless", "html", "no-answer", "refuse"}

func (a *answer) serve() {
	rep := &a.reply
	rep.Tokens = cmp.Or(rep.Tokens, max(a.req.MaxTokens, 1))
	rep.PerEvent = max(rep.PerEvent, 1)
	rep.Word = cmp.Or(rep.Word, "tok ")
	switch {
	case !slices.Contains(faults, rep.Fault):
		refuse(a.w, http.StatusInternalServerError, fmt.Sprintf("loadgentest: unknown fault %q", rep.Fault))
		return
	case rep.Fault == "no-answer":
		a.until(time.Time{})
		return
	case rep.Fault == "refuse":
		a.cut()
		return
	case rep.Status != 0 && rep.Status != http.StatusOK:
		if rep.RetryAfter != "" {
			a.w.Header().Set("Retry-After", rep.RetryAfter)
		}
		refuse(a.w, rep.Status, http.StatusText(rep.Status))
		return
	case rep.Fault == "html":
		a.w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(a.w, "<html><body>Welcome</body></html>")
		return
	}
	timing := a.timing()
	defer timing.end()
	if !a.req.Stream {
		a.whole(timing)
		return
	}
	a.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	a.stream(timing)
}

// timing is the schedule of events.
type timing struct {
	// next waits for event k and returns false when the client has gone.
	next func(k int) bool
	end  func()
}

func (a *answer) timing() timing {
	if c := a.server.client; c != nil {
		seq := c.begin(a.req, a.reply.Tokens)
		return timing{next: func(int) bool { return seq.next(a.r.Context()) }, end: seq.end}
	}
	first := a.served.Started.Add(a.reply.TTFT)
	return timing{
		next: func(k int) bool { return a.until(first.Add(time.Duration(k) * a.reply.Interval)) },
		end:  func() {},
	}
}

// until waits for t, or for ever when t is zero; false means that the client or the server has gone.
func (a *answer) until(t time.Time) bool {
	if a.gone {
		return false
	}
	var due <-chan time.Time
	if !t.IsZero() {
		d := time.Until(t)
		if d <= 0 {
			return true
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
		return true
	case <-a.r.Context().Done():
		a.gone = true
		return false
	}
}

// whole answers in one piece.
func (a *answer) whole(t timing) {
	events := (a.reply.Tokens + a.reply.PerEvent - 1) / a.reply.PerEvent
	for k := range events {
		if !t.next(k) {
			return
		}
	}
	a.served.Tokens = a.reply.Tokens
	a.w.Header().Set("Content-Type", "application/json")
	text := quote(strings.Repeat(a.reply.Word, a.reply.Tokens))
	choice := `{"index":0,"text":` + text + `,"finish_reason":"stop"}`
	if a.chat() {
		choice = `{"index":0,"message":{"role":"assistant","content":` + text + `},"finish_reason":"stop"}`
	}
	use := ""
	if a.reply.Usage != "never" {
		use = `,"usage":` + a.usage(a.reply.Tokens)
	}
	a.served.Events = append(a.served.Events, time.Now())
	fmt.Fprintf(a.w, `{"id":"cmpl-%d","object":%q,"model":%s,"choices":[%s]%s}`, a.req.N, a.object(), quote(a.req.Model),
		choice, use)
}

func (a *answer) stream(t timing) {
	rep := &a.reply
	if rep.Role && a.chat() {
		if !a.until(a.served.Started.Add(rep.RoleAt)) {
			return
		}
		a.event(a.chunk(`{"role":"assistant","content":""}`, "", 0))
		a.flush()
	}
	faultAt := -1
	if rep.Fault != "" {
		faultAt = rep.FaultAfter
	}
	events := (rep.Tokens + rep.PerEvent - 1) / rep.PerEvent
	for k := 0; k < events || rep.Fault == "endless"; k++ {
		if k == faultAt && rep.Fault != "endless" && a.fault() {
			return
		}
		if !t.next(k) {
			return
		}
		tokens := rep.PerEvent
		if rep.Fault != "endless" {
			tokens = min(tokens, rep.Tokens-a.sent)
		}
		a.sent += tokens
		finish := ""
		if k == events-1 && !rep.SeparateFinish && rep.Fault != "endless" {
			finish = "stop"
		}
		a.event(a.chunk(a.delta(k, tokens), finish, a.sent))
		a.pending++
		if (k+1)%max(rep.EventsPerWrite, 1) == 0 || k == events-1 {
			a.flush()
		}
		if a.gone {
			return
		}
	}
	if faultAt >= events && a.fault() {
		return
	}
	a.finish()
}

// finish writes the end of the answer after the last token.
func (a *answer) finish() {
	rep := &a.reply
	if rep.SeparateFinish {
		if rep.FinishAfter > 0 && !a.until(time.Now().Add(rep.FinishAfter)) {
			return
		}
		a.event(a.chunk("{}", "stop", 0))
	}
	if rep.Usage == "final" || rep.Usage == "continuous" || rep.Usage == "" && a.req.IncludeUsage {
		a.event(fmt.Sprintf(`{"id":"cmpl-%d","object":%q,"created":1,"model":%s,"choices":[],"usage":%s}`,
			a.req.N, a.object(), quote(a.req.Model), a.usage(a.sent)))
	}
	a.event("[DONE]")
	a.flush()
}

// fault injects a fault; true means that the answer is over.
func (a *answer) fault() bool {
	a.flush()
	switch a.reply.Fault {
	case "cut":
		a.cut()
	case "error-object":
		a.event(`{"error":{"message":"engine died","type":"server_error","code":500}}`)
		a.flush()
	case "error-event":
		a.buf.WriteString("event: error\ndata: engine died\n\n")
		a.flush()
	case "bad-json":
		a.event(`{"choices":[{"delta":`)
		a.flush()
		return false
	case "stall":
		a.until(time.Time{})
	case "huge-event":
		io.WriteString(a.w, "data: ")
		block := bytes.Repeat([]byte("x"), 1<<20)
		for range 64 {
			if _, err := a.w.Write(block); err != nil {
				return true
			}
		}
	}
	return true
}

func (a *answer) cut() {
	conn, _, err := http.NewResponseController(a.w).Hijack()
	if err == nil {
		conn.Close()
	}
}

// event adds an event to the next write.
func (a *answer) event(data string) { a.buf.WriteString("data: " + data + "\n\n") }

// flush sends the gathered events, and records the time.
func (a *answer) flush() {
	if a.buf.Len() == 0 || a.gone {
		return
	}
	b := a.buf.Bytes()
	if a.reply.SplitWrites {
		half := len(b) / 2
		a.write(b[:half])
		if a.reply.SplitDelay > 0 && !a.until(time.Now().Add(a.reply.SplitDelay)) {
			return
		}
		b = b[half:]
	}
	now := time.Now()
	for range a.pending {
		a.served.Events = append(a.served.Events, now)
	}
	if a.pending > 0 {
		a.served.Tokens = a.sent
	}
	a.write(b)
	a.buf.Reset()
	a.pending = 0
}

func (a *answer) write(b []byte) {
	if _, err := a.w.Write(b); err != nil {
		a.gone = true
	}
	if err := http.NewResponseController(a.w).Flush(); err != nil {
		a.gone = true
	}
}

func (a *answer) chat() bool { return strings.HasSuffix(a.req.Path, "/chat/completions") }

func (a *answer) object() string {
	switch {
	case !a.chat():
		return "text_completion"
	case a.req.Stream:
		return "chat.completion.chunk"
	}
	return "chat.completion"
}

// delta is the content of event k: a delta object under chat, the text otherwise.
func (a *answer) delta(k, tokens int) string {
	text := quote(strings.Repeat(a.reply.Word, tokens))
	switch {
	case !a.chat():
		return text
	case a.reply.ToolCall:
		return `{"tool_calls":[{"index":0,"function":{"arguments":` + text + `}}]}`
	case k < a.reply.Reasoning:
		return `{"reasoning_content":` + text + `}`
	}
	return `{"content":` + text + `}`
}

// chunk is the JSON of an event. sent is the running token count, 0 for none.
func (a *answer) chunk(delta, finish string, sent int) string {
	fin := "null"
	if finish != "" {
		fin = quote(finish)
	}
	body := `"delta":` + delta
	if !a.chat() {
		if delta == "{}" {
			delta = `""`
		}
		body = `"text":` + delta
	}
	use := ""
	if a.reply.Usage == "continuous" || a.reply.Usage == "" && a.req.ContinuousUsage {
		use = `,"usage":` + a.usage(max(sent, a.sent))
	}
	return fmt.Sprintf(`{"id":"cmpl-%d","object":%q,"created":1,"model":%s,`+
		`"choices":[{"index":0,%s,"finish_reason":%s}]%s}`, a.req.N, a.object(), quote(a.req.Model), body, fin, use)
}

func (a *answer) usage(tokens int) string {
	prompt, details := max(1, a.req.PromptTokens), ""
	if cached, ok := a.reply.CachedTokens.Get(); ok {
		details = fmt.Sprintf(`,"prompt_tokens_details":{"cached_tokens":%d}`, cached)
	}
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d%s}`, prompt, tokens, prompt+tokens,
		details)
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

// ServeHTTP answers /v1/chat/completions, /v1/completions and /v1/models.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.opts.APIKey != "" && r.Header.Get("Authorization") != "Bearer "+s.opts.APIKey {
		refuse(w, http.StatusUnauthorized, "invalid api key "+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		return
	}
	switch r.URL.Path {
	case "/v1/models":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"list","data":[{"id":"test","object":"model"}]}`)
		return
	case "/v1/chat/completions", "/v1/completions":
	default:
		refuse(w, http.StatusNotFound, "no such path")
		return
	}
	req, err := readRequest(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	served := &Served{Received: time.Now()}
	s.mu.Lock()
	req.N = s.n
	s.n++
	req.PromptTokens = len(strings.Fields(req.Prompt))
	s.mu.Unlock()
	served.Request = req
	reply := s.opts.Script(req)
	served.Reply = reply
	if !s.opts.NoLog {
		s.mu.Lock()
		s.served = append(s.served, served)
		s.mu.Unlock()
	}
	if s.slots != nil && !reply.NoSlot {
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		case <-r.Context().Done():
			return
		}
	}
	served.Started = time.Now()
	a := answer{server: s, w: w, r: r, req: req, reply: reply, served: served}
	a.serve()
	s.mu.Lock()
	served.End = time.Now()
	s.mu.Unlock()
}
