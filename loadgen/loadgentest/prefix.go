// SPDX-License-Identifier: Apache-2.0

package loadgentest

import (
	"container/list"
	"hash/fnv"
	"strings"
)

// cacheBlockTokens is the number of tokens of a block of the prefix cache: vLLM's default.
const cacheBlockTokens = 16

// prefixCache holds whole blocks of prompts by the hash of everything up to their end.
type prefixCache struct {
	capacity int
	recent   *list.List // of uint64, the most recently used in front
	blocks   map[uint64]*list.Element
}

func newPrefixCache(blocks int) *prefixCache {
	return &prefixCache{capacity: blocks, recent: list.New(), blocks: map[uint64]*list.Element{}}
}

// use returns how many leading tokens of the prompt are there, and leaves all of its whole blocks there. The last
// token is never taken from the cache: an engine has to compute it to go on.
func (c *prefixCache) use(model, prompt string) (cached int) {
	h := fnv.New64a()
	h.Write([]byte(model))
	words, inBlock, hit := 0, 0, true
	var keys []uint64
	for w := range strings.FieldsSeq(prompt) {
		h.Write([]byte{0})
		h.Write([]byte(w))
		words++
		if inBlock++; inBlock < cacheBlockTokens {
			continue
		}
		inBlock = 0
		key := h.Sum64()
		keys = append(keys, key)
		if _, there := c.blocks[key]; hit && there {
			cached += cacheBlockTokens
		} else {
			hit = false
		}
	}
	// From the last block to the first, so that a prompt's beginning outlives its end.
	for i := len(keys) - 1; i >= 0; i-- {
		if e, there := c.blocks[keys[i]]; there {
			c.recent.MoveToFront(e)
			continue
		}
		c.blocks[keys[i]] = c.recent.PushFront(keys[i])
		if c.recent.Len() > c.capacity {
			last := c.recent.Back()
			delete(c.blocks, last.Value.(uint64))
			c.recent.Remove(last)
		}
	}
	if cached == words && cached > 0 {
		cached -= cacheBlockTokens
	}
	return cached
}
