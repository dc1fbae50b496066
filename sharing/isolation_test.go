// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"testing"

	"github.com/cotenant/cotenant/internal/must"
)

func gpu(t testing.TB, name string) *GPU {
	t.Helper()
	return must.Get(LookupGPU(name))(t)
}

// TestPrimaryMatrix holds the default statements of the primary reading.
func TestPrimaryMatrix(t *testing.T) {
	want := map[Mechanism][AxisCount]Level{
		MechanismExclusive:        {LevelHardware, LevelHardware, LevelHardware, LevelHardware},
		MechanismTimeSlicing:      {LevelNone, LevelNone, LevelNone, LevelNone},
		MechanismMPS:              {LevelPartial, LevelPartial, LevelNone, LevelPartial},
		MechanismMIG:              {LevelHardware, LevelHardware, LevelHardware, LevelDriver},
		MechanismMIGWithMPS:       {LevelPartial, LevelPartial, LevelNone, LevelPartial},
		MechanismHAMi:             {LevelSoftware, LevelPartial, LevelNone, LevelNone},
		MechanismHAMiWithMPS:      {LevelPartial, LevelPartial, LevelNone, LevelPartial},
		MechanismVGPU:             {LevelDriver, LevelNone, LevelUnknown, LevelNone},
		MechanismMIGBackedVGPU:    {LevelHardware, LevelHardware, LevelHardware, LevelDriver},
		MechanismMIGLikeEmulation: {LevelPartial, LevelPartial, LevelNone, LevelPartial},
		MechanismInServer:         {LevelNone, LevelNone, LevelNone, LevelNone},
		MechanismResearch:         {LevelUnknown, LevelUnknown, LevelUnknown, LevelUnknown},
	}
	for _, m := range Mechanisms() {
		for a := AxisMemory; int(a) < AxisCount; a++ {
			if got := Isolation(m, a); got.Level != want[m][a] || got.Source == "" {
				t.Errorf("%v/%v: %v (%s), want %v", m, a, got.Level, got.Source, want[m][a])
			}
		}
	}
}

func TestIsolationIn(t *testing.T) {
	static := func(name string, d Driver) Environment {
		return Environment{GPU: gpu(t, name), Driver: d, Modes: map[Mode]Answer{ModeStaticSMPartitions: AnswerYes}}
	}
	for _, c := range []struct {
		name string
		m    Mechanism
		a    Axis
		env  Environment
		want Level
	}{
		{"MPS memory on Volta", MechanismMPS, AxisMemory, Environment{GPU: gpu(t, "V100-32GB")}, LevelPartial},
		{"MPS memory before Volta", MechanismMPS, AxisMemory, Environment{GPU: gpu(t, "P100-16GB"), Modes: map[Mode]Answer{"pinned-memory-limits": AnswerYes}}, LevelNone},
		{"MPS memory on an unknown GPU", MechanismMPS, AxisMemory, Environment{}, LevelNone},
		{"MPS memory with limits", MechanismMPS, AxisMemory, Environment{GPU: gpu(t, "L4"), Modes: map[Mode]Answer{"pinned-memory-limits": AnswerYes}}, LevelSoftware},
		{"limits not known to be set", MechanismMPS, AxisMemory, Environment{GPU: gpu(t, "L4")}, LevelPartial},
		{"cgroup limits", MechanismMPS, AxisMemory, Environment{GPU: gpu(t, "L4"), Driver: Driver{615, 0, 0}, Modes: map[Mode]Answer{"cgroup-memory-limits": AnswerYes}}, LevelDriver},
		{"cgroup limits on an old driver", MechanismMPS, AxisMemory, Environment{GPU: gpu(t, "L4"), Driver: Driver{580, 65, 6}, Modes: map[Mode]Answer{"cgroup-memory-limits": AnswerYes}}, LevelPartial},
		{"static partitions reserve", MechanismMPS, AxisCompute, static("H200", Driver{590, 44, 1}), LevelDriver},
		{"not on driver 580", MechanismMPS, AxisCompute, static("H200", Driver{580, 65, 6}), LevelPartial},
		{"not on an unknown driver", MechanismMPS, AxisCompute, static("H200", Driver{}), LevelPartial},
		{"not on Turing", MechanismMPS, AxisCompute, static("T4", Driver{610, 0, 0}), LevelPartial},
		{"static partitions isolate faults from r610", MechanismMPS, AxisFault, static("H200", Driver{610, 43, 2}), LevelPartial},
		{"and not before", MechanismMPS, AxisFault, static("H200", Driver{595, 45, 4}), LevelNone},
		{"mode not known", MechanismMPS, AxisFault, Environment{GPU: gpu(t, "H200"), Driver: Driver{610, 43, 2}}, LevelNone},
		{"vGPU fixed share", MechanismVGPU, AxisCompute, Environment{Modes: map[Mode]Answer{"vgpu-fixed-share": AnswerYes}}, LevelDriver},
		{"vGPU equal share", MechanismVGPU, AxisCompute, Environment{Modes: map[Mode]Answer{"vgpu-equal-share": AnswerYes}}, LevelPartial},
		{"vGPU best effort", MechanismVGPU, AxisCompute, Environment{Modes: map[Mode]Answer{"vgpu-fixed-share": AnswerNo, "vgpu-equal-share": AnswerNo}}, LevelNone},
		{"MIG anywhere", MechanismMIG, AxisFault, Environment{}, LevelHardware},
		{"no mechanism", MechanismNone, AxisFault, Environment{}, LevelUnknown},
		{"no such mechanism", Mechanism(99), AxisFault, Environment{}, LevelUnknown},
		{"no such axis", MechanismMIG, Axis(99), Environment{}, LevelUnknown},
		{"the class of research systems", MechanismResearch, AxisFault, Environment{GPU: gpu(t, "H200")}, LevelUnknown},
	} {
		if got := IsolationIn(c.m, c.a, c.env); got.Level != c.want {
			t.Errorf("%s: %v (%s), want %v", c.name, got.Level, got.Text, c.want)
		}
	}
}

func TestConditionHolds(t *testing.T) {
	h200 := gpu(t, "H200")
	for _, c := range []struct {
		name string
		c    Condition
		env  Environment
		want Answer
	}{
		{"empty", Condition{Note: "a note is not checked"}, Environment{}, AnswerYes},
		{"no GPU", Condition{MinArchitecture: ArchitectureAmpere}, Environment{}, AnswerUnknown},
		{"no beats unknown", Condition{MinArchitecture: ArchitectureBlackwell, MinDriver: Driver{610, 0, 0}}, Environment{GPU: h200}, AnswerNo},
		{"between", Condition{MinArchitecture: ArchitectureVolta, MaxArchitecture: ArchitectureHopper}, Environment{GPU: h200}, AnswerYes},
		{"from this one on", Condition{MinArchitecture: ArchitectureHopper, MaxArchitecture: ArchitectureHopper}, Environment{GPU: h200}, AnswerYes},
		{"too new", Condition{MaxArchitecture: ArchitectureAda}, Environment{GPU: h200}, AnswerNo},
		{"driver", Condition{MinDriver: Driver{580, 65, 6}}, Environment{Driver: Driver{580, 65, 6}}, AnswerYes},
		{"mode off", Condition{Mode: ModeStaticSMPartitions}, Environment{Modes: map[Mode]Answer{ModeStaticSMPartitions: AnswerNo}}, AnswerNo},
		{"mode unknown", Condition{Mode: ModeStaticSMPartitions}, Environment{}, AnswerUnknown},
		{"no such mode", Condition{Mode: "other"}, Environment{}, AnswerUnknown},
	} {
		if got := c.c.holds(c.env); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestPropertiesNeverPromiseMore checks, over all mechanisms, GPUs and drivers, that knowing nothing of an environment
// never yields a higher level than knowing it does where a cap applies.
func TestPropertiesNeverPromiseMore(t *testing.T) {
	for _, m := range Mechanisms() {
		for a := AxisMemory; int(a) < AxisCount; a++ {
			blind := IsolationIn(m, a, Environment{}).Level
			for _, g := range GPUs() {
				if got := IsolationIn(m, a, Environment{GPU: &g}); got.Level < blind {
					t.Errorf("%v/%v on %s: %v, but %v without knowing the GPU", m, a, g.Name, got.Level, blind)
				}
			}
			ps := propertiesOf(m, a)
			if len(ps) == 0 || ps[0].When != (Condition{Note: ps[0].When.Note}) || ps[0].Caps {
				t.Errorf("%v/%v: the default statement does not come first", m, a)
			}
		}
	}
	if propertiesOf(MechanismNone, AxisMemory) != nil || propertiesOf(Mechanism(99), AxisMemory) != nil || propertiesOf(MechanismMPS, Axis(99)) != nil {
		t.Error("a mechanism that does not exist has properties")
	}
}

func TestDataAccessorsDoNotAllocate(t *testing.T) {
	env := Environment{GPU: gpu(t, "H200"), Driver: Driver{610, 43, 2}, Modes: map[Mode]Answer{ModeStaticSMPartitions: AnswerYes}}
	if n := testing.AllocsPerRun(100, func() {
		for m := MechanismNone; int(m) < MechanismCount; m++ {
			for a := AxisMemory; int(a) < AxisCount; a++ {
				IsolationIn(m, a, env)
			}
			Available(m, env)
			InfoFor(m)
			Delivers(DeliveryDevicePlugin, m)
		}
		MPSClientLimit(env.GPU, env.Driver)
		TrapByID("equal-load-per-model")
		SourceByID("cotenant-reading")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkIsolationIn(b *testing.B) {
	env := Environment{GPU: gpu(b, "H200"), Driver: Driver{610, 43, 2}, Modes: map[Mode]Answer{ModeStaticSMPartitions: AnswerYes}}
	b.ReportAllocs()
	for b.Loop() {
		IsolationIn(MechanismMPS, AxisFault, env)
	}
}
