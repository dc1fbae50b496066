// SPDX-License-Identifier: Apache-2.0

package prompt

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
)

// TraceFormat is the format of a published trace. The zero value is no format.
type TraceFormat uint8

// The formats.
const (
	TraceUnknown TraceFormat = iota
	// FAST'25 JSON Lines: timestamp (ms), input_length, output_length; hash_ids, of blocks of 512 tokens unless all fit
	// another power of two, may be missing
	TraceMooncake
	TraceAzure    // Azure LLM inference 2023 and 2024: CSV with TIMESTAMP, ContextTokens, GeneratedTokens
	TraceBurstGPT // BurstGPT: CSV with Timestamp (s), Request tokens, Response tokens
)

// String returns "mooncake", "azure" or "burstgpt", and "unknown" for other values.
func (f TraceFormat) String() string {
	if f > TraceBurstGPT {
		f = TraceUnknown
	}
	return [...]string{"unknown", "mooncake", "azure", "burstgpt"}[f]
}

// maxTraceTokens bounds a length in tokens: no model's context comes near.
const maxTraceTokens = 100_000_000

// maxTraceTime bounds a timestamp: a hundred years.
const maxTraceTime = 100 * 365 * 24 * time.Hour

// TraceRequest is one request of a trace.
type TraceRequest struct {
	At           time.Duration // since the trace's first request
	InputTokens  int
	OutputTokens int
	// Blocks are the hashes of the prompt's blocks of Trace.BlockTokens tokens, the last one filled in part: an
	// equal beginning is a shared prefix. nil if the trace has none.
	Blocks []int64
	// Session groups the turns of a conversation, "" if the trace doesn't say.
	Session string
}

// Trace is a published trace of requests, in order of time. Rows that it marks as failed (BurstGPT: no response
// tokens) are not among them.
type Trace struct {
	Format   TraceFormat
	Requests []TraceRequest
	// BlockTokens is the size of a block of TraceRequest.Blocks, 0 without blocks.
	BlockTokens int
}

// DetectTrace finds the format by a file's beginning, which holds at least the first line. The error wraps ErrInput.
func DetectTrace(head []byte) (TraceFormat, error) {
	line, _, _ := bytes.Cut(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), []byte("\n"))
	line = bytes.TrimSpace(line)
	if bytes.HasPrefix(line, []byte("[")) || bytes.Equal(line, []byte("{")) {
		return TraceUnknown, fmt.Errorf("%w: the trace is one JSON document: write one object a line (jq -c '.[]' FILE)",
			loadgen.ErrInput)
	}
	if bytes.HasPrefix(line, []byte("{")) {
		return TraceMooncake, nil
	}
	for _, format := range []TraceFormat{TraceAzure, TraceBurstGPT} {
		if bytes.Contains(line, []byte(traceFields[format].input)) {
			return format, nil
		}
	}
	return TraceUnknown, fmt.Errorf("%w: cannot tell the trace's format from its first line %q (known: mooncake, "+
		"azure, burstgpt)", loadgen.ErrInput, problem.Clip(string(line)))
}

// ReadTrace reads a whole trace. It is strict: a missing column or field, a value that is not of its kind and a row of
// another length are errors, all named (the first 20) in one error that wraps ErrInput, and then there is no trace.
func ReadTrace(format TraceFormat, r io.Reader) (*Trace, error) {
	if format == TraceUnknown || int(format) >= len(traceFields) {
		return nil, fmt.Errorf("%w: trace format %v (use mooncake, azure or burstgpt)", loadgen.ErrInput, format)
	}
	t, f := &Trace{Format: format}, &traceFields[format]
	row := (&table{required: []string{f.at, f.input, f.output}}).row
	if format == TraceMooncake {
		row = f.object
	}
	var hashes []hashed
	err := readLines(r, func(l line) {
		values := row(l)
		if values == nil {
			return
		}
		req := f.request(&l, values)
		if req.Blocks != nil {
			hashes = append(hashes, hashed{l.n, req.InputTokens, len(req.Blocks)})
		}
		if failed := format == TraceBurstGPT && req.OutputTokens == 0; l.good() && !failed {
			t.Requests = append(t.Requests, req)
		}
	})
	if err == nil {
		t.BlockTokens, err = blockSize(hashes)
	}
	if err != nil {
		return nil, err
	}
	if len(t.Requests) == 0 {
		return nil, fmt.Errorf("%w: the %v trace has no requests", loadgen.ErrInput, format)
	}
	slices.SortStableFunc(t.Requests, func(a, b TraceRequest) int { return cmp.Compare(a.At, b.At) })
	first := t.Requests[0].At
	for i := range t.Requests {
		t.Requests[i].At -= first
	}
	return t, nil
}

// Slice returns the part of the trace from from on and before to (0: its end), with its times counted from from.
// The requests are shared with t. Slice before Schedule and Prompts, so that times and lengths stay together.
func (t *Trace) Slice(from, to time.Duration) *Trace {
	s := *t
	s.Requests = nil
	for _, r := range t.Requests {
		if r.At >= from && (to == 0 || r.At < to) {
			r.At -= from
			s.Requests = append(s.Requests, r)
		}
	}
	return &s
}

// Schedule returns the trace's arrivals; speed 2 replays twice as fast, 0 means 1.
func (t *Trace) Schedule(speed float64) loadgen.Timestamps {
	s := loadgen.Timestamps{Offsets: make([]time.Duration, len(t.Requests)), Speed: speed}
	for i, r := range t.Requests {
		s.Offsets[i] = r.At
	}
	return s
}

// TraceSource is a PromptSource with the lengths of a trace and made-up words. Where the trace has block hashes,
// equal blocks are equal text, so that shared prefixes are shared on the server too. It ends with the trace, and is
// safe for concurrent use.
type TraceSource struct {
	trace *Trace
	seed  uint64

	mu   sync.Mutex
	next int
}

// Prompts returns the trace's prompts, in its order.
func (t *Trace) Prompts(seed uint64) *TraceSource { return &TraceSource{trace: t, seed: seed} }

// Next returns the prompt of the trace's next request. A length of 0 becomes 1.
func (p *TraceSource) Next() (loadgen.Prompt, error) {
	p.mu.Lock()
	n := p.next
	p.next++
	p.mu.Unlock()
	if n >= len(p.trace.Requests) {
		return loadgen.Prompt{}, io.EOF
	}
	r := &p.trace.Requests[n]
	out := loadgen.Prompt{MaxTokens: max(r.OutputTokens, 1), PromptTokens: max(r.InputTokens, 1), Session: r.Session}
	var b strings.Builder
	left := out.PromptTokens
	for _, block := range r.Blocks {
		k := min(p.trace.BlockTokens, left)
		appendWords(&b, rand.New(rand.NewPCG(p.seed, uint64(block))), k)
		left -= k
	}
	// What the blocks don't cover is the request's own.
	appendWords(&b, rand.New(rand.NewPCG(^p.seed, uint64(n))), left)
	out.Text = b.String()
	return out, nil
}
