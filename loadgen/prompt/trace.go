// SPDX-License-Identifier: Apache-2.0

package prompt

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
)

// traceFormat is the format of a published trace.
type traceFormat uint8

const (
	traceMooncake traceFormat = iota
	traceAzure
	traceBurstGPT
)

// maxTraceTime bounds a timestamp: a hundred years.
const maxTraceTime = 100 * 365 * 24 * time.Hour

// TraceRequest is one request of a trace.
type TraceRequest struct {
	At           time.Duration // since the trace's first request
	InputTokens  int
	OutputTokens int
	// Blocks are the hashes of the prompt's blocks of Trace.BlockTokens tokens, the last one possibly partial: equal
	// leading hashes are a shared prefix. nil if the trace has none.
	Blocks []int64
	// Session groups the turns of a conversation, "" if the trace has none.
	Session string
}

// Trace is a published trace of requests, in order of time. Rows marked as failed (BurstGPT: no response tokens) are
// left out.
type Trace struct {
	Format   string // "mooncake", "azure" or "burstgpt"
	Requests []TraceRequest
	// BlockTokens is the size of a block of TraceRequest.Blocks, 0 without blocks.
	BlockTokens int
}

// formatOf finds the format by a file's beginning, which holds at least the first line. The error wraps ErrInput.
func formatOf(head []byte) (traceFormat, error) {
	line, _, _ := bytes.Cut(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), []byte("\n"))
	line = bytes.TrimSpace(line)
	if bytes.HasPrefix(line, []byte("[")) || bytes.Equal(line, []byte("{")) {
		return 0, fmt.Errorf("%w: the trace is one JSON document: write one object a line (jq -c '.[]' FILE)",
			loadgen.ErrInput)
	}
	if bytes.HasPrefix(line, []byte("{")) {
		return traceMooncake, nil
	}
	for _, format := range []traceFormat{traceAzure, traceBurstGPT} {
		if bytes.Contains(line, []byte(traceFields[format].input)) {
			return format, nil
		}
	}
	return 0, fmt.Errorf("%w: cannot tell the trace's format from its first line %q (known: mooncake, azure, burstgpt)",
		loadgen.ErrInput, problem.Clip(string(line)))
}

// ReadTrace reads a whole trace, in the format that its first line shows:
//
//   - Mooncake's (FAST'25): JSON Lines with timestamp (ms), input_length and output_length; hash_ids, of blocks of 512
//     tokens unless all fit another power of two, may be missing
//   - Azure's of LLM inference, 2023 and 2024: CSV with TIMESTAMP, ContextTokens, GeneratedTokens
//   - BurstGPT's: CSV with Timestamp (s), Request tokens, Response tokens
//
// It is strict: a missing column or field, a value of the wrong type and a row of another length are problems. One
// error, which wraps loadgen.ErrInput, names them (the first 20) and comes without a trace.
func ReadTrace(r io.Reader) (*Trace, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	head, _ := in.Peek(in.Size()) // a failure to read comes again below
	format, err := formatOf(head)
	if err != nil {
		return nil, err
	}
	f := &traceFields[format]
	t := &Trace{Format: f.name}
	row := (&table{required: []string{f.at, f.input, f.output}}).row
	if format == traceMooncake {
		row = f.object
	}
	var hashes []hashed
	err = readLines(in, func(l line) {
		values := row(l)
		if values == nil {
			return
		}
		req := f.request(&l, values)
		if req.Blocks != nil {
			hashes = append(hashes, hashed{l.n, req.InputTokens, len(req.Blocks)})
		}
		if failed := format == traceBurstGPT && req.OutputTokens == 0; l.good() && !failed {
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
		return nil, fmt.Errorf("%w: the %v trace has no requests", loadgen.ErrInput, f.name)
	}
	slices.SortStableFunc(t.Requests, func(a, b TraceRequest) int { return cmp.Compare(a.At, b.At) })
	first := t.Requests[0].At
	for i := range t.Requests {
		t.Requests[i].At -= first
	}
	return t, nil
}

// Slice returns the part of the trace in [from, to), with times counted from from; to = 0 means the end. The requests
// are shared with t. Call Slice before Schedule and Prompts, so that times and lengths match.
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
func (t *Trace) Schedule(speed float64) loadgen.Schedule {
	offsets := make([]time.Duration, len(t.Requests))
	for i, r := range t.Requests {
		offsets[i] = r.At
	}
	return loadgen.Timestamps(offsets, speed)
}

// traceSource serves Trace.Prompts.
type traceSource struct {
	trace *Trace
	seed  uint64

	mu   sync.Mutex
	next int
}

// Prompts returns the trace's prompts, in its order: random words with the lengths in the trace. Where it has block
// hashes, equal blocks are equal text, so that shared prefixes are shared on the server too. The source ends with the
// trace, and is safe for concurrent use.
func (t *Trace) Prompts(seed uint64) loadgen.PromptSource { return &traceSource{trace: t, seed: seed} }

// Next returns the prompt of the trace's next request. A length of 0 becomes 1.
func (p *traceSource) Next() (loadgen.Prompt, error) {
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

// fields are the names of a format's columns or fields: their order has changed between releases, and tools that go by
// position read the wrong ones.
type fields struct {
	name                       string
	at, input, output, session string // a session may be missing
	time                       func(text string) (time.Duration, error)
	remedy                     string // for times
}

var traceFields = [...]fields{
	traceMooncake: {name: "mooncake", at: "timestamp", input: "input_length", output: "output_length",
		time: unit(time.Millisecond), remedy: "use milliseconds, 0 or more"},
	traceAzure: {name: "azure", at: "TIMESTAMP", input: "ContextTokens", output: "GeneratedTokens", time: azureTime,
		remedy: "write it like 2023-11-16 18:15:46.6805900 or 2024-05-10 00:00:00.009930+00:00"},
	traceBurstGPT: {name: "burstgpt", at: "Timestamp", input: "Request tokens", output: "Response tokens",
		session: "Session ID", time: unit(time.Second), remedy: "use seconds, 0 or more"},
}

// unit reads a number of units of time.
func unit(d time.Duration) func(string) (time.Duration, error) {
	return func(text string) (time.Duration, error) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v*float64(d) <= float64(maxTraceTime)) {
			return 0, cmp.Or(err, errors.New("too late"))
		}
		return time.Duration(v * float64(d)), nil
	}
}

// azureTime reads the time stamps of 2023 (no zone) and of 2024. Go reads a fraction of a second after the seconds
// whether or not the layout has one.
func azureTime(text string) (time.Duration, error) {
	at, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		at, err = time.Parse("2006-01-02 15:04:05Z07:00", text)
	}
	return at.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), err
}

// object returns the fields of a JSON object, nil where one is missing.
func (f *fields) object(l line) map[string]string {
	o, ok := parseObject(l)
	if !ok {
		return nil
	}
	values := map[string]string{}
	for name, raw := range o.values {
		values[name] = string(raw)
	}
	for _, name := range []string{f.at, f.input, f.output} {
		if values[name] == "" {
			l.bad(name, "add it", "missing")
		}
	}
	if !l.good() {
		return nil
	}
	return values
}

// request reads a request. Hashes of blocks are optional, line by line.
func (f *fields) request(l *line, values map[string]string) TraceRequest {
	r := TraceRequest{InputTokens: tokens(l, f.input, values), OutputTokens: tokens(l, f.output, values)}
	if f.session != "" {
		r.Session = values[f.session]
	}
	var err error
	if r.At, err = f.time(values[f.at]); err != nil || r.At < 0 || r.At > maxTraceTime {
		l.bad(f.at, f.remedy, "is %q", problem.Clip(values[f.at]))
	}
	hashes := values["hash_ids"]
	if f != &traceFields[traceMooncake] || hashes == "" || hashes == "null" {
		return r
	}
	if err := json.Unmarshal([]byte(hashes), &r.Blocks); err != nil {
		l.bad("hash_ids", "write a list of whole numbers", "is %s", problem.Clip(hashes))
	}
	return r
}

// blockSizes are the sizes of blocks in which tools write Mooncake traces; the published ones have 512 tokens.
var blockSizes = []int{512, 16, 32, 64, 128, 256, 1024, 2048}

// hashed is a line with hashes of blocks.
type hashed struct{ line, tokens, blocks int }

// holds reports whether a prompt of so many tokens has so many blocks of a size.
func (h hashed) holds(size int) bool { return h.blocks == (h.tokens+size-1)/size }

// blockSize returns the size of a trace's blocks: 512 tokens, or another one that all of its lines have, of which at
// least two have several blocks; 0 without blocks. In a trace of no single size the lines without 512 are problems.
func blockSize(all []hashed) (int, error) {
	if len(all) == 0 {
		return 0, nil
	}
	several := 0
	for _, h := range all {
		if h.blocks > 1 {
			several++
		}
	}
	var l problem.List
	for _, size := range blockSizes {
		other := func(h hashed) bool { return !h.holds(size) }
		if !slices.ContainsFunc(all, other) && (size == blockSizes[0] || several > 1) {
			return size, nil
		}
	}
	for _, h := range all {
		if size := blockSizes[0]; !h.holds(size) && l.Len() <= problem.Enough {
			l.Add(&problem.Problem{Path: fmt.Sprintf("line %d.hash_ids", h.line), Line: h.line,
				Message: fmt.Sprintf("%d ids for %d tokens, which are %d blocks", h.blocks, h.tokens, (h.tokens+size-1)/size),
				Remedy: fmt.Sprintf("give one id for each %d tokens, or all lines blocks of one other size, a power of two from "+
					"16 to 2048", size)})
		}
	}
	return 0, l.Under(loadgen.ErrInput)
}

// tokens reads a whole number of 0 or more; some exports write it as "12.0".
func tokens(l *line, name string, values map[string]string) int {
	v, err := strconv.ParseFloat(values[name], 64)
	if err != nil || !(v >= 0 && v <= maxTraceTokens) || v != math.Trunc(v) {
		l.bad(name, fmt.Sprintf("use a whole number from 0 to %d", maxTraceTokens), "is %q", problem.Clip(values[name]))
		return 0
	}
	return int(v)
}

// table reads a CSV trace with a header.
type table struct {
	required []string
	names    []string // of the columns
	broken   bool     // the header is unusable: its rows would only repeat that
}

// row returns the values of a row by column, nil for the header and for rows that are not of its length.
func (t *table) row(l line) map[string]string {
	if t.broken {
		return nil
	}
	values, err := splitCSV(string(l.text))
	switch {
	case err != nil:
		l.bad("", "", "not a CSV row: %v", err)
	case t.names == nil:
		t.header(l, values)
	case len(values) != len(t.names):
		l.bad("", "complete or remove the row", "%d columns, the header has %d", len(values), len(t.names))
	default:
		row := map[string]string{}
		for i, name := range t.names {
			row[name] = strings.TrimSpace(values[i])
		}
		return row
	}
	return nil
}

func (t *table) header(l line, names []string) {
	bad := func(remedy, format, name string) {
		l.list.Add(&problem.Problem{Line: l.n, Path: "header", Message: fmt.Sprintf(format, name), Remedy: remedy})
		t.broken = true
	}
	for _, name := range names {
		name = strings.TrimSpace(name)
		if slices.Contains(t.names, name) && slices.Contains(t.required, name) {
			bad("keep one", "column %q twice", name)
		}
		t.names = append(t.names, name)
	}
	for _, name := range t.required {
		if slices.Contains(t.names, name) {
			continue
		}
		remedy := "columns are found by name; add it"
		if near := problem.Nearest(name, names); near != "" {
			remedy = fmt.Sprintf("rename %q", near)
		}
		bad(remedy, "no column %q", name)
	}
}

func splitCSV(line string) ([]string, error) {
	r := csv.NewReader(strings.NewReader(line))
	r.FieldsPerRecord = -1
	return r.Read()
}
