package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"github.com/cotenant/cotenant/loadgen"
)

// prompts yields random prompts of a number of short words, no two alike, so
// that no server can answer from a cache of prefixes. A word is about a token.
type prompts struct {
	rng   *rand.Rand
	words int
}

// newPrompts seeds a source of its own for each load: the same plan asks the
// same in every mode, alone and beside others.
func newPrompts(seed uint64, l *loadPlan) *prompts {
	h := fnv.New64a()
	fmt.Fprint(h, l.Name) // a hash's Write never fails
	return &prompts{rng: rand.New(rand.NewPCG(seed, h.Sum64())), words: l.Prompt}
}

func (p *prompts) Next() (loadgen.Prompt, error) {
	var b strings.Builder
	b.Grow(4 * p.words)
	for range p.words {
		n := p.rng.Uint32()
		for range 3 {
			b.WriteByte(byte('a' + n%26))
			n /= 26
		}
		b.WriteByte(' ')
	}
	return loadgen.Prompt{Text: b.String(), PromptTokens: p.words}, nil
}
