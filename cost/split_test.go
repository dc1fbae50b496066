package cost

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/nightly"
)

// amounts lists what each tenant and the idle row pay, and checks that they
// add up.
func amounts(t testing.TB, a Split) map[string]string {
	t.Helper()
	got, sum := map[string]string{"(idle)": a.Idle.Decimal()}, a.Idle
	for _, c := range a.Charges {
		got[c.Tenant] = c.Amount.Decimal()
		if c.Amount.Sign() < 0 {
			t.Errorf("%s is paid %v", c.Tenant, c.Amount)
		}
		var err error
		if sum, err = sum.Add(c.Amount); err != nil {
			t.Fatal(err)
		}
	}
	if sum.micros != a.Price.micros || a.Idle.Sign() < 0 {
		t.Errorf("charges and idle come to %v, the price is %v, idle %v", sum, a.Price, a.Idle)
	}
	return got
}

func TestSplit(t *testing.T) {
	four := func(allocated float64, used ...float64) []TenantUse {
		ts := make([]TenantUse, 4)
		for i := range ts {
			ts[i] = TenantUse{Tenant: string(rune('a' + i)), Allocated: allocated}
			if used != nil {
				ts[i].Used = Some(used[i])
			}
		}
		return ts
	}
	for _, c := range []struct {
		name, price string
		tenants     []TenantUse
		capacity    float64
		useCapacity float64
		opts        SplitOptions
		want        map[string]string
		over        bool
	}{
		{"HAMi: four 25% pods pay for one GPU-hour", "3.25 USD", four(25), 100, 0, SplitOptions{},
			map[string]string{"a": "0.8125", "b": "0.8125", "c": "0.8125", "d": "0.8125", "(idle)": "0.00"}, false},
		{"of two like parts the tenant pays the rest", "0.000001 USD", four(50)[:1], 100, 0, SplitOptions{},
			map[string]string{"a": "0.000001", "(idle)": "0.00"}, false},
		{"a blend is over where either is", "1 USD", four(25, 3600, 3600, 0, 0), 100, 3600, SplitOptions{By: SplitByBlend, UseWeight: Whole},
			map[string]string{"a": "0.50", "b": "0.50", "c": "0.00", "d": "0.00", "(idle)": "0.00"}, true},
		{"HAMi: two of them leave half idle", "3.25 USD", four(25)[:2], 100, 0, SplitOptions{},
			map[string]string{"a": "0.8125", "b": "0.8125", "(idle)": "1.625"}, false},
		{"use is not allocation", "3.60 USD", four(25, 1800, 360, 0, 36), 100, 3600, SplitOptions{By: SplitByUse},
			map[string]string{"a": "1.80", "b": "0.36", "c": "0.00", "d": "0.036", "(idle)": "1.404"}, false},
		{"blend, one half each", "3.60 USD", four(25, 1800, 360, 0, 36), 100, 3600, SplitOptions{By: SplitByBlend, UseWeight: 50 * Percent},
			map[string]string{"a": "1.35", "b": "0.63", "c": "0.45", "d": "0.468", "(idle)": "0.702"}, false},
		{"time-slicing: 3 of 4 replicas", "1 USD", four(1)[:3], 4, 0, SplitOptions{},
			map[string]string{"a": "0.25", "b": "0.25", "c": "0.25", "(idle)": "0.25"}, false},
		{"MIG by compute slices: 3g, 2g, 1g, 1g", "0.70 USD",
			[]TenantUse{{Tenant: "z", Allocated: 3}, {Tenant: "y", Allocated: 2}, {Tenant: "x", Allocated: 1}, {Tenant: "w", Allocated: 1}}, 7, 0, SplitOptions{},
			map[string]string{"z": "0.30", "y": "0.20", "x": "0.10", "w": "0.10", "(idle)": "0.00"}, false},
		{"MIG: four 1g.20gb by memory slices fill the GPU", "3.25 USD", four(2), 8, 0, SplitOptions{},
			map[string]string{"a": "0.8125", "b": "0.8125", "c": "0.8125", "d": "0.8125", "(idle)": "0.00"}, false},
		{"MIG: seven 1g, the odd micro-units by name", "1 USD",
			[]TenantUse{{Tenant: "g", Allocated: 1}, {Tenant: "f", Allocated: 1}, {Tenant: "e", Allocated: 1}, {Tenant: "d", Allocated: 1}, {Tenant: "c", Allocated: 1}, {Tenant: "b", Allocated: 1}, {Tenant: "a", Allocated: 1}},
			7, 0, SplitOptions{},
			map[string]string{"a": "0.142858", "b": "0.142857", "c": "0.142857", "d": "0.142857", "e": "0.142857", "f": "0.142857", "g": "0.142857", "(idle)": "0.00"}, false},
		{"the idle row loses a tie", "0.000001 USD", []TenantUse{{Tenant: "zz", Allocated: 0.5}}, 0, 0, SplitOptions{},
			map[string]string{"zz": "0.000001", "(idle)": "0.00"}, false},
		{"MPS: kernels at once come to more than the GPU", "3 USD", four(0, 1, 1, 1, 0), 0, 0, SplitOptions{By: SplitByUse},
			map[string]string{"a": "1.00", "b": "1.00", "c": "1.00", "d": "0.00", "(idle)": "0.00"}, true},
		{"ten tenths are the GPU", "1 USD",
			[]TenantUse{{Tenant: "a", Allocated: .1}, {Tenant: "b", Allocated: .1}, {Tenant: "c", Allocated: .1}, {Tenant: "d", Allocated: .1}, {Tenant: "e", Allocated: .1},
				{Tenant: "f", Allocated: .1}, {Tenant: "g", Allocated: .1}, {Tenant: "h", Allocated: .1}, {Tenant: "i", Allocated: .1}, {Tenant: "j", Allocated: .1}}, 0, 0, SplitOptions{},
			map[string]string{"a": "0.10", "b": "0.10", "c": "0.10", "d": "0.10", "e": "0.10", "f": "0.10", "g": "0.10", "h": "0.10", "i": "0.10", "j": "0.10", "(idle)": "0.00"}, false},
		{"no tenants", "1 USD", nil, 0, 0, SplitOptions{By: SplitByUse}, map[string]string{"(idle)": "1.00"}, false},
		{"a free GPU", "0 USD", four(1), 4, 0, SplitOptions{}, map[string]string{"a": "0.00", "b": "0.00", "c": "0.00", "d": "0.00", "(idle)": "0.00"}, false},
		{"huge and tiny", "1 USD", []TenantUse{{Tenant: "a", Allocated: math.MaxFloat64}, {Tenant: "b", Allocated: math.MaxFloat64}, {Tenant: "c", Allocated: math.SmallestNonzeroFloat64}}, 0, 0, SplitOptions{},
			map[string]string{"a": "0.50", "b": "0.50", "c": "0.00", "(idle)": "0.00"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := SharedGPU{money(t, c.price), c.capacity, c.useCapacity, c.tenants}.Split(c.opts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, amounts(t, a)); diff != "" || a.Oversubscribed != c.over {
				t.Errorf("oversubscribed %v (-want +got):\n%s", a.Oversubscribed, diff)
			}
		})
	}
}

func TestSplitErrors(t *testing.T) {
	_, err := SharedGPU{money(t, "-1 USD"), -1, math.Inf(1), []TenantUse{
		{Tenant: "a", Allocated: math.NaN(), Used: Some(1.0)}, {Tenant: "a", Allocated: math.Inf(1), Used: Some(math.Inf(-1))},
		{Allocated: -1}, {Tenant: "b", Used: Some(math.NaN())}, {Tenant: "c"},
	}}.Split(SplitOptions{By: SplitByUse, UseWeight: Percent})
	if !errors.Is(err, ErrInput) {
		t.Fatal(err)
	}
	for _, want := range []string{"price: ", "use_weight: ", "\ncapacity: ", "use_capacity: ", "tenants[0].allocated: NaN", "tenants[1].tenant: ", "tenants[1].allocated: +Inf",
		"tenants[1].used: -Inf", "tenants[2].tenant: ", "tenants[2].allocated: -1", "tenants[2].used: it is not measured", "tenants[3].used: NaN", "tenants[4].used: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
	if _, err := (SharedGPU{}).Split(SplitOptions{By: 7, UseWeight: -1}); err == nil || !strings.Contains(err.Error(), "basis: ") || !strings.Contains(err.Error(), "use_weight: ") {
		t.Errorf("%v", err)
	}
}

// weird draws weights of every magnitude, many of them equal or zero.
func weird(rng *rand.Rand) float64 {
	switch rng.IntN(6) {
	case 0:
		return 0
	case 1:
		return float64(rng.IntN(8))
	case 2:
		return rng.Float64()
	case 3:
		return math.Abs(math.Float64frombits(rng.Uint64() &^ (1 << 62))) // down to the subnormals
	case 4:
		return 1.0 / 3
	}
	return math.Ldexp(rng.Float64(), rng.IntN(2000)-1000)
}

// TestSplitReconciles is the property the package stands on.
func TestSplitReconciles(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 11))
	for range nightly.Cases(300, 3000) {
		price := Money{rng.Int64N(maxMicros) >> rng.IntN(62), [3]byte{'U', 'S', 'D'}}
		tenants := make([]TenantUse, rng.IntN(9))
		for i := range tenants {
			tenants[i] = TenantUse{Tenant: fmt.Sprint("t", i), Allocated: weird(rng), Used: Some(weird(rng))}
		}
		gpu := SharedGPU{price, weird(rng), weird(rng), tenants}
		opts := SplitOptions{By: SplitBy(rng.IntN(3))}
		if opts.By == SplitByBlend {
			opts.UseWeight = PPM(rng.Int64N(int64(Whole) + 1))
		}
		a, err := gpu.Split(opts)
		if err != nil {
			t.Fatal(err)
		}
		want := amounts(t, a)
		rng.Shuffle(len(tenants), func(i, j int) { tenants[i], tenants[j] = tenants[j], tenants[i] })
		b, err := gpu.Split(opts)
		if diff := cmp.Diff(want, amounts(t, b)); err != nil || diff != "" {
			t.Fatalf("the order of the tenants matters: %v\n%s", err, diff)
		}
		if t.Failed() {
			t.Fatalf("%+v, %+v", gpu, opts)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(int64(3_250_000), 0.25, 0.25, 0.5, 0.1, uint8(2), int64(500_000), 1.0)
	f.Add(int64(1), math.MaxFloat64, math.SmallestNonzeroFloat64, 0.0, math.NaN(), uint8(0), int64(0), 7.0)
	f.Fuzz(func(t *testing.T, micros int64, a, b, ua, ub float64, basis uint8, weight int64, capacity float64) {
		price, err := FromMicros(micros, "USD")
		if err != nil {
			return
		}
		got, err := SharedGPU{price, capacity, 0, []TenantUse{{"a", a, Some(ua)}, {"b", b, Some(ub)}}}.Split(SplitOptions{By: SplitBy(basis), UseWeight: PPM(weight)})
		if err != nil {
			if got.Charges != nil || !errors.Is(err, ErrInput) {
				t.Errorf("value %+v with error %v", got, err)
			}
			return
		}
		amounts(t, got)
	})
}

func BenchmarkSplit(b *testing.B) {
	tenants := make([]TenantUse, 7)
	for i := range tenants {
		tenants[i] = TenantUse{Tenant: fmt.Sprint("tenant-", i), Allocated: 1}
	}
	gpu := SharedGPU{money(b, "3.25 USD"), 7, 0, tenants}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := gpu.Split(SplitOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTenantsWithControlCharacters(t *testing.T) {
	g := SharedGPU{Price: money(t, "1 USD"), Tenants: []TenantUse{{Tenant: "a\x1b[2J\nsum  0.00", Allocated: 1}}}
	if _, err := g.Split(SplitOptions{}); !errors.Is(err, ErrInput) || strings.ContainsAny(err.Error(), "\x1b") || !strings.Contains(err.Error(), "control characters") {
		t.Errorf("%v", err)
	}
}
