package batching

// flight is a request on its way. Times are in ms.
type Flight struct {
	Prefix, Answer []uint64
	Adapter        int32
	Input, Output  int
	Came, First    float64
	Client         bool // its end lets its client send another
	done           int  // tokens given so far
	Prompt, Cached int  // tokens to compute when it was admitted, and of these found in the cache
	Left           int  // tokens of the prompt still to compute
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
	BlockedSequences
	BlockedKV
	BlockedAdapter
	blockedCount
)
