// SPDX-License-Identifier: Apache-2.0

package sharing

import "sync"

// Mode is a way of running a mechanism that a statement may depend on; "" means any. For MPS it is static-sm-partitions
// (SMs reserved per partition), pinned-memory-limits (a device memory limit set for every client) or
// cgroup-memory-limits (CUDA 13.4), for vGPU its scheduler: vgpu-equal-share or vgpu-fixed-share.
type Mode string

// ModeStaticSMPartitions reserves SMs per partition of MPS.
const ModeStaticSMPartitions Mode = "static-sm-partitions"

// Environment describes a place where a mechanism would run, as far as known. The zero value knows nothing.
type Environment struct {
	GPU    *GPU // nil: not known; the GPU is not modified
	Driver Driver
	// Modes is Yes for each mode in force. Unknown is not No.
	Modes map[Mode]Answer
}

// Condition limits a statement to environments. The zero value holds everywhere.
type Condition struct {
	MinArchitecture Architecture // ArchitectureUnknown: no bound
	MaxArchitecture Architecture // ArchitectureUnknown: no bound
	MinDriver       Driver       // zero: no bound
	Mode            Mode
	// Note is a further condition that the package cannot check, for example a kernel version. It may be empty.
	Note string
}

// holds answers whether the condition holds in env: No if any part fails, else
// Unknown if any part is unknown, else Yes. Note is not looked at.
func (c Condition) holds(env Environment) Answer {
	answer := AnswerYes
	if c.Mode != "" {
		answer = env.Modes[c.Mode]
	}
	if c.MinArchitecture != ArchitectureUnknown || c.MaxArchitecture != ArchitectureUnknown {
		answer = both(answer, c.architectureHolds(env.GPU))
	}
	if !c.MinDriver.IsZero() {
		answer = both(answer, env.Driver.atLeast(c.MinDriver))
	}
	return answer
}

func (c Condition) architectureHolds(g *GPU) Answer {
	if g == nil || g.Architecture == ArchitectureUnknown {
		return AnswerUnknown
	}
	return AnswerOf(g.Architecture >= c.MinArchitecture &&
		(c.MaxArchitecture == ArchitectureUnknown || g.Architecture <= c.MaxArchitecture))
}

// both is the three-valued "and".
func both(a, b Answer) Answer {
	switch {
	case a == AnswerNo || b == AnswerNo:
		return AnswerNo
	case a == AnswerUnknown || b == AnswerUnknown:
		return AnswerUnknown
	}
	return AnswerYes
}

// Property is one statement about how a mechanism isolates on one axis.
type Property struct {
	Mechanism Mechanism
	Axis      Axis
	Level     Level
	Text      string    // one sentence
	When      Condition // where it holds
	// Caps marks an upper bound: no stronger statement counts unless the condition When is known not to hold.
	Caps   bool
	Basis  Basis
	Source SourceID
}

// propertiesOf lists every statement about m on axis a, the default one before the conditional ones. A mechanism or
// axis that does not exist has none. Of MIG+MPS the statements are about neighbours in one instance; towards other
// instances those of MIG hold.
func propertiesOf(m Mechanism, a Axis) []Property {
	if int(m) >= MechanismCount || int(a) >= AxisCount {
		return nil
	}
	return propertyTable()[m][a]
}

// Isolation returns the default statement: the one without a condition. If there is none, the level is LevelUnknown,
// without a source.
func Isolation(m Mechanism, a Axis) Property {
	if all := propertiesOf(m, a); len(all) > 0 {
		return all[0]
	}
	return unknownProperty(m, a)
}

// IsolationIn returns the strongest statement with a condition known to hold in env. A statement with Property.Caps
// limits it unless the cap's condition is known not to hold: an unknown never counts as a guarantee. It does not
// allocate.
func IsolationIn(m Mechanism, a Axis, env Environment) Property {
	best := unknownProperty(m, a)
	table := propertiesOf(m, a)
	found := -1
	for i := range table {
		p := &table[i]
		if !p.Caps && p.When.holds(env) == AnswerYes &&
			(found < 0 || p.Level > table[found].Level) {
			found = i
		}
	}
	for i := range table {
		p := &table[i]
		if p.Caps && p.When.holds(env) != AnswerNo &&
			(found < 0 || p.Level < table[found].Level) {
			found = i
		}
	}
	if found >= 0 {
		best = table[found]
	}
	return best
}

func unknownProperty(m Mechanism, a Axis) Property {
	return Property{Mechanism: m, Axis: a, Level: LevelUnknown, Text: "no source says"}
}

// properties holds the statements of primary sources and of our own measurements. The default one of a mechanism
// and an axis comes first.
var properties = table[Property]("isolation.json")

var propertyTable = sync.OnceValue(func() *[MechanismCount][AxisCount][]Property {
	t := new([MechanismCount][AxisCount][]Property)
	for _, p := range properties() {
		cell := &t[p.Mechanism][p.Axis]
		*cell = append(*cell, p)
	}
	return t
})
