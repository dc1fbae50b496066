package loadgen

import "github.com/cotenant/cotenant/internal/optional"

// PromptCache measures the servers' prefix caches by the ok requests whose answers report cached tokens.
type PromptCache struct {
	Requests     int64 `json:"requests"` // that say so
	Hits         int64 `json:"hits"`     // of these, with any cached token
	PromptTokens int64 `json:"prompt_tokens"`
	CachedTokens int64 `json:"cached_tokens"`
	// HitRate is cached tokens over prompt tokens.
	HitRate Optional[float64] `json:"hit_rate,omitzero"`
}

func (c *PromptCache) took(r *Record) {
	cached, ok := r.CachedTokens.Get()
	if !ok {
		return
	}
	c.Requests++
	if cached > 0 {
		c.Hits++
	}
	c.PromptTokens += int64(r.PromptTokens)
	c.CachedTokens += int64(cached)
}

func (c *PromptCache) add(o *PromptCache) {
	c.Requests += o.Requests
	c.Hits += o.Hits
	c.PromptTokens += o.PromptTokens
	c.CachedTokens += o.CachedTokens
}

// rate computes the hit rate from the counts. c may be nil.
func (c *PromptCache) rate() {
	if c != nil && c.PromptTokens > 0 {
		c.HitRate = optional.Of(float64(c.CachedTokens) / float64(c.PromptTokens))
	}
}
