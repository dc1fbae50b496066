package capacity

import (
	"errors"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// ErrUnknownName says that a text names no value of an enumeration.
var ErrUnknownName = errors.New("capacity: unknown name")

// Kind classifies an arrangement's use of GPUs.
type Kind uint8

// The kinds. The zero value is KindOwnGPU.
const (
	KindOwnGPU       Kind = iota // each server has GPUs of its own
	KindTimeSlicing              // servers of all tenants on each GPU, in turn
	KindMPS                      // at the same time, with or without shares of the SMs
	KindMIG                      // each on a slice of its own
	KindMergedServer             // tenants of one model in one server
	KindAdapters                 // tenants that are adapters of one model in one server
	KindSleep                    // on each GPU one server awake, the others asleep
)

var kinds = enum.Of[Kind](ErrUnknownName, "kind", "own-gpu", "time-slicing", "mps", "mig", "merged-server", "adapters",
	"sleep")

// Kinds lists the kinds in order.
func Kinds() []Kind { return kinds.Values() }

// Mechanism returns the mechanism by which servers on one GPU share it.
func (k Kind) Mechanism() sharing.Mechanism {
	switch k {
	case KindTimeSlicing, KindSleep:
		return sharing.MechanismTimeSlicing
	case KindMPS:
		return sharing.MechanismMPS
	case KindMIG:
		return sharing.MechanismMIG
	}
	return sharing.MechanismExclusive
}

// Latency is the quantity that a limit bounds. The zero value is LatencyTTFT.
type Latency uint8

// The latencies of a request.
const (
	LatencyTTFT Latency = iota // until the first token
	LatencyTPOT                // for each further token
	LatencyE2E                 // until the last
)

var latencies = enum.Of[Latency](ErrUnknownName, "latency", "ttft", "tpot", "e2e")

// Verdict is the answer to whether an arrangement keeps the objectives. The zero value is VerdictUnknown.
type Verdict uint8

// The verdicts.
const (
	VerdictUnknown Verdict = iota // an interval holds a limit: only a run settles it
	VerdictKept
	VerdictMissed
)

var verdicts = enum.Of[Verdict](ErrUnknownName, "verdict", "unknown", "kept", "missed")
