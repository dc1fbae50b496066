package prompt

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/cotenant/cotenant/loadgen"
)

// TraceOptions tune Trace.Prompts. The zero value is the documented default.
type TraceOptions struct {
	// MaxInput and MaxOutput cut longer prompts and answers, so that a trace fits a
	// model's context; 0 means no bound.
	MaxInput, MaxOutput int
	Seed                uint64
	// IgnoreEOS is as in SyntheticOptions.
	IgnoreEOS bool
}

// TraceSource is a PromptSource with the lengths of a trace and made-up words. Where the trace has block hashes,
// equal blocks are equal text, so that shared prefixes are shared on the server too. It ends with the trace, and is
// safe for concurrent use.
type TraceSource struct {
	trace *Trace
	opts  TraceOptions

	mu   sync.Mutex
	next int
}

// Prompts returns the trace's prompts, in its order.
func (t *Trace) Prompts(opts TraceOptions) (*TraceSource, error) {
	if opts.MaxInput < 0 || opts.MaxOutput < 0 {
		return nil, fmt.Errorf("loadgen: bounds of %d prompt and %d output tokens (use 0 or more)", opts.MaxInput,
			opts.MaxOutput)
	}
	return &TraceSource{trace: t, opts: opts}, nil
}

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
	bound := func(v, limit int) int {
		if v = max(v, 1); limit > 0 {
			return min(v, limit)
		}
		return v
	}
	out := loadgen.Prompt{MaxTokens: bound(r.OutputTokens, p.opts.MaxOutput),
		PromptTokens: bound(r.InputTokens, p.opts.MaxInput), Session: r.Session}
	if len(r.Blocks) > 0 {
		// Of a prompt that was cut, what is left of the blocks.
		whole := (out.PromptTokens + p.trace.BlockTokens - 1) / p.trace.BlockTokens
		out.Prefix, out.Blocks = fmt.Sprintf("b%d", r.Blocks[0]), r.Blocks[:min(whole, len(r.Blocks))]
	}
	if p.opts.IgnoreEOS {
		out.Body = map[string]any{"ignore_eos": true}
	}
	out.Text = p.text(n, r.Blocks, out.PromptTokens)
	return out, nil
}

func (p *TraceSource) text(n int, blocks []int64, left int) string {
	var b strings.Builder
	for _, block := range blocks {
		k := min(p.trace.BlockTokens, left)
		appendWords(&b, rand.New(rand.NewPCG(p.opts.Seed, uint64(block))), k)
		if left -= k; left == 0 {
			return b.String()
		}
	}
	// What the blocks don't cover is the request's own.
	appendWords(&b, rand.New(rand.NewPCG(^p.opts.Seed, uint64(n))), left)
	return b.String()
}
