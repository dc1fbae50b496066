package sharing

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func gpu(t testing.TB, name string) *GPU {
	t.Helper()
	g, err := LookupGPU(name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestPopularMatrix holds A10 as it is printed.
func TestPopularMatrix(t *testing.T) {
	type row struct {
		Mechanism                      Mechanism
		Memory, Compute, Fault, Jitter Level
		Printed                        [4]string
	}
	want := []row{
		{TimeSlicing, LevelNone, LevelNone, LevelPartial, LevelNone, [4]string{"None", "None", "Partial", "High"}},
		{MPS, LevelPartial, LevelNone, LevelNone, LevelPartial, [4]string{"Partial*", "None", "None", "Low-Medium"}},
		{MIG, LevelHardware, LevelHardware, LevelHardware, LevelHardware, [4]string{"Hardware", "Hardware", "Hardware", "Negligible"}},
		{HAMi, LevelSoftware, LevelSoftware, LevelPartial, LevelPartial, [4]string{"Software", "Software", "Partial", "Low-Medium"}},
	}
	var got []row
	for _, w := range want {
		p := func(a Axis) Property { return Isolation(w.Mechanism, a, Popular) }
		got = append(got, row{w.Mechanism, p(Memory).Level, p(Compute).Level, p(Fault).Level, p(Jitter).Level,
			[4]string{p(Memory).Text, p(Compute).Text, p(Fault).Text, p(Jitter).Text}})
		for a := Memory; int(a) < AxisCount; a++ {
			if s := p(a).Source; s != "A10" {
				t.Errorf("%v/%v comes from %s", w.Mechanism, a, s)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p := Isolation(VGPU, Memory, Popular); p.Level != LevelUnknown || p.Source != "" {
		t.Errorf("the popular tables hold no vGPU, but got %+v", p)
	}
}

// TestPrimaryMatrix holds the default statements of the primary reading.
func TestPrimaryMatrix(t *testing.T) {
	want := map[Mechanism][AxisCount]Level{
		Exclusive:        {LevelHardware, LevelHardware, LevelHardware, LevelHardware},
		TimeSlicing:      {LevelNone, LevelNone, LevelNone, LevelNone},
		MPS:              {LevelPartial, LevelPartial, LevelNone, LevelPartial},
		MIG:              {LevelHardware, LevelHardware, LevelHardware, LevelDriver},
		MIGWithMPS:       {LevelPartial, LevelPartial, LevelNone, LevelPartial},
		HAMi:             {LevelSoftware, LevelPartial, LevelNone, LevelNone},
		HAMiWithMPS:      {LevelPartial, LevelPartial, LevelNone, LevelPartial},
		VGPU:             {LevelDriver, LevelNone, LevelUnknown, LevelNone},
		MIGBackedVGPU:    {LevelHardware, LevelHardware, LevelHardware, LevelDriver},
		MIGLikeEmulation: {LevelPartial, LevelPartial, LevelNone, LevelPartial},
		InServer:         {LevelNone, LevelNone, LevelNone, LevelNone},
		Research:         {LevelUnknown, LevelUnknown, LevelUnknown, LevelUnknown},
	}
	for _, m := range Mechanisms() {
		for a := Memory; int(a) < AxisCount; a++ {
			if got := Isolation(m, a, Primary); got.Level != want[m][a] || got.Reading != Primary || got.Source == "" {
				t.Errorf("%v/%v: %v (%s), want %v", m, a, got.Level, got.Source, want[m][a])
			}
		}
	}
}

func TestIsolationIn(t *testing.T) {
	static := func(name string, d Driver) Environment {
		return Environment{GPU: gpu(t, name), Driver: d, StaticPartitions: Yes}
	}
	for _, c := range []struct {
		name string
		m    Mechanism
		a    Axis
		env  Environment
		want Level
	}{
		{"MPS memory on Volta", MPS, Memory, Environment{GPU: gpu(t, "V100-32GB")}, LevelPartial},
		{"MPS memory before Volta", MPS, Memory, Environment{GPU: gpu(t, "P100-16GB"), PinnedMemoryLimits: Yes}, LevelNone},
		{"MPS memory on an unknown GPU", MPS, Memory, Environment{}, LevelNone},
		{"MPS memory with limits", MPS, Memory, Environment{GPU: gpu(t, "L4"), PinnedMemoryLimits: Yes}, LevelSoftware},
		{"limits not known to be set", MPS, Memory, Environment{GPU: gpu(t, "L4")}, LevelPartial},
		{"cgroup limits", MPS, Memory, Environment{GPU: gpu(t, "L4"), Driver: Driver{615, 0, 0}, CgroupMemoryLimits: Yes}, LevelDriver},
		{"cgroup limits on an old driver", MPS, Memory, Environment{GPU: gpu(t, "L4"), Driver: Driver{580, 65, 6}, CgroupMemoryLimits: Yes}, LevelPartial},
		{"static partitions reserve", MPS, Compute, static("H200", Driver{590, 44, 1}), LevelDriver},
		{"not on driver 580", MPS, Compute, static("H200", Driver{580, 65, 6}), LevelPartial},
		{"not on an unknown driver", MPS, Compute, static("H200", Driver{}), LevelPartial},
		{"not on Turing", MPS, Compute, static("T4", Driver{610, 0, 0}), LevelPartial},
		{"static partitions isolate faults from r610", MPS, Fault, static("H200", Driver{610, 43, 2}), LevelPartial},
		{"and not before", MPS, Fault, static("H200", Driver{595, 45, 4}), LevelNone},
		{"mode not known", MPS, Fault, Environment{GPU: gpu(t, "H200"), Driver: Driver{610, 43, 2}}, LevelNone},
		{"vGPU fixed share", VGPU, Compute, Environment{VGPUFixedShare: Yes}, LevelDriver},
		{"vGPU equal share", VGPU, Compute, Environment{VGPUEqualShare: Yes}, LevelPartial},
		{"vGPU best effort", VGPU, Compute, Environment{VGPUFixedShare: No, VGPUEqualShare: No}, LevelNone},
		{"MIG anywhere", MIG, Fault, Environment{}, LevelHardware},
		{"no mechanism", None, Fault, Environment{}, LevelUnknown},
		{"no such mechanism", Mechanism(99), Fault, Environment{}, LevelUnknown},
		{"no such axis", MIG, Axis(99), Environment{}, LevelUnknown},
		{"the class of research systems", Research, Fault, Environment{GPU: gpu(t, "H200")}, LevelUnknown},
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
		{"empty", Condition{Note: "a note is not checked"}, Environment{}, Yes},
		{"no GPU", Condition{MinArchitecture: Ampere}, Environment{}, Unknown},
		{"no beats unknown", Condition{MinArchitecture: Blackwell, MinDriver: Driver{610, 0, 0}}, Environment{GPU: h200}, No},
		{"between", Condition{MinArchitecture: Volta, MaxArchitecture: Hopper}, Environment{GPU: h200}, Yes},
		{"too new", Condition{MaxArchitecture: Ada}, Environment{GPU: h200}, No},
		{"driver", Condition{MinDriver: Driver{580, 65, 6}}, Environment{Driver: Driver{580, 65, 6}}, Yes},
		{"mode off", Condition{Mode: ModeStaticSMPartitions}, Environment{StaticPartitions: No}, No},
		{"mode unknown", Condition{Mode: ModeStaticSMPartitions}, Environment{}, Unknown},
		{"no such mode", Condition{Mode: Mode(99)}, Environment{}, Unknown},
	} {
		if got := c.c.Holds(c.env); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestPropertiesNeverPromiseMore checks, over all mechanisms, GPUs and
// drivers, that knowing nothing of an environment never yields a higher level
// than knowing it does where a cap applies, and that no statement of the
// popular reading gets into the primary one.
func TestPropertiesNeverPromiseMore(t *testing.T) {
	for _, m := range Mechanisms() {
		for a := Memory; int(a) < AxisCount; a++ {
			blind := IsolationIn(m, a, Environment{}).Level
			for _, g := range GPUs() {
				if got := IsolationIn(m, a, Environment{GPU: &g}); got.Level < blind || got.Reading != Primary {
					t.Errorf("%v/%v on %s: %v, but %v without knowing the GPU", m, a, g.Name, got.Level, blind)
				}
			}
			ps := Properties(m, a)
			if i := slices.IndexFunc(ps, func(p Property) bool { return p.Reading == Primary }); i != 0 || !ps[0].When.IsZero() || ps[0].Caps {
				t.Errorf("%v/%v: the default statement of the primary reading does not come first", m, a)
			}
		}
	}
	if Properties(None, Memory) != nil || Properties(Mechanism(99), Memory) != nil || Properties(MPS, Axis(99)) != nil {
		t.Error("what does not exist has properties")
	}
}

func TestDisagreements(t *testing.T) {
	var got []string
	for _, d := range Disagreements()[40:] {
		got = append(got, d.ID)
		if d.Cell == nil || len(d.Cell.Primary) == 0 || d.Cell.Popular.Reading != Popular {
			t.Errorf("%s has no cell", d.ID)
		}
	}
	want := []string{"A10:time-slicing:fault", "A10:mps:compute", "A10:mig:jitter", "A10:hami:compute", "A10:hami:fault", "A10:hami:jitter", "A14:mps:memory", "A14:mps:compute"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cells that differ (-want +got):\n%s", diff)
	}
	for _, id := range []string{"D1", "D17", "C1", "C23", "A10:mps:compute"} {
		if d, ok := DisagreementByID(id); !ok || d.ID != id {
			t.Errorf("DisagreementByID(%s) = %v, %v", id, d, ok)
		}
	}
	if _, ok := DisagreementByID("D18"); ok {
		t.Error("there is a D18")
	}
}

func TestCompare(t *testing.T) {
	c := Compare(MIG, MPS, Environment{GPU: gpu(t, "L4")})
	if c.AvailableA.Answer != No || c.AvailableB.Answer != Yes {
		t.Errorf("on L4: MIG %v, MPS %v", c.AvailableA, c.AvailableB)
	}
	for _, x := range c.Axes {
		if x.Stronger != SideA {
			t.Errorf("%v: %v", x.Axis, x.Stronger)
		}
	}
	mirror := Compare(MPS, MIG, Environment{GPU: gpu(t, "L4")})
	for _, x := range mirror.Axes {
		if x.Stronger != SideB {
			t.Errorf("mirrored %v: %v", x.Axis, x.Stronger)
		}
	}
	if s := Compare(MIG, Research, Environment{}).Axes[Fault].Stronger; s != SideUnknown {
		t.Errorf("MIG against research: %v", s)
	}
	if s := Compare(MPS, MPS, Environment{}).Axes[Fault].Stronger; s != SideEqual {
		t.Errorf("MPS against itself: %v", s)
	}
}

func TestDataAccessorsDoNotAllocate(t *testing.T) {
	env := Environment{GPU: gpu(t, "H200"), Driver: Driver{610, 43, 2}, StaticPartitions: Yes}
	if n := testing.AllocsPerRun(100, func() {
		for m := None; int(m) < MechanismCount; m++ {
			for a := Memory; int(a) < AxisCount; a++ {
				IsolationIn(m, a, env)
			}
			Available(m, env)
			InfoFor(m)
			Delivers(DevicePlugin, m)
		}
		MPSClientLimit(env.GPU, env.Driver)
		TrapByID("M17")
		SourceByID("R35")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkIsolationIn(b *testing.B) {
	env := Environment{GPU: gpu(b, "H200"), Driver: Driver{610, 43, 2}, StaticPartitions: Yes}
	b.ReportAllocs()
	for b.Loop() {
		IsolationIn(MPS, Fault, env)
	}
}
