// SPDX-License-Identifier: Apache-2.0

package prompt

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
)

// words are short, frequent English words, each one token in the usual vocabularies after a space.
var words = strings.Fields(`the of and to in is that for it as was with be by on not he his but at are this have from or
	had an they which one you were all her she there would their we him been has when who will no more if out so said what
	up its about than into them can only other time new some could
	these two may first then do any like my now over such our
	man me even most made after also well did many before must through back years where much your way down should because
	long each just those people how too little state good very make world still own see men work here get both between life
	being under never day same another know while last might us great old year off come since against go
	came right used take three`)

func appendWords(b *strings.Builder, rng *rand.Rand, n int) {
	b.Grow(n * 5)
	for range n {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(words[rng.IntN(len(words))])
	}
}

// SharedPrefix makes prompts begin with one of a few common texts, as system prompts and few-shot examples do.
type SharedPrefix struct {
	// Groups is the number of different prefixes; 0 means 1.
	Groups int `yaml:"groups"`
	// Tokens is the length of each. It is added to SyntheticOptions.Input.
	Tokens int `yaml:"tokens"`
	// Zipf is the exponent of the groups' popularity: the k-th is used in proportion to 1/k^Zipf. 0 means equally.
	Zipf float64 `yaml:"zipf"`
}

// SyntheticOptions describe prompts of random words, each counted as a token. Input and Output are required; everything
// else has a default.
type SyntheticOptions struct {
	Input  Lengths // tokens of a prompt without its prefix
	Output Lengths // sent as max_tokens
	Prefix SharedPrefix
	Seed   uint64
	// IgnoreEOS adds "ignore_eos": true to each request, which vLLM and SGLang
	// understand, so that answers have the requested length.
	IgnoreEOS bool
}

// synthetic is the source of NewSynthetic.
type synthetic struct {
	opts     SyntheticOptions
	prefixes []string
	weights  []float64 // cumulative

	mu   sync.Mutex
	next int
}

// NewSynthetic returns a source of made-up prompts that never ends. The n-th prompt depends only on the options' seed
// and on n. The source is safe for concurrent use.
func NewSynthetic(opts SyntheticOptions) (loadgen.PromptSource, error) {
	var l problem.List
	opts.Input.check(&l, "input")
	opts.Output.check(&l, "output")
	p := &opts.Prefix
	l.If(p.Groups < 0 || p.Tokens < 0 || p.Groups > maxTraceTokens || p.Tokens > maxTraceTokens, "prefix",
		fmt.Sprintf("use 0 to %d", maxTraceTokens), "%d groups of %d tokens", p.Groups, p.Tokens)
	l.If(p.Groups > 0 && p.Tokens == 0 || p.Zipf != 0 && p.Groups < 2, "prefix",
		"set tokens above 0, and groups above 1 for zipf", "%d groups of %d tokens with zipf %v", p.Groups, p.Tokens, p.Zipf)
	l.If(!(p.Zipf >= 0) || math.IsInf(p.Zipf, 0), "prefix.zipf", "use a finite value of 0 or more", "%v", p.Zipf)
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("loadgen: invalid synthetic prompts: %w", err)
	}
	s := &synthetic{opts: opts}
	if p.Tokens > 0 {
		total := 0.0
		for g := range max(p.Groups, 1) {
			var b strings.Builder
			appendWords(&b, rand.New(rand.NewPCG(opts.Seed, ^uint64(g))), p.Tokens)
			s.prefixes = append(s.prefixes, b.String())
			total += math.Pow(float64(g+1), -p.Zipf)
			s.weights = append(s.weights, total)
		}
	}
	return s, nil
}

// Next returns the next prompt.
func (s *synthetic) Next() (loadgen.Prompt, error) {
	s.mu.Lock()
	n := s.next
	s.next++
	s.mu.Unlock()
	rng := rand.New(rand.NewPCG(s.opts.Seed, uint64(n)))
	p := loadgen.Prompt{Session: fmt.Sprintf("s%d", n)}
	var b strings.Builder
	if len(s.prefixes) > 0 {
		g, at := 0, rng.Float64()*s.weights[len(s.weights)-1]
		for s.weights[g] < at {
			g++
		}
		b.WriteString(s.prefixes[g])
	}
	tokens := s.opts.Input.draw(rng)
	p.MaxTokens, p.PromptTokens = s.opts.Output.draw(rng), s.opts.Prefix.Tokens+tokens
	if s.opts.IgnoreEOS {
		p.Body = map[string]any{"ignore_eos": true}
	}
	appendWords(&b, rng, tokens)
	p.Text = b.String()
	return p, nil
}

// Lengths is a distribution of lengths in tokens: exactly one of its fields.
type Lengths struct {
	Fixed     int        `yaml:"fixed"`
	LogNormal *LogNormal `yaml:"log_normal"`
	// Empirical lists observed lengths, each as likely as the others.
	Empirical []int `yaml:"empirical"`
}

// LogNormal is a log-normal distribution, redrawn while out of bounds. Lengths of real prompts and answers mostly have
// this shape.
type LogNormal struct {
	Median float64 `yaml:"median,required"`
	// Sigma is the standard deviation of the length's natural logarithm.
	Sigma float64 `yaml:"sigma"`
	Min   int     `yaml:"min"` // 0 means 1
	Max   int     `yaml:"max"` // 0 means no bound
}

func (d *Lengths) draw(rng *rand.Rand) int {
	switch n := d.LogNormal; {
	case n != nil:
		return within(n.Min, n.Max, func() float64 { return n.Median * math.Exp(n.Sigma*rng.NormFloat64()) })
	case d.Empirical != nil:
		return d.Empirical[rng.IntN(len(d.Empirical))]
	}
	return d.Fixed
}

func (d *Lengths) check(l *problem.List, path string) {
	given := 0
	for _, is := range []bool{d.Fixed != 0, d.LogNormal != nil, d.Empirical != nil} {
		if is {
			given++
		}
	}
	l.If(given != 1, path, "set exactly one of fixed, log_normal and empirical", "%d of them", given)
	if d.Fixed != 0 {
		checkLength(l, path+".length", float64(d.Fixed))
	}
	if n := d.LogNormal; n != nil {
		checkLength(l, path+".median", n.Median)
		l.If(!(n.Sigma >= 0) || math.IsInf(n.Sigma, 0), path+".sigma", "use a finite value of 0 or more", "is %v", n.Sigma)
		l.If(n.Min < 0 || n.Max < 0 || n.Max != 0 && n.Max < max(n.Min, 1), path+".max", "use 0 <= min <= max",
			"bounds %d to %d", n.Min, n.Max)
	}
	l.If(d.Empirical != nil && len(d.Empirical) == 0, path, "give the observed lengths", "no lengths")
	for i, v := range d.Empirical {
		if l.Len() < problem.Enough {
			checkLength(l, fmt.Sprintf("%s[%d]", path, i), float64(v))
		}
	}
}

// redraws bounds within: a distribution is clamped instead where its bounds cut nearly everything off.
const redraws = 64

func within(lo, hi int, draw func() float64) int {
	lo = max(lo, 1)
	hi = cmp.Or(hi, maxTraceTokens)
	v := 0.0
	for range redraws {
		if v = math.Round(draw()); v >= float64(lo) && v <= float64(hi) {
			return int(v)
		}
	}
	return int(min(max(v, float64(lo)), float64(hi)))
}

func checkLength(l *problem.List, path string, v float64) {
	l.If(!(v >= 1 && v <= maxTraceTokens), path, fmt.Sprintf("use 1 to %d tokens", maxTraceTokens), "is %v", v)
}
