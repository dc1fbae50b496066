// SPDX-License-Identifier: Apache-2.0

package prompt

import (
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
)

// The columns of the CSV formats, by name: their order has changed between
// releases and tools that go by position read the wrong ones.
var (
	azureColumns    = []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}
	burstGPTColumns = []string{"Timestamp", "Request tokens", "Response tokens"}
)

// cells reads one row's cells by column.
type cells struct {
	line
	column map[string]int
	values []string
}

func (c *cells) get(column string) string {
	i, has := c.column[column]
	if !has {
		return ""
	}
	return strings.TrimSpace(c.values[i])
}

// tokens reads a whole number of 0 or more; some exports write it as "12.0".
func (c *cells) tokens(column string) int {
	v, err := strconv.ParseFloat(c.get(column), 64)
	if err != nil || !(v >= 0 && v <= maxTraceTokens) || v != math.Trunc(v) {
		c.bad(column, fmt.Sprintf("use a whole number from 0 to %d", maxTraceTokens), "is %q", problem.Clip(c.get(column)))
		return 0
	}
	return int(v)
}

// table reads a CSV trace with a header.
type table struct {
	required []string
	read     func(c *cells) (r TraceRequest, keep bool)
	column   map[string]int
	width    int
	broken   bool // the header is unusable: its rows would only repeat that
}

func (t *table) row(l line) (r TraceRequest, keep bool) {
	if t.broken {
		return r, false
	}
	values, err := splitCSV(string(l.text))
	switch {
	case err != nil:
		l.bad("", "", "not a CSV row: %v", err)
	case t.column == nil:
		t.header(l, values)
	case len(values) != t.width:
		l.bad("", "complete or remove the row", "%d columns, the header has %d", len(values), t.width)
	default:
		return t.read(&cells{l, t.column, values})
	}
	return r, false
}

func (t *table) header(l line, names []string) {
	bad := func(remedy, format, name string) {
		l.list.Add(&problem.Problem{Line: l.n, Path: "header", Message: fmt.Sprintf(format, name), Remedy: remedy})
		t.broken = true
	}
	t.column, t.width = map[string]int{}, len(names)
	for i, name := range names {
		name = strings.TrimSpace(name)
		if _, twice := t.column[name]; twice && slices.Contains(t.required, name) {
			bad("keep one", "column %q twice", name)
		}
		t.column[name] = i
	}
	for _, name := range t.required {
		if _, has := t.column[name]; has {
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

// azureLayouts are the time stamps of 2023 (no zone) and of 2024. Go reads a
// fraction of a second after the seconds whether or not the layout has one.
var azureLayouts = []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00"}

func azureRow(c *cells) (TraceRequest, bool) {
	r := TraceRequest{InputTokens: c.tokens("ContextTokens"), OutputTokens: c.tokens("GeneratedTokens")}
	stamp := c.get("TIMESTAMP")
	for _, layout := range azureLayouts {
		at, err := time.Parse(layout, stamp)
		if err != nil {
			continue
		}
		if r.At = at.Sub(azureEpoch); r.At < 0 || r.At > maxTraceTime {
			break
		}
		return r, true
	}
	c.bad("TIMESTAMP", "write it like 2023-11-16 18:15:46.6805900 or 2024-05-10 00:00:00.009930+00:00", "is %q",
		problem.Clip(stamp))
	return r, false
}

var azureEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func burstGPTRow(c *cells) (TraceRequest, bool) {
	r := TraceRequest{
		InputTokens: c.tokens("Request tokens"), OutputTokens: c.tokens("Response tokens"),
		Session: c.get("Session ID"),
	}
	s, err := strconv.ParseFloat(c.get("Timestamp"), 64)
	if err != nil || !(s >= 0 && s <= maxTraceTime.Seconds()) {
		c.bad("Timestamp", "use seconds, 0 or more", "is %q", problem.Clip(c.get("Timestamp")))
		return r, false
	}
	r.At = time.Duration(s * 1e9)
	return r, r.OutputTokens > 0 // else it failed
}

// blockSizes are the sizes of blocks in which tools write Mooncake traces; the published ones have 512 tokens.
var blockSizes = []int{512, 16, 32, 64, 128, 256, 1024, 2048}

// hashed is a line with hashes of blocks.
type hashed struct{ line, tokens, blocks int }

// holds reports whether a prompt of so many tokens has so many blocks of a size.
func (h hashed) holds(size int) bool { return h.blocks == (h.tokens+size-1)/size }

// mooncake reads a line. Hashes of blocks are optional, line by line.
func (t *Trace) mooncake(all *[]hashed) func(line) (TraceRequest, bool) {
	return func(l line) (r TraceRequest, keep bool) {
		o, ok := parseObject(l)
		if !ok {
			return r, false
		}
		r = request(o)
		if string(o.values["hash_ids"]) == "null" {
			delete(o.values, "hash_ids")
		}
		if o.decode("hash_ids", &r.Blocks, "a list of whole numbers") && o.good() {
			*all = append(*all, hashed{l.n, r.InputTokens, len(r.Blocks)})
		}
		return r, true
	}
}

// blocks finds the size of a trace's blocks: 512 tokens, or another that all of its lines have, of which at least two
// have several. Of a trace of no one size the lines that do not have 512 are problems.
func (t *Trace) blocks(all []hashed) error {
	t.BlockTokens = 0
	if len(all) == 0 {
		return nil
	}
	several := 0
	for _, h := range all {
		if h.blocks > 1 {
			several++
		}
	}
	for _, size := range blockSizes {
		if size != blockSizes[0] && several < 2 {
			break
		}
		if !slices.ContainsFunc(all, func(h hashed) bool { return !h.holds(size) }) {
			t.BlockTokens = size
			return nil
		}
	}
	var l problem.List
	for _, h := range all {
		if size := blockSizes[0]; !h.holds(size) && l.Len() <= problem.Enough {
			l.Add(&problem.Problem{Path: fmt.Sprintf("line %d.hash_ids", h.line), Line: h.line,
				Message: fmt.Sprintf("%d ids for %d tokens, which are %d blocks", h.blocks, h.tokens, (h.tokens+size-1)/size),
				Remedy: fmt.Sprintf("give one id for each %d tokens, or all lines blocks of one other size, a power of two from "+
					"16 to 2048", size)})
		}
	}
	return l.Under(loadgen.ErrInput)
}

// request reads a request.
func request(o *object) (r TraceRequest) {
	if v, ok := o.number("timestamp"); ok {
		if ns := v * float64(time.Millisecond); ns <= float64(maxTraceTime) {
			r.At = time.Duration(ns)
		} else {
			o.bad("timestamp", "check its unit", "%v is beyond a hundred years", v)
		}
	}
	r.InputTokens = o.tokens("input_length")
	r.OutputTokens = o.tokens("output_length")
	return r
}

// tokens reads a required whole number of 0 or more.
func (o *object) tokens(name string) int {
	v, ok := o.number(name)
	if !ok {
		return 0
	}
	if v != float64(int64(v)) || v > maxTraceTokens {
		o.bad(name, fmt.Sprintf("use a whole number up to %d", maxTraceTokens), "is %v", v)
		return 0
	}
	return int(v)
}
