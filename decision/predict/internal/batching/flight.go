package batching

import (
	"time"
)

// Flight is a request on its way. Times are in ms.
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

// Spares are flights that have ended, for the next requests.
type Spares []*Flight

// Next returns a flight that begins as f.
func (s *Spares) Next(f Flight) *Flight {
	k := len(*s) - 1
	if k < 0 {
		next := f // here alone it escapes
		return &next
	}
	next := (*s)[k]
	*s, *next = (*s)[:k], f
	return next
}

// blocker names the resource for which a request waits.
type blocker uint8

const (
	blockedNot blocker = iota
	BlockedSequences
	BlockedKV
	BlockedAdapter
	blockedCount
)

type phase uint8

const (
	idle phase = iota
	Prefilling
	Decoding
	loading // an adapter
	dozing  // idle, and asleep when nobody comes
	fallingAsleep
	waking
)

func Millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func InMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// MaxQueue bounds the queue of an open loop that cannot keep up.
const MaxQueue = 1 << 14

// SimulationSeed seeds all predictions: the same input gives the same bytes.
const SimulationSeed = 1
