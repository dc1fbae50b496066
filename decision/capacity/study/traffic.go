package study

import (
	"bufio"
	"bytes"
	"cmp"
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
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/loadgen/prompt"
)

// Streams of math/rand/v2's PCG: one for each kind of trace that is drawn.
const (
	streamBuiltin = iota + 1
	streamPoisson
	streamConversations
)

// readTrace reads the trace into requests of tenant 0, or of the models that it names.
func (s *Study) readTrace(opts Options) error {
	name, seed := opts.Trace, opts.Seed
	switch {
	case !slices.Contains([]string{"", "s", "ms"}, opts.Timestamps):
		return fmt.Errorf("timestamps: %q is no unit: use s or ms", opts.Timestamps)
	case name == "":
		trace, err := prompt.ReadTrace(prompt.TraceAzure, bytes.NewReader(builtinTrace))
		if err != nil {
			return err
		}
		s.resample(trace, seed)
		return nil
	case strings.HasPrefix(name, "rate="):
		return s.poisson(name, seed)
	}
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	head, err := r.Peek(1 << 16)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("trace: %w", err)
	}
	if bytes.HasPrefix(head, []byte("[")) {
		return s.conversations(r, name, seed)
	}
	format, err := prompt.DetectTrace(head)
	if err == nil {
		var trace *prompt.Trace
		if trace, err = prompt.ReadTrace(format, r); err == nil {
			if err = s.checkUnit(trace, opts.Timestamps); err == nil {
				s.take(trace)
				return nil
			}
		}
	}
	return fmt.Errorf("trace: %s: %w", name, err)
}

func (s *Study) add(r capacity.Request) { s.requests = append(s.requests, r) }

// at converts seconds since the trace's beginning.
func at(seconds float64) time.Duration { return time.Duration(seconds * 1e9) }

// resample draws requests from the trace's gaps, shortened to the built-in rate, and
// its lengths (a bootstrap of both, independently).
func (s *Study) resample(trace *prompt.Trace, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, streamBuiltin))
	n := len(trace.Requests)
	speed := builtinPerS / (float64(n-1) / trace.Duration().Seconds())
	now := 0.0
	for range builtinRequests {
		k := 1 + rng.IntN(n-1)
		now += (trace.Requests[k].At - trace.Requests[k-1].At).Seconds() / speed
		r := &trace.Requests[rng.IntN(n)]
		s.add(capacity.Request{At: at(now), Input: max(r.InputTokens, 1), Output: max(r.OutputTokens, 1)})
	}
	s.note("%d requests drawn from the gaps and lengths of Azure's conversations of 2023, %d a second at load 1; "+
		"prices are examples", builtinRequests, builtinPerS)
}

const longest = 1e8 // seconds of a stream, three years

// poisson reads "rate=4,in=500,out=120[,n=2000]".
func (s *Study) poisson(text string, seed uint64) error {
	values := map[string]float64{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || !slices.Contains([]string{"rate", "in", "out", "n"}, name) || !(v > 0 && v <= 1e7) ||
			values[name] > 0 {
			return fmt.Errorf("trace: %q: write a stream like rate=4,in=500,out=120,n=2000, each above 0, at most 1e7, and once",
				part)
		}
		values[name] = v
	}
	n := cmp.Or(values["n"], 2000)
	if values["in"] < 1 || values["out"] < 1 || n < 1 || n/values["rate"] > longest {
		return errors.New("trace: a stream needs its lengths, and to end within three years: rate=4,in=500,out=120,n=2000")
	}
	rng := rand.New(rand.NewPCG(seed, streamPoisson))
	now := 0.0
	for range int(n) {
		now += rng.ExpFloat64() / values["rate"]
		s.add(capacity.Request{At: at(now), Input: int(values["in"]), Output: int(values["out"])})
	}
	return nil
}

// The rates in requests a second above which numbers that a format has in milliseconds, and below which those that it
// has in seconds, may well be in the other unit.
const mostPerS, leastPerS = 50, 0.01

const fewToTell = 20 // requests, of which a rate tells nothing

// checkUnit holds the rate of a trace whose timestamps are numbers against what a service gets. In another unit than
// its format's they give a thousand times too much or too little, so that whoever knows is asked.
func (s *Study) checkUnit(trace *prompt.Trace, unit string) error {
	own, other, factor := "s", "ms", 1000.0 // of the format
	if trace.Format == prompt.TraceMooncake {
		own, other, factor = other, own, 0.001
	}
	perS := float64(len(trace.Requests)-1) / max(trace.Duration().Seconds(), 1e-9)
	switch {
	case trace.Format == prompt.TraceAzure || unit == own || unit == "" && len(trace.Requests) < fewToTell:
		return nil
	case unit == "" && trace.Duration() > 0 && (own == "ms" && perS > mostPerS || own == "s" && perS < leastPerS):
		return fmt.Errorf("timestamps: in %s as the format has them they are %.3g requests a second, in %s %.3g: say "+
			"which with -timestamps s or ms", own, perS, other, perS*factor)
	case unit == "":
		return nil
	}
	for i := range trace.Requests {
		trace.Requests[i].At = time.Duration(float64(trace.Requests[i].At) / factor)
	}
	return nil
}

// take takes a published trace as it stands; a length of 0 becomes 1, and is told.
func (s *Study) take(trace *prompt.Trace) {
	models, sessions := map[string]int{}, map[string]uint64{}
	s.Plan.PrefixTokens = trace.BlockTokens
	zero := 0
	for i := range trace.Requests {
		t := &trace.Requests[i]
		if t.InputTokens < 1 || t.OutputTokens < 1 {
			zero++
		}
		r := capacity.Request{
			At: t.At, Input: max(t.InputTokens, 1), Output: max(t.OutputTokens, 1),
			Prefix: chained(t.Blocks, t.InputTokens, trace.BlockTokens),
		}
		if t.Session != "" {
			if sessions[t.Session] == 0 {
				sessions[t.Session] = uint64(len(sessions) + 1)
			}
			r.Session = sessions[t.Session]
		}
		if _, ok := models[t.Model]; !ok {
			models[t.Model] = len(models)
			s.models = append(s.models, t.Model)
		}
		r.Tenant = models[t.Model]
		s.add(r)
	}
	if zero > 0 {
		s.note("%d requests have no input or no output and count as one token", zero)
	}
	if trace.BlockTokens == 0 {
		s.note("the trace has no hashes of prompts: nothing is shared in prefix caches")
	}
}

// chained makes hashes of whole blocks that depend on all blocks before (FNV-1a over the blocks' hashes, mixed).
func chained(blocks []int64, tokens, block int) []uint64 {
	if block == 0 {
		return nil
	}
	const offset, prime = 14695981039346656037, 1099511628211
	out := make([]uint64, 0, len(blocks))
	h := uint64(offset)
	for i, b := range blocks {
		if (i+1)*block > tokens {
			break
		}
		h = (h ^ uint64(b)) * prime
		h ^= h >> 29
		out = append(out, h)
	}
	return out
}

// Assumptions about ShareGPT's conversations, which have neither times nor tokens.
const (
	wordTokens       = 4.0 / 3 // tokens of a word
	conversationGap  = 1.0     // seconds between the beginnings of conversations, on average
	turnPause        = 5.0     // seconds from an answer to the next question, beside
	readingPerSecond = 4.0     // tokens of the answer that are read in a second
	prefixBlock      = 16      // tokens of a block of a prompt (vLLM's block size)
)

// conversations reads ShareGPT's: conversations begin as a Poisson process, and their turns follow at reading speed.
func (s *Study) conversations(r io.Reader, name string, seed uint64) error {
	all, skipped, err := prompt.ReadShareGPT(r)
	if err == nil && len(all) == 0 {
		err = errors.New("no conversation has a question and its answer")
	}
	if err != nil {
		return fmt.Errorf("trace: %s: %w", name, err)
	}
	rng := rand.New(rand.NewPCG(seed, streamConversations))
	tokens := func(text string) int { return 1 + int(float64(len(strings.Fields(text)))*wordTokens) }
	start := 0.0
	for i, c := range all {
		start += rng.ExpFloat64() * conversationGap
		now, history := start, tokens(c.System)
		for _, t := range c.Turns {
			history += tokens(t.User)
			q := capacity.Request{At: at(now), Session: uint64(i + 1), Input: history, Output: tokens(t.Reply)}
			for k := range history / prefixBlock {
				q.Prefix = append(q.Prefix, uint64(i+1)<<24|uint64(k))
			}
			s.add(q)
			history += q.Output
			now += turnPause + float64(q.Output)/readingPerSecond
		}
	}
	slices.SortStableFunc(s.requests, func(a, b capacity.Request) int { return int(a.At - b.At) })
	s.note("%d conversations at one a second, lengths from words; %d skipped", len(all), skipped)
	return nil
}

// divide makes the tenants: one for each model that the trace names, or for each that is known, among which a trace
// that names none is divided by session, else by request.
func (s *Study) divide(all []model, seed uint64) ([]capacity.Tenant, error) {
	models, err := s.pick(all)
	if err != nil {
		return nil, err
	}
	named := len(models)
	if named > max(1, len(s.models)) {
		for i := range s.requests {
			r := &s.requests[i]
			r.Tenant = rand.New(rand.NewPCG(seed, cmp.Or(r.Session, uint64(i)))).IntN(named)
		}
		s.note("the trace names no model and is divided among %d", named)
	}
	n, input, output := make([]float64, named), make([]float64, named), make([]float64, named)
	for i := range s.requests {
		r := &s.requests[i]
		n[r.Tenant]++
		input[r.Tenant] += float64(r.Input)
		output[r.Tenant] += float64(r.Output)
	}
	var tenants []capacity.Tenant
	var errs []error
	index := make([]int, named)
	for i := range named {
		m := &models[i]
		shape, err := cmp.Or(m.shape, &costs.Model{}), error(nil)
		if m.shape == nil {
			*shape, err = shapeOf(m.name)
		}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("profiles: %w", err))
		case n[i] == 0:
			s.note("%s gets no request and is left out", m.name)
		default:
			index[i] = len(tenants)
			profiles := m.nearest(input[i]/n[i], output[i]/n[i])
			tenants = append(tenants, capacity.Tenant{Name: m.name, Model: m.name, Shape: *shape, Profiles: profiles})
		}
	}
	for i := range s.requests {
		s.requests[i].Tenant = index[s.requests[i].Tenant]
	}
	return tenants, errors.Join(errs...)
}
