package canary

import (
	"math"
	"time"
)

const (
	binLength = 2 * time.Second // the finest time that is kept
	minBlock  = 10 * time.Second
	maxBlock  = 5 * time.Minute
	// minRequests is the least of a block: a share of fewer says little.
	minRequests = 8
	// The correlationQuantile of the posterior times correlationFactor is the length of a block. These and
	// dependence were chosen in simulated noise of 10 and 60 s, so that the bound of 1% holds with room.
	correlationQuantile = 0.7
	correlationFactor   = 0.4
	// lengthStep is the factor between the lengths that blocks may have: they are not to change at every look.
	lengthStep = 1.25
	// dependence is left between blocks: whatever went before, the expected share of the next one may lie beside
	// the limit's by that part of it.
	dependence = 0.24
	// boldness is the part of the capital that is bet on a block: 1 would lose it all to one bad block.
	boldness = 0.95
	// slowFactor times its limit is how slow most requests of a tenant must be to be noticed within a minute.
	slowFactor = 1.3
)

// bin counts the observations of binLength.
type bin struct {
	N     int32 `json:"n"`
	Least int32 `json:"l,omitempty"` // certainly beyond the limit
	Most  int32 `json:"m,omitempty"` // perhaps beyond it
	Slow  int32 `json:"s,omitempty"` // certainly beyond slowFactor times the limit
	Away  bool  `json:"a,omitempty"` // could not be read, or not believed
}

// stream holds what was counted of one objective, and the evidence for and against it.
type stream struct {
	Bins []bin `json:"bins"`

	share   float64 // of observations that may lie beyond the limit by its quantile
	fast    float64 // logarithm of the detector of slowFactor
	at      int     // bins that fast has taken
	settled time.Duration
	slow    blocks
}

// blocks is the evidence of blocks of one length.
type blocks struct {
	length int // bins
	at     int // bins that were taken
	sum    bin // of the block that is not full
	seen   int // bins in it
	n      int // full ones
	kept   float64
	broken float64
}

// in returns the evidence of blocks of at least length bins and minRequests observations: the logarithm of the
// capital of a bet that the objective is kept, which is an e-process while it is not, and of a Shiryaev-Roberts
// detector of blocks in which it is not. Bins that were not seen are left out.
func (s *stream) in(length int) blocks {
	b := &s.slow
	if b.length != length {
		*b = blocks{length: length, broken: math.Inf(-1)}
	}
	m, stake := s.keptBet()
	for ; b.at < len(s.Bins); b.at++ {
		x := &s.Bins[b.at]
		if x.Away {
			continue
		}
		b.sum.add(x)
		if b.seen++; b.seen >= length && b.sum.N >= minRequests {
			n := float64(b.sum.N)
			b.kept += math.Log1p(stake * (m - float64(b.sum.Most)/n))
			b.broken = detect(b.broken, min(s.share*(1+dependence), (1+s.share)/2), float64(b.sum.Least)/n)
			b.n, b.sum, b.seen = b.n+1, bin{}, 0
		}
	}
	return *b
}

func (b *bin) add(o *bin) {
	b.N, b.Least, b.Most, b.Slow = b.N+o.N, b.Least+o.Least, b.Most+o.Most, b.Slow+o.Slow
}

// keptBet returns the expected share that is bet against, and the stake.
func (s *stream) keptBet() (m, stake float64) {
	m = s.share * (1 - dependence)
	return m, boldness / (1 - m)
}

// detect takes a block's share into the logarithm of a Shiryaev-Roberts detector of shares above m.
func detect(logM, m, share float64) float64 {
	return math.Log1p(math.Exp(logM)) + math.Log1p(boldness/m*(share-m))
}

// verySlow returns the logarithm of the detector of tenants most of whose requests are slowFactor times too slow.
func (s *stream) verySlow() float64 {
	if s.at == 0 {
		s.fast = math.Inf(-1)
	}
	for ; s.at < len(s.Bins); s.at++ {
		if b := &s.Bins[s.at]; b.N > 0 && !b.Away {
			s.fast = detect(s.fast, 0.5, float64(b.Slow)/float64(b.N))
		}
	}
	return s.fast
}

// shortest returns the number of blocks without any observation beyond the limit that are evidence enough.
func (s *stream) shortest(alpha float64) int {
	m, stake := s.keptBet()
	return int(math.Ceil(math.Log(1/alpha) / math.Log1p(stake*m)))
}

// sum adds up the bins that were seen from one on.
func (s *stream) sum(from int) (sum bin) {
	for i := range s.Bins[max(0, from):] {
		if b := &s.Bins[max(0, from)+i]; !b.Away {
			sum.add(b)
		}
	}
	return sum
}

// beyond returns the shares of the observations that lie beyond the limit, certainly and perhaps.
func (b *bin) beyond() (least, most float64) {
	n := float64(max(b.N, 1))
	return float64(b.Least) / n, float64(b.Most) / n
}
