package colocation

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"github.com/cotenant/cotenant/loadgen"
)

// Prompts yields random prompts of a number of short words, no two alike, so
// that no server can answer from a cache of prefixes. A word is about a token.
type Prompts struct {
	rng   *rand.Rand
	words int
}

// NewPrompts returns the prompts of the load of that name. Each load has a source
// of its own: the same load asks the same in every run, alone and beside others.
func NewPrompts(seed uint64, load string, words int) *Prompts {
	h := fnv.New64a()
	fmt.Fprint(h, load) // a hash's Write never fails
	return &Prompts{rng: rand.New(rand.NewPCG(seed, h.Sum64())), words: words}
}

// Next returns the next prompt. There is always one.
func (p *Prompts) Next() (loadgen.Prompt, error) {
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
