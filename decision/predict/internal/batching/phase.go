package batching

import "time"

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

// maxQueue bounds the queue of an open loop that cannot keep up.
const MaxQueue = 1 << 14

// simulationSeed seeds all predictions: the same input gives the same bytes.
const SimulationSeed = 1
