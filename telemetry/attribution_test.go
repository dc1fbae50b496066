package telemetry_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

func attribute(t *testing.T, s *telemetry.Series, opts telemetry.AttributionOptions) telemetry.Attribution {
	t.Helper()
	a, err := telemetry.Attribute(s, 0, opts)
	if err != nil {
		t.Fatal(err)
	}
	reconciles(t, a)
	return a
}

// reconciles holds the sums that Attribution promises, and the bounds.
func reconciles(t *testing.T, a telemetry.Attribution) {
	t.Helper()
	secs, joules := a.UnattributedSeconds+a.IdleSeconds, a.UnattributedJoules.Or(0)+a.BaselineJoules.Or(0)
	for _, u := range append([]telemetry.TenantUsage{a.Other}, a.Tenants...) {
		secs += u.GPUSeconds.Value
		j := u.Joules.Or(telemetry.Bounded{})
		joules += j.Value
		for _, b := range []telemetry.Bounded{u.GPUSeconds, j} {
			if b.Low > b.Value+1e-9 || b.High < b.Value-1e-9 || b.Low < 0 {
				t.Errorf("%s: %v is not between its bounds", u.Name, b)
			}
		}
	}
	if d := secs - a.Span.Seconds(); math.Abs(d) > 1e-9*a.Span.Seconds() {
		t.Errorf("%v: the seconds add up to %v of %v", a.Mechanism, secs, a.Span)
	}
	if total, ok := a.TotalJoules.Get(); ok && math.Abs(joules-total) > 1e-9*total {
		t.Errorf("%v: the joules add up to %v of %v", a.Mechanism, joules, total)
	}
}

func proc(pid uint32, sm float64) telemetry.Process {
	return telemetry.Process{PID: pid, Memory: telemetry.Some(sharing.GiB), SMUtilPercent: telemetry.Some(sm)}
}

func isNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6+1e-9*math.Abs(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestAttributeTimeSlicing(t *testing.T) {
	tenants := []telemetry.Tenant{{Name: "a", PIDs: []uint32{1, 2}}, {Name: "b", ProcessNames: []string{"b.exe"}}}
	opts := telemetry.AttributionOptions{Mechanism: sharing.MechanismTimeSlicing, Tenants: tenants, IdleWatts: 100}
	phase := func(util float64, procs ...telemetry.Process) telemetrytest.Phase {
		return telemetrytest.Phase{Figures: figures{telemetry.MetricGPUUtilPercent: util, telemetry.MetricPowerWatts: 300}, Processes: procs}
	}
	b := telemetry.Process{PID: 3, Name: "b.exe", SMUtilPercent: telemetry.Some(20.0)}
	t.Run("less than the device", func(t *testing.T) {
		a := attribute(t, simulated(t, oneGPU(phase(90, proc(1, 30), proc(2, 20), b, proc(9, 10))), telemetry.SamplerOptions{}, 100*time.Second), opts)
		isNear(t, "a", a.Tenants[0].GPUSeconds.Value, 50)
		isNear(t, "b", a.Tenants[1].GPUSeconds.Value, 20)
		isNear(t, "other", a.Other.GPUSeconds.Value, 10)
		isNear(t, "nobody", a.UnattributedSeconds, 10)
		isNear(t, "idle", a.IdleSeconds, 10)
		// Whatever is nobody's may be b's, and the driver rounds to whole percents.
		isNear(t, "b at most", a.Tenants[1].GPUSeconds.High, 30.5)
		isNear(t, "b at least", a.Tenants[1].GPUSeconds.Low, 19.5)
		isNear(t, "a's energy", a.Tenants[0].Joules.Or(telemetry.Bounded{}).Value, 200*100*50.0/90)
		isNear(t, "a's memory", a.Tenants[0].MemoryByteSeconds.Or(0), 2*100*(1<<30))
		if !a.Tenants[1].MemoryByteSeconds.IsZero() {
			t.Error("b reported no memory")
		}
		if a.Basis != sharing.BasisMeasured || a.SeriesBasis != sharing.BasisSimulated {
			t.Errorf("basis %v of a %v series", a.Basis, a.SeriesBasis)
		}
	})
	t.Run("more than the device", func(t *testing.T) {
		a := attribute(t, simulated(t, oneGPU(phase(100, proc(1, 90), b, proc(9, 40))), telemetry.SamplerOptions{}, 100*time.Second), opts)
		isNear(t, "a", a.Tenants[0].GPUSeconds.Value, 60)
		isNear(t, "excess", a.ExcessSeconds, 50)
		isNear(t, "a at most", a.Tenants[0].GPUSeconds.High, 90.5)
		isNear(t, "a at least", a.Tenants[0].GPUSeconds.Low, 39.5)
		isNear(t, "b at least", a.Tenants[1].GPUSeconds.Low, 0)
	})
	t.Run("a process vanishes", func(t *testing.T) {
		first := phase(50, proc(1, 50))
		first.For = 50500 * time.Millisecond
		a := attribute(t, simulated(t, oneGPU(first, phase(0)), telemetry.SamplerOptions{}, 100*time.Second), opts)
		// The window in which it ended shows the device busy for half of it and
		// no process: half of that is nobody's.
		isNear(t, "a", a.Tenants[0].GPUSeconds.Value, 25)
		if a.UnattributedSeconds <= 0 || a.UnattributedSeconds > 0.5 {
			t.Errorf("nobody's %v", a.UnattributedSeconds)
		}
	})
	t.Run("the driver has no process utilization", func(t *testing.T) {
		p := phase(90, proc(1, 30))
		p.Fail = map[telemetry.Groups]error{telemetry.GroupProcessUtil: telemetry.ErrUnsupported}
		s := simulated(t, oneGPU(p), telemetry.SamplerOptions{}, 100*time.Second)
		if a := attribute(t, s, opts); a.Span != 0 || a.Tenants[0].GPUSeconds.Value != 0 || !a.TotalJoules.IsZero() {
			t.Errorf("%+v", a)
		}
		if len(s.Events) != 0 {
			t.Errorf("what a device does not have is no event: %+v", s.Events)
		}
	})
	t.Run("a gap", func(t *testing.T) {
		first := phase(50, proc(1, 50))
		first.For = 20 * time.Second
		s := simulated(t, oneGPU(first, telemetrytest.Phase{For: 60 * time.Second, Lost: true}, phase(50, proc(1, 50))), telemetry.SamplerOptions{}, 100*time.Second)
		a := attribute(t, s, opts)
		if a.Uncovered < 60*time.Second || a.Span+a.Uncovered != 100*time.Second {
			t.Errorf("span %v, uncovered %v", a.Span, a.Uncovered)
		}
	})
}

func TestAttributeMPS(t *testing.T) {
	server := telemetry.Process{PID: 99, Name: "nvidia-cuda-mps-server", SMUtilPercent: telemetry.Some(80.0)}
	client := func(pid uint32) telemetry.Process {
		return telemetry.Process{PID: pid, Memory: telemetry.Some(sharing.GiB)}
	}
	phase := telemetrytest.Phase{Processes: []telemetry.Process{server, client(1), client(2)},
		Figures: figures{telemetry.MetricGPUUtilPercent: 100, telemetry.MetricSMUtilPercent: 60, telemetry.MetricPowerWatts: 400}}
	s := simulated(t, oneGPU(phase), telemetry.SamplerOptions{}, 100*time.Second)
	tenants := func(w1, w2, cap1, cap2 float64) telemetry.AttributionOptions {
		return telemetry.AttributionOptions{Mechanism: sharing.MechanismMPS, IdleWatts: 100, Tenants: []telemetry.Tenant{
			{Name: "a", PIDs: []uint32{1}, Weight: w1, ActiveThreadPercent: cap1}, {Name: "b", PIDs: []uint32{2}, Weight: w2, ActiveThreadPercent: cap2}}}
	}
	for _, c := range []struct {
		name         string
		opts         telemetry.AttributionOptions
		basis        sharing.Basis
		a, low, high float64
		b            float64
	}{
		{"nothing known", tenants(0, 0, 0, 0), sharing.BasisPrior, 30, 0, 60, 30},
		{"weights", tenants(3, 1, 0, 0), sharing.BasisDerived, 45, 0, 60, 15},
		{"limits bound", tenants(0, 0, 50, 20), sharing.BasisPrior, 40, 40, 50, 20},
		{"a limit cuts a weight off", tenants(3, 1, 40, 0), sharing.BasisDerived, 40, 0, 40, 20},
		{"limits below what was busy", tenants(0, 0, 20, 20), sharing.BasisPrior, 20, 20, 20, 20},
	} {
		a := attribute(t, s, c.opts)
		isNear(t, c.name+": a", a.Tenants[0].GPUSeconds.Value, c.a)
		isNear(t, c.name+": a at least", a.Tenants[0].GPUSeconds.Low, c.low)
		isNear(t, c.name+": a at most", a.Tenants[0].GPUSeconds.High, c.high)
		isNear(t, c.name+": b", a.Tenants[1].GPUSeconds.Value, c.b)
		if a.Basis != c.basis || !strings.Contains(a.Quantity, "SM") {
			t.Errorf("%s: basis %v, quantity %q", c.name, a.Basis, a.Quantity)
		}
		isNear(t, c.name+": memory", a.Tenants[0].MemoryByteSeconds.Or(0), 100*(1<<30))
	}
	// A tenant that left has no part in what came after.
	gone := phase
	gone.Processes = []telemetry.Process{server, client(2)}
	first := phase
	first.For = 50 * time.Second
	a := attribute(t, simulated(t, oneGPU(first, gone), telemetry.SamplerOptions{}, 100*time.Second), tenants(0, 0, 0, 0))
	if v := a.Tenants[0].GPUSeconds.Value; math.Abs(v-15) > 0.5 {
		t.Errorf("a has %v, want about 15", v)
	}
	// Without GPM an active thread percentage bounds nothing: a kernel on a
	// tenth of the SMs reads as a busy device.
	delete(phase.Figures, telemetry.MetricSMUtilPercent)
	a = attribute(t, simulated(t, oneGPU(phase), telemetry.SamplerOptions{}, 100*time.Second), tenants(0, 0, 20, 20))
	isNear(t, "a without GPM", a.Tenants[0].GPUSeconds.Value, 50)
	isNear(t, "a at most without GPM", a.Tenants[0].GPUSeconds.High, 100)
}

func TestAttributeMIG(t *testing.T) {
	instance := func(id, slices int, active, sm float64) telemetrytest.Instance {
		return telemetrytest.Instance{ID: id, ComputeSlices: slices, Figures: figures{telemetry.MetricGraphicsUtilPercent: active, telemetry.MetricSMUtilPercent: sm, telemetry.MetricMemUsedBytes: 1 << 30}}
	}
	s := simulated(t, oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: 450},
		Instances: []telemetrytest.Instance{instance(1, 3, 70, 60), instance(2, 2, 35, 10), instance(9, 1, 70, 0)}}), telemetry.SamplerOptions{}, 70*time.Second)
	opts := telemetry.AttributionOptions{Mechanism: sharing.MechanismMIG, IdleWatts: 100,
		Tenants: []telemetry.Tenant{{Name: "a", GPUInstances: []int{1}}, {Name: "b", GPUInstances: []int{2, 3}}}}
	a := attribute(t, s, opts)
	isNear(t, "a", a.Tenants[0].GPUSeconds.Value, 70*0.7*3/7)
	isNear(t, "b", a.Tenants[1].GPUSeconds.Value, 70*0.35*2/7)
	isNear(t, "other", a.Other.GPUSeconds.Value, 70*0.7*1/7)
	isNear(t, "a holds", a.Tenants[0].ReservedSeconds.Or(0), 30)
	isNear(t, "a's energy", a.Tenants[0].Joules.Or(telemetry.Bounded{}).Value, 350*70*180.0/200)
	isNear(t, "a's energy at least", a.Tenants[0].Joules.Or(telemetry.Bounded{}).Low, 0)
	isNear(t, "a's energy at most", a.Tenants[0].Joules.Or(telemetry.Bounded{}).High, 350*70)
	isNear(t, "a's memory", a.Tenants[0].MemoryByteSeconds.Or(0), 70*(1<<30))
	if a.Basis != sharing.BasisMeasured {
		t.Errorf("basis %v", a.Basis)
	}
	// An A100 has no counters for its instances: unknown, not idle.
	bare := simulated(t, oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: 450}, Instances: []telemetrytest.Instance{{ID: 1, ComputeSlices: 3}}}),
		telemetry.SamplerOptions{}, 70*time.Second)
	if b := attribute(t, bare, opts); b.Span != 0 || b.IdleSeconds != 0 || b.Uncovered != 70*time.Second {
		t.Errorf("%+v", b)
	}
	opts.ComputeSlices = 4
	isNear(t, "of an A30", attribute(t, s, opts).Tenants[0].ReservedSeconds.Or(0), 70*3.0/4)
}

func TestAttributeExclusive(t *testing.T) {
	s := simulated(t, oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricGPUUtilPercent: 50}}), telemetry.SamplerOptions{}, 100*time.Second)
	a := attribute(t, s, telemetry.AttributionOptions{Mechanism: sharing.MechanismExclusive, Tenants: []telemetry.Tenant{{Name: "a"}}})
	isNear(t, "a", a.Tenants[0].GPUSeconds.Value, 50)
	isNear(t, "idle", a.IdleSeconds, 50)
	if !a.TotalJoules.IsZero() || !a.Tenants[0].Joules.IsZero() {
		t.Error("energy without a power reading")
	}
	blind := simulated(t, oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: 50}}), telemetry.SamplerOptions{}, 100*time.Second)
	if a := attribute(t, blind, telemetry.AttributionOptions{Mechanism: sharing.MechanismExclusive, Tenants: []telemetry.Tenant{{Name: "a"}}}); a.Span != 0 || a.Uncovered != 100*time.Second {
		t.Errorf("without utilization: %+v", a)
	}
}

func TestAttributionOptionsNameEveryProblem(t *testing.T) {
	s := simulated(t, oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricGPUUtilPercent: 50}}), telemetry.SamplerOptions{}, time.Second)
	for _, c := range []struct {
		opts telemetry.AttributionOptions
		want []string
	}{
		{telemetry.AttributionOptions{}, []string{"mechanism", "tenants"}},
		{telemetry.AttributionOptions{Mechanism: sharing.MechanismVGPU, IdleWatts: -1, Tenants: []telemetry.Tenant{{Weight: math.NaN()}, {Name: "x", PIDs: []uint32{4}}, {Name: "x", PIDs: []uint32{4}}}},
			[]string{"vgpu", "negative", "tenants[0].name", "weight", `process 4 belongs to "x"`, "name x belongs"}},
		{telemetry.AttributionOptions{Mechanism: sharing.MechanismExclusive, Tenants: []telemetry.Tenant{{Name: "a", Weight: 1}, {Name: "b"}}}, []string{"2 tenants of an exclusive", "1 of 2"}},
		{telemetry.AttributionOptions{Mechanism: sharing.MechanismMIG, Tenants: []telemetry.Tenant{{Name: "a"}}}, []string{"gpu_instances"}},
		{telemetry.AttributionOptions{Mechanism: sharing.MechanismTimeSlicing, Tenants: []telemetry.Tenant{{Name: "a"}}}, []string{"pids"}},
	} {
		_, err := telemetry.Attribute(s, 0, c.opts)
		for _, w := range c.want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v does not say %q", err, w)
			}
		}
	}
	if _, err := telemetry.Attribute(s, 3, telemetry.AttributionOptions{}); err == nil {
		t.Error("device 3 of 1")
	}
}
