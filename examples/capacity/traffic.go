package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/loadgen/prompt"
)

// readTrace reads the trace into requests of tenant 0, or of the models that it names.
func (in *input) readTrace(o *options) error {
	switch {
	case o.trace == "builtin":
		trace, err := prompt.ReadTrace(prompt.TraceAzure, bytes.NewReader(builtinTrace))
		if err != nil {
			return err
		}
		in.builtin(trace, o.seed)
		return nil
	case strings.HasPrefix(o.trace, "rate="):
		return in.poisson(o.trace, o.seed)
	}
	f, err := os.Open(o.trace)
	if err != nil {
		return fmt.Errorf("-trace: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	head, err := r.Peek(1 << 16)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("-trace: %w", err)
	}
	if bytes.HasPrefix(head, []byte("[")) {
		return in.conversations(r, o)
	}
	format, err := prompt.DetectTrace(head)
	if err != nil {
		return fmt.Errorf("-trace: %s: %w", o.trace, err)
	}
	trace, err := prompt.ReadTrace(format, r)
	if err != nil {
		return fmt.Errorf("-trace: %s: %w", o.trace, err)
	}
	in.fromTrace(trace)
	return nil
}

// builtin draws requests as the trace has them: its gaps, faster, and its lengths.
func (in *input) builtin(trace *prompt.Trace, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	n := len(trace.Requests)
	speed := builtinPerS / (float64(n-1) / trace.Duration().Seconds())
	at := 0.0
	for range builtinRequests {
		k := 1 + rng.IntN(n-1)
		at += (trace.Requests[k].At - trace.Requests[k-1].At).Seconds() / speed
		r := &trace.Requests[rng.IntN(n)]
		in.requests = append(in.requests, capacity.Request{At: time.Duration(at * 1e9), Input: max(r.InputTokens, 1), Output: max(r.OutputTokens, 1)})
	}
	in.notes = append(in.notes, fmt.Sprintf("%d requests drawn from the gaps and lengths of Azure's conversations of 2023, %d a second at load 1; prices are examples", builtinRequests, builtinPerS))
}

// poisson reads "rate=4,in=500,out=120[,n=2000]".
func (in *input) poisson(text string, seed uint64) error {
	values := map[string]float64{"n": 2000}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || !slices.Contains([]string{"rate", "in", "out", "n"}, name) || !(v > 0 && v <= 1e7) {
			return fmt.Errorf("-trace: %q: write a stream like rate=4,in=500,out=120,n=2000, each above 0", part)
		}
		values[name] = v
	}
	if values["in"] < 1 || values["out"] < 1 || values["n"] < 1 {
		return errors.New("-trace: a stream needs its lengths: rate=4,in=500,out=120")
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	at := 0.0
	for range int(values["n"]) {
		at += rng.ExpFloat64() / values["rate"]
		in.requests = append(in.requests, capacity.Request{At: time.Duration(at * 1e9), Input: int(values["in"]), Output: int(values["out"])})
	}
	return nil
}

// fromTrace takes a published trace as it stands; a length of 0 becomes 1.
func (in *input) fromTrace(trace *prompt.Trace) {
	models := map[string]int{}
	sessions := map[string]uint64{}
	if trace.BlockTokens > 0 {
		in.plan.PrefixTokens, in.trace = trace.BlockTokens, trace
	}
	for i := range trace.Requests {
		t := &trace.Requests[i]
		r := capacity.Request{At: t.At, Input: max(t.InputTokens, 1), Output: max(t.OutputTokens, 1), Prefix: chained(t.Blocks, t.InputTokens, trace.BlockTokens)}
		if t.Session != "" {
			if sessions[t.Session] == 0 {
				sessions[t.Session] = uint64(len(sessions) + 1)
			}
			r.Session = sessions[t.Session]
		}
		if _, ok := models[t.Model]; !ok {
			models[t.Model] = len(models)
		}
		r.Tenant = models[t.Model]
		in.requests = append(in.requests, r)
	}
	in.models = make([]string, len(models))
	for name, i := range models {
		in.models[i] = name
	}
	if trace.BlockTokens == 0 {
		in.notes = append(in.notes, "the trace has no hashes of prompts: nothing is shared in prefix caches")
	}
}

// chained makes hashes of whole blocks that depend on all that come before.
func chained(blocks []int64, tokens, block int) []uint64 {
	if block == 0 {
		return nil
	}
	out := make([]uint64, 0, len(blocks))
	h := uint64(14695981039346656037)
	for i, b := range blocks {
		if (i+1)*block > tokens {
			break
		}
		h = (h ^ uint64(b)) * 1099511628211
		h ^= h >> 29
		out = append(out, h)
	}
	return out
}

// conversations reads ShareGPT's: each begins a second after the one before, on
// average, and its turns follow at reading speed. Words stand for tokens, four thirds
// a word.
func (in *input) conversations(r *bufio.Reader, o *options) error {
	all, skipped, err := prompt.ReadShareGPT(r)
	if err != nil {
		return fmt.Errorf("-trace: %s: %w", o.trace, err)
	}
	if len(all) == 0 {
		return fmt.Errorf("-trace: %s: no conversation has a question and its answer", o.trace)
	}
	rng := rand.New(rand.NewPCG(o.seed, 3))
	tokens := func(text string) int { return 1 + len(strings.Fields(text))*4/3 }
	start := 0.0
	for i, c := range all {
		start += rng.ExpFloat64()
		at, history := start, tokens(c.System)
		for _, t := range c.Turns {
			history += tokens(t.User)
			out := tokens(t.Reply)
			q := capacity.Request{At: time.Duration(at * 1e9), Session: uint64(i + 1), Input: history, Output: out}
			for k := range history / 16 {
				q.Prefix = append(q.Prefix, uint64(i+1)<<24|uint64(k))
			}
			in.requests = append(in.requests, q)
			history += out
			at += 5 + float64(out)/4 // to read it and to write the next question
		}
	}
	slices.SortStableFunc(in.requests, func(a, b capacity.Request) int { return int(a.At - b.At) })
	in.notes = append(in.notes, fmt.Sprintf("%d conversations at one a second, lengths from words; %d skipped", len(all), skipped))
	return nil
}
