package predict

// flight is a request on its way. Times are in ms.
type flight struct {
	prefix, answer []uint64
	adapter        int32
	input, output  int
	came, first    float64
	client         bool // its end lets its client send another
	done           int  // tokens given so far
	prompt, cached int  // tokens to compute when it was admitted, and of these found in the cache
	left           int  // tokens of the prompt still to compute
	mark           int64
	began          int64 // tick at which it began to decode
	end            int32 // of the units that it pins, in the KV cache
	whole          int   // tokens of these units
	blocked        blocker
}

// blocker is what keeps a request waiting.
type blocker uint8

const (
	blockedNot blocker = iota
	blockedSequences
	blockedKV
	blockedAdapter
	blockedCount
)
