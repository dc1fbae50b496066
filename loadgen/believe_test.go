// SPDX-License-Identifier: Apache-2.0

package loadgen_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/loadgen"
)

// piped runs four requests to a server of events that are 10 ms apart, in simulated time.
func piped(t *testing.T, events []string, edit func(*loadgen.Tenant)) (res *loadgen.Result) {
	t.Helper()
	var blocks []string
	for _, e := range append(slices.Clone(events), "[DONE]") {
		blocks = append(blocks, "data: "+e+"\n\n")
	}
	return replayed(t, blocks, edit)
}

// replayed is piped for whole blocks of the stream.
func replayed(t *testing.T, blocks []string, edit func(*loadgen.Tenant)) (res *loadgen.Result) {
	t.Helper()
	if last := &blocks[len(blocks)-1]; !strings.HasSuffix(*last, "\n\n") {
		*last += "\n\n"
	}
	synctest.Test(t, func(t *testing.T) {
		serve := func(c net.Conn) {
			defer c.Close()
			in := bufio.NewReader(c)
			for {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				body, _ := io.ReadAll(req.Body)
				kind := "application/json"
				if strings.Contains(string(body), `"stream":true`) {
					kind = "text/event-stream"
				}
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n", kind)
				for _, data := range blocks {
					time.Sleep(10 * time.Millisecond)
					fmt.Fprintf(c, "%x\r\n%s\r\n", len(data), data)
				}
				fmt.Fprint(c, "0\r\n\r\n")
			}
		}
		plan := planFor(loadgen.Endpoint{URL: "http://server", Dial: func(_ context.Context, _, _ string) (net.Conn, error) {
			client, server := net.Pipe()
			go serve(server)
			return client, nil
		}}, 4)
		if edit != nil {
			edit(&plan.Tenants[0])
		}
		var err error
		if res, err = loadgen.Run(t.Context(), plan, loadgen.Options{KeepRecords: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // the servers of answers that were cut off end too
	})
	return res
}

func deltas(n int, field string) (events []string) {
	for range n {
		events = append(events, `{"choices":[{"index":0,"delta":{"`+field+`":"word "}}]}`)
	}
	return events
}

const (
	stopped = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	reasons = `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":100,"completion_tokens_details":{"reasoning_tokens":80}}}`
)

// TestHiddenReasoning: tokens that the server counts and does not send are no part of
// the time per token; reasoning that it sends is.
func TestHiddenReasoning(t *testing.T) {
	for name, tc := range map[string]struct {
		events       []string
		tpot         loadgen.Millis
		tokens, hide int64
	}{
		"hidden": {append(deltas(20, "content"), stopped, reasons), 10, 20, 80},
		"sent":   {append(append(deltas(80, "reasoning_content"), deltas(20, "content")...), stopped, reasons), 10, 100, 0},
		"sent as details": {append(append(strings.Split(strings.Repeat(
			`{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"why "}]}}]}`+"\n", 80), "\n")[:80],
			deltas(20, "content")...), stopped, reasons), 10, 100, 0},
		"more than the answer has": {append(deltas(20, "content"), stopped, strings.Replace(reasons, "100", "20", 1)), 10, 20, 0},
	} {
		res := piped(t, tc.events, nil)
		s, r := &res.Summary, &res.Records[0]
		if s.Counts.OK != 4 || s.TPOT.P50 != tc.tpot || s.OutputTokens != 4*tc.tokens || s.HiddenTokens != 4*tc.hide || s.ReasoningTokens != 4*80 || int64(r.HiddenTokens) != tc.hide {
			t.Errorf("%s: %+v, tpot %v, %d tokens, %d hidden, %d reasoning; %s", name, s.Counts.ByClass, s.TPOT.P50, s.OutputTokens, s.HiddenTokens, s.ReasoningTokens, r.Error)
		}
	}
}

// TestAbortedAnswers: an answer that the server gave up is no success, whatever came of it before.
func TestAbortedAnswers(t *testing.T) {
	for _, reason := range []string{"abort", "error"} {
		end := strings.Replace(stopped, "stop", reason, 1)
		for name, events := range map[string][]string{
			"one choice":          append(deltas(4, "content"), end),
			"the first of two":    append(deltas(4, "content"), end, `{"choices":[{"index":1,"delta":{"content":"x"},"finish_reason":"stop"}]}`),
			"next to one of stop": append(deltas(4, "content"), `{"choices":[{"index":0,"delta":{},"finish_reason":"`+reason+`"},{"index":1,"delta":{},"finish_reason":"stop"}]}`),
		} {
			res := piped(t, events, nil)
			if c := res.Summary.Counts; c.ByClass["error_event"] != 4 || !strings.Contains(res.Records[0].Error, reason) {
				t.Errorf("%s, %s: %v, %q", reason, name, c.ByClass, res.Records[0].Error)
			}
		}
	}
	for reason := range strings.FieldsSeq("stop length tool_calls content_filter") {
		if res := piped(t, append(deltas(4, "content"), strings.Replace(stopped, "stop", reason, 1)), nil); res.Summary.Counts.OK != 4 {
			t.Errorf("%s: %v", reason, res.Summary.Counts.ByClass)
		}
	}
}

// TestImpossibleUsage: token counts that the stream contradicts are found, and others are not.
func TestImpossibleUsage(t *testing.T) {
	usage := func(n string) string {
		return `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":` + n + `}}`
	}
	continuous := strings.Split(strings.Repeat(`{"choices":[{"index":0,"delta":{"content":"word "}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`+"\n", 20), "\n")[:20]
	for name, tc := range map[string]struct {
		events []string
		bad    bool
	}{
		"200 million for 5 events": {append(deltas(5, "content"), stopped, usage("200000000")), true},
		"2 for 5 events":           {append(deltas(5, "content"), stopped, usage("2")), true},
		"1 in each of 20":          {append(continuous, stopped), true},
		"a token an event":         {append(deltas(5, "content"), stopped, usage("5")), false},
		"and an end of text":       {append(deltas(5, "content"), stopped, usage("6")), false},
		"several an event":         {append(deltas(5, "content"), stopped, usage("20")), false},
		"hidden reasoning":         {append(deltas(20, "content"), stopped, reasons), false},
		"no usage":                 {append(deltas(5, "content"), stopped), false},
		"no usage, 20 for 5 asked": {append(deltas(20, "content"), stopped), true},
	} {
		s := piped(t, tc.events, nil).Summary
		if s.Counts.OK != 4 || (len(s.Implausible()) > 0) != tc.bad || (s.ImplausibleCounts == 4) != tc.bad {
			t.Errorf("%s: %v, %d implausible, %q", name, s.Counts.ByClass, s.ImplausibleCounts, s.Implausible())
		}
	}
}

// TestShortAnswers: answers shorter than asked are counted, where their length is known.
func TestShortAnswers(t *testing.T) {
	usage := func(n string) string {
		return `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":` + n + `}}`
	}
	for name, tc := range map[string]struct {
		events           []string
		body             map[string]any
		asked            int
		short, ignoreEOS int64
	}{
		"as asked":           {append(deltas(5, "content"), stopped, usage("5")), nil, 5, 0, 0},
		"short":              {append(deltas(3, "content"), stopped, usage("3")), nil, 5, 4, 0},
		"short, ignore_eos":  {append(deltas(3, "content"), stopped, usage("3")), map[string]any{"ignore_eos": true}, 5, 4, 4},
		"as asked, likewise": {append(deltas(5, "content"), stopped, usage("5")), map[string]any{"ignore_eos": true}, 5, 0, 0},
		"length unknown":     {append(deltas(3, "content"), stopped), map[string]any{"ignore_eos": true}, 5, 0, 0},
		"with hidden ones":   {append(deltas(20, "content"), stopped, reasons), map[string]any{"max_completion_tokens": 100}, 100, 0, 0},
		"two choices":        {append(deltas(5, "content"), stopped, strings.ReplaceAll(stopped, `"index":0`, `"index":1`), usage("5")), map[string]any{"n": 2}, 10, 4, 0},
	} {
		res := piped(t, tc.events, func(tenant *loadgen.Tenant) { tenant.Body = tc.body })
		s, r := &res.Summary, &res.Records[0]
		if s.Counts.OK != 4 || s.ShortAnswers != tc.short || s.ShortIgnoringEOS != tc.ignoreEOS || r.AskedTokens != tc.asked {
			t.Errorf("%s: %v, %d short, %d of them ignoring, %d asked; %s", name, s.Counts.ByClass, s.ShortAnswers, s.ShortIgnoringEOS, r.AskedTokens, r.Error)
		}
	}
}

// TestHostileText: text from a server cannot control the terminal that shows it.
func TestHostileText(t *testing.T) {
	res := piped(t, []string{`{"error":{"message":"\u001b[2J\u001b]0;owned\u0007\u202e\u009b31m"}}`}, nil)
	raw := piped(t, []string{"\x1b[2J\u202e"}, nil)
	for _, text := range []string{res.Records[0].Error, raw.Records[0].Error} {
		if strings.ContainsAny(text, "\x1b\x07\u202e\u009b") || !strings.Contains(text, `\u001b[2J`) {
			t.Errorf("%q", text)
		}
	}
}
