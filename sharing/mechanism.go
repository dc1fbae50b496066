package sharing

import "github.com/cotenant/cotenant/internal/enum"

// Mechanism is a way for workloads to share a GPU, or not to. How a mechanism
// is delivered to containers (device plugin, DRA, HAMi's scheduler, ...) is a
// Delivery, not a mechanism. The zero value is MechanismNone.
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

var mechanismNames = [...]string{"none", "exclusive", "time-slicing", "mps", "mig", "mig+mps", "hami", "hami+mps",
	"vgpu", "mig-vgpu", "mig-like-emulation", "in-server", "research"}

// MechanismCount is the number of mechanisms, MechanismNone included.
const MechanismCount = len(mechanismNames)

// String returns the mechanism's text: none, exclusive, time-slicing, mps, mig,
// mig+mps, hami, hami+mps, vgpu, mig-vgpu, mig-like-emulation, in-server or
// research.
func (m Mechanism) String() string { return enum.String(mechanismNames[:], int(m)) }

// MarshalText returns the mechanism's text.
func (m Mechanism) MarshalText() ([]byte, error) {
	return enum.Text(ErrUnknownName, "mechanism", mechanismNames[:], int(m))
}

// UnmarshalText reads a mechanism's text.
func (m *Mechanism) UnmarshalText(b []byte) error {
	i, err := enum.Parse(ErrUnknownName, "mechanism", mechanismNames[:], b)
	if err == nil {
		*m = Mechanism(i)
	}
	return err
}

// ParseMechanism returns the mechanism of a text as String writes it.
func ParseMechanism(s string) (Mechanism, error) {
	var m Mechanism
	err := m.UnmarshalText([]byte(s))
	return m, err
}

// Mechanisms lists every mechanism but MechanismNone, in the order of their values.
func Mechanisms() []Mechanism {
	ms := make([]Mechanism, 0, MechanismCount-1)
	for m := MechanismExclusive; int(m) < MechanismCount; m++ {
		ms = append(ms, m)
	}
	return ms
}

// Axis is one of the four respects in which neighbours on a GPU can be
// isolated from one another.
type Axis uint8

// The axes.
const (
	AxisMemory  Axis = iota // neighbours cannot read, exhaust or limit one's memory
	AxisCompute             // neighbours cannot take one's share of the SMs
	AxisFault               // a neighbour's fault does not reach one
	AxisJitter              // neighbours do not disturb one's latency
)

var axisNames = [...]string{"memory", "compute", "fault", "jitter"}

// AxisCount is the number of axes.
const AxisCount = len(axisNames)

// String returns "memory", "compute", "fault" or "jitter".
func (a Axis) String() string { return enum.String(axisNames[:], int(a)) }

// MarshalText returns the axis's text.
func (a Axis) MarshalText() ([]byte, error) {
	return enum.Text(ErrUnknownName, "axis", axisNames[:], int(a))
}

// UnmarshalText reads an axis's text.
func (a *Axis) UnmarshalText(b []byte) error {
	i, err := enum.Parse(ErrUnknownName, "axis", axisNames[:], b)
	if err == nil {
		*a = Axis(i)
	}
	return err
}

// Level is how strongly a mechanism isolates on one axis; levels are ordered
// from weakest to strongest, but for LevelUnknown, which compares with nothing.
// On the jitter axis the levels stand for the jitter that is left: LevelNone
// is "high", LevelPartial "low-medium", LevelDriver "low", LevelHardware
// "negligible".
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

var levelNames = [...]string{"unknown", "none", "partial", "software", "driver", "hardware"}

// String returns "unknown", "none", "partial", "software", "driver" or
// "hardware".
func (l Level) String() string { return enum.String(levelNames[:], int(l)) }

// MarshalText returns the level's text.
func (l Level) MarshalText() ([]byte, error) {
	return enum.Text(ErrUnknownName, "level", levelNames[:], int(l))
}

// UnmarshalText reads a level's text.
func (l *Level) UnmarshalText(b []byte) error {
	i, err := enum.Parse(ErrUnknownName, "level", levelNames[:], b)
	if err == nil {
		*l = Level(i)
	}
	return err
}

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
