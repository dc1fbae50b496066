// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cotenant/cotenant/internal/enum"
)

// ErrUnknownName is wrapped by the errors of texts and numbers that name no value of an enumeration.
var ErrUnknownName = errors.New("sharing: unknown name")

// OpError is returned by packages mig, mps and telemetry for a failed operation on a GPU, on a control daemon of MPS or
// on the operating system: errors.As gives access to Op and Device, errors.Is finds the cause.
type OpError struct {
	Package    string // begins the text: "mig"
	Op, Device string // "create GPU instance", and a UUID, index or path; Device may be empty
	Err        error  // the cause
}

func (e *OpError) Error() string {
	at := ""
	if e.Device != "" {
		at = " on " + e.Device
	}
	return e.Package + ": " + e.Op + at + ": " + strings.TrimPrefix(e.Err.Error(), e.Package+": ")
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// Mechanism is a way for workloads to share a GPU, or not to. How a mechanism is delivered to containers (device
// plugin, DRA, HAMi's scheduler, ...) is a Delivery, not a mechanism. The zero value is MechanismNone.
type Mechanism uint8

// The mechanisms.
const (
	MechanismNone             Mechanism = iota // no mechanism fits: an answer, not a way to run
	MechanismExclusive                         // one workload has the whole GPU
	MechanismTimeSlicing                       // the driver gives contexts the whole GPU in turn
	MechanismMPS                               // CUDA MPS: contexts run at the same time, share SMs
	MechanismMIG                               // GPU instances partitioned in hardware
	MechanismMIGWithMPS                        // MPS inside one MIG instance
	MechanismHAMi                              // HAMi-core: limits enforced in the process by a preloaded library
	MechanismHAMiWithMPS                       // HAMi's scheduler handing out MPS shares
	MechanismVGPU                              // NVIDIA vGPU, time-sliced types
	MechanismMIGBackedVGPU                     // NVIDIA vGPU on MIG instances
	MechanismMIGLikeEmulation                  // MPS percentage plus framework memory fraction; no isolation
	MechanismInServer                          // one server multiplexes requests or adapters itself
	MechanismResearch                          // research schedulers of finer grain
)

var mechanismNames = enum.Of[Mechanism](ErrUnknownName, "mechanism", "none", "exclusive", "time-slicing", "mps", "mig",
	"mig+mps", "hami", "hami+mps", "vgpu", "mig-vgpu", "mig-like-emulation", "in-server", "research")

// MechanismCount is the number of mechanisms, MechanismNone included.
const MechanismCount = int(MechanismResearch) + 1

// ParseMechanism reads the text that String writes.
func ParseMechanism(s string) (Mechanism, error) {
	var m Mechanism
	err := m.UnmarshalText([]byte(s))
	return m, err
}

// ParseMechanisms reads a list separated by commas, "mps, mig". Duplicates count once; "none" is an error, since
// nothing runs under it.
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
//
//   - Memory covers both protection (from reads and writes by a neighbour) and exhaustion (of memory that a workload
//     needs). The weaker of the two counts; a mechanism that protects address spaces but sets no limits is at most
//     partial, and none where the vendor itself rates it so.
//   - Compute is none without any share, partial for a cap that reserves
//     nothing, driver or hardware for a reservation.
//   - Fault is none where a neighbour's fatal GPU fault ends a workload too.
//   - Jitter is the effect of neighbours on latency; see Level.
type Axis uint8

// The axes.
const (
	AxisMemory  Axis = iota // neighbours cannot read, exhaust or limit a workload's memory
	AxisCompute             // neighbours cannot take a workload's share of the SMs
	AxisFault               // a neighbour's fault does not spread
	AxisJitter              // neighbours do not disturb latency
)

var axisNames = enum.Of[Axis](ErrUnknownName, "axis", "memory", "compute", "fault", "jitter")

// AxisCount is the number of axes.
const AxisCount = int(AxisJitter) + 1

// Level is the strength of a mechanism's isolation on one axis; levels are ordered from weakest to strongest, except
// LevelUnknown, which has no order. On the jitter axis the levels give the remaining jitter: LevelNone is "high",
// LevelPartial "low-medium", LevelDriver "low", LevelHardware "negligible".
type Level uint8

// The levels.
const (
	LevelUnknown  Level = iota // no source
	LevelNone                  // nothing separates neighbours
	LevelPartial               // some separation, with holes or only a cap
	LevelSoftware              // enforced by software that a workload could circumvent
	LevelDriver                // enforced by the driver or the hypervisor
	LevelHardware              // enforced by hardware, or there is no neighbour
)

var levelNames = enum.Of[Level](ErrUnknownName, "level", "unknown", "none", "partial", "software", "driver", "hardware")

// AtLeast answers whether l is at least want; if either is unknown, so is the answer, except that every level is at
// least LevelNone.
func (l Level) AtLeast(want Level) Answer {
	if want == LevelNone {
		return AnswerYes
	}
	if l == LevelUnknown || want == LevelUnknown {
		return AnswerUnknown
	}
	return AnswerOf(l >= want)
}

// Answer is a three-valued answer. The zero value is Unknown.
type Answer uint8

// The answers.
const (
	AnswerUnknown Answer = iota
	AnswerNo
	AnswerYes
)

var answerNames = enum.Of[Answer](ErrUnknownName, "answer", "unknown", "no", "yes")

// AnswerOf turns a known boolean into an Answer.
func AnswerOf(b bool) Answer {
	if b {
		return AnswerYes
	}
	return AnswerNo
}

// Basis is the kind of evidence of a figure or statement. The zero value is BasisUnknown.
type Basis uint8

// The kinds of evidence, weakest claims last.
const (
	BasisUnknown     Basis = iota // no source
	BasisMeasured                 // measured; the source names the run
	BasisDocumented               // the vendor's or project's own documentation, source code or binary
	BasisDerived                  // arithmetic on sourced figures
	BasisFitted                   // a parameter fitted to data; the source names the data
	basisPopular                  // a widely read article, not a primary source
	basisSecondHand               // quoted by a third party
	basisInferred                 // our reading; no source says it in so many words
	BasisPrior                    // an assumption to start from, to be replaced by a measurement
	BasisSimulated                // the output of a simulation
	BasisTransferred              // found on another GPU and carried over
)

var basisNames = enum.Of[Basis](ErrUnknownName, "basis", "unknown", "measured", "documented", "derived", "fitted",
	"popular", "second-hand", "inferred", "prior", "simulated", "transferred")

// Overhead brackets the cost of a mechanism by itself: the extra time for a unit of work, as a fraction of its isolated
// time on the whole GPU without the mechanism. The slow-down caused by neighbours is not included. 0.08 is 8%.
type Overhead struct {
	Low, High float64 // fractions; valid only if Known
	Known     bool
	Text      string // the figure and its load
	Basis     Basis
	Source    SourceID
}

// Info describes a mechanism as a whole.
type Info struct {
	Mechanism Mechanism
	Title     string
	Summary   string
	// Overhead is the range to plan with; Overheads are the figures of the sources, which disagree.
	Overhead  Overhead
	Overheads []Overhead
	// MaxTenants is the largest number of tenants on any GPU under the mechanism; unknown where nothing bounds it.
	// MPSClientLimit has the limit of one GPU.
	MaxTenants Cell[int]
}

// InfoFor returns the facts about m; for a value that is no mechanism only the field Mechanism is set. The slices are
// shared and must not be modified.
func InfoFor(m Mechanism) Info {
	if int(m) >= MechanismCount {
		return Info{Mechanism: m}
	}
	return infoTable()[m]
}

var infoTable = sync.OnceValue(func() *[MechanismCount]Info {
	t := new([MechanismCount]Info)
	for _, row := range infos() {
		t[row.Mechanism] = row
	}
	return t
})

var infos = table[Info]("mechanisms.json")
