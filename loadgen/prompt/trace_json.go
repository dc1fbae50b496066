package prompt

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
)

var (
	mooncakeFields = []string{"timestamp", "input_length", "output_length", "hash_ids"}
	bailianFields  = []string{"chat_id", "parent_chat_id", "timestamp", "input_length", "output_length", "type", "turn",
		"hash_ids"}
)

// mooncake reads a line; the number of blocks must be that of the input's length.
func (t *Trace) mooncake(l *problem.List, n int, line []byte) (TraceRequest, bool) {
	o, ok := parseObject(l, n, line)
	if !ok {
		return TraceRequest{}, false
	}
	before := l.Len()
	r := t.request(o, mooncakeFields, time.Millisecond)
	if want := (r.InputTokens + t.BlockTokens - 1) / t.BlockTokens; l.Len() == before && len(r.Blocks) != want {
		o.bad("hash_ids", fmt.Sprintf("give one id for each %d tokens", t.BlockTokens),
			"%d ids for %d tokens, which are %d blocks", len(r.Blocks), r.InputTokens, want)
	}
	return r, l.Len() == before
}

// request reads what both JSON formats have.
func (t *Trace) request(o *object, known []string, unit time.Duration) (r TraceRequest) {
	for _, name := range o.unknown(known) {
		t.ignore(name)
	}
	if v, ok := o.number("timestamp"); ok {
		if ns := v * float64(unit); ns <= float64(maxTraceTime) {
			r.At = time.Duration(ns)
		} else {
			o.bad("timestamp", "check its unit", "%v is beyond a hundred years", v)
		}
	}
	r.InputTokens = o.tokens("input_length")
	r.OutputTokens = o.tokens("output_length")
	if _, has := o.values["hash_ids"]; !has {
		o.bad("hash_ids", "add it", "missing")
	} else {
		o.decode("hash_ids", &r.Blocks, "a list of whole numbers")
	}
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

func (t *Trace) ignore(name string) {
	if name = problem.Clip(name); len(t.Ignored) < problem.Enough && !slices.Contains(t.Ignored, name) {
		t.Ignored = append(t.Ignored, name)
	}
}

// bailian follows the chains of parents, so that a conversation's turns have one session: its first chat's id.
type bailian struct {
	trace *Trace
	root  map[int64]int64
}

func (b *bailian) row(l *problem.List, n int, line []byte) (TraceRequest, bool) {
	o, ok := parseObject(l, n, line)
	if !ok {
		return TraceRequest{}, false
	}
	before := l.Len()
	r := b.trace.request(o, bailianFields, time.Second)
	var chat, parent int64
	for _, f := range []struct {
		name string
		into *int64
	}{{"chat_id", &chat}, {"parent_chat_id", &parent}} {
		if _, has := o.values[f.name]; !has {
			o.bad(f.name, "add it", "missing")
		} else {
			o.decode(f.name, f.into, "a whole number")
		}
	}
	if l.Len() != before {
		return TraceRequest{}, false
	}
	root := chat
	if parent >= 0 {
		// A parent before the file's beginning still groups its children.
		root = parent
		if r, known := b.root[parent]; known {
			root = r
		}
	}
	b.root[chat] = root
	r.Session = strconv.FormatInt(root, 10)
	return r, true
}
