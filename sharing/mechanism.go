package sharing

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/enum"
)

// ErrUnknownName is wrapped by the errors of texts and numbers that name no value of an enumeration.
var ErrUnknownName = errors.New("sharing: unknown name")

// Mechanism is a way for workloads to share a GPU, or not to. How a mechanism is delivered to containers (device
// plugin, DRA, HAMi's scheduler, ...) is a Delivery, not a mechanism. The zero value is MechanismNone.
type Mechanism uint8

// The mechanisms.
const (
	MechanismNone             Mechanism = iota // fits nowhere: not a way to run, but an answer
	MechanismExclusive                         // one workload has the whole GPU
	MechanismTimeSlicing                       // the driver gives contexts the whole GPU in turn
	MechanismMPS                               // CUDA MPS: contexts run at the same time, share SMs
	MechanismMIG                               // GPU instances partitioned in hardware
	MechanismMIGWithMPS                        // MPS inside one MIG instance
	MechanismHAMi                              // HAMi-core: limits enforced in the process by a preloaded library
	MechanismHAMiWithMPS                       // HAMi's scheduler handing out MPS shares
	MechanismVGPU                              // NVIDIA vGPU, time-sliced types
	MechanismMIGBackedVGPU                     // NVIDIA vGPU on MIG instances
	MechanismMIGLikeEmulation                  // MPS percentage plus framework memory fraction; never isolation
	MechanismInServer                          // one server multiplexes requests or adapters itself
	MechanismResearch                          // research schedulers of finer grain
)

var mechanismNames = enum.Of[Mechanism](ErrUnknownName, "mechanism", "none", "exclusive", "time-slicing", "mps", "mig",
	"mig+mps", "hami", "hami+mps", "vgpu", "mig-vgpu", "mig-like-emulation", "in-server", "research")

// MechanismCount is the number of mechanisms, MechanismNone included.
const MechanismCount = int(MechanismResearch) + 1

// ParseMechanism returns the mechanism of a text as String writes it.
func ParseMechanism(s string) (Mechanism, error) {
	var m Mechanism
	err := m.UnmarshalText([]byte(s))
	return m, err
}

// ParseMechanisms reads a list separated by commas, "mps, mig". What stands twice is
// taken once; none is an error, since nothing runs under it.
func ParseMechanisms(list string) ([]Mechanism, error) {
	var out []Mechanism
	for name := range strings.SplitSeq(list, ",") {
		m, err := ParseMechanism(strings.TrimSpace(name))
		if err == nil && m == MechanismNone {
			err = fmt.Errorf("%w: none cannot be run", ErrUnknownName)
		}
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out, nil
}

// Mechanisms lists every mechanism but MechanismNone, in the order of their values.
func Mechanisms() []Mechanism {
	return mechanismNames.Values()[1:]
}

// Axis is one of the four respects in which neighbours on a GPU can be isolated from one another.
type Axis uint8

// The axes.
const (
	AxisMemory  Axis = iota // neighbours cannot read, exhaust or limit one's memory
	AxisCompute             // neighbours cannot take one's share of the SMs
	AxisFault               // a neighbour's fault does not reach one
	AxisJitter              // neighbours do not disturb one's latency
)

var axisNames = enum.Of[Axis](ErrUnknownName, "axis", "memory", "compute", "fault", "jitter")

// AxisCount is the number of axes.
const AxisCount = int(AxisJitter) + 1

// Level is the strength of a mechanism's isolation on one axis; levels are ordered from weakest to strongest, but
// for LevelUnknown, which compares with nothing. On the jitter axis the levels stand for the jitter that is left:
// LevelNone is "high", LevelPartial "low-medium", LevelDriver "low", LevelHardware "negligible".
type Level uint8

// The levels.
const (
	LevelUnknown  Level = iota // no source
	LevelNone                  // nothing separates neighbours
	LevelPartial               // some separation, with holes or only a cap
	LevelSoftware              // enforced by software that a workload could get round
	LevelDriver                // enforced by the driver or the hypervisor
	LevelHardware              // enforced by hardware, or there is no neighbour
)

var levelNames = enum.Of[Level](ErrUnknownName, "level", "unknown", "none", "partial", "software", "driver", "hardware")

// AtLeast answers whether l is at least want; unknown on either side is
// Unknown, except that everything is at least LevelNone.
func (l Level) AtLeast(want Level) Answer {
	if want == LevelNone {
		return AnswerYes
	}
	if l == LevelUnknown || want == LevelUnknown {
		return AnswerUnknown
	}
	return AnswerOf(l >= want)
}
