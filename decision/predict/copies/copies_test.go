// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// A speech synthesizer keeps the SMs active for a fifth of the time: do three copies under MPS pay?
func ExamplePredict() {
	e, err := Predict(Server{Rate: 50.5, SMActive: sharing.Some(0.201), Decodes: true},
		Setting{Mechanism: sharing.MechanismMPS, Copies: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.1f times the rate (%.1f to %.1f), pays with %.0f%%, bound by %s\n", e.Ratio.Value, e.Ratio.Low,
		e.Ratio.High, 100*e.Pays, e.Bound)
	// Output: 2.6 times the rate (1.8 to 3.0), pays with 100%, bound by host
}

func ExampleNewCurve() {
	embedding := Server{GPUTime: 4 * time.Millisecond, HostTime: 8 * time.Millisecond, Latency: 12 * time.Millisecond,
		Memory: 3 * sharing.GiB}
	c, err := NewCurve(embedding, Setting{Mechanism: sharing.MechanismTimeSlicing, GPUMemory: 24 * sharing.GiB}, 8, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d copies; to know better, measure %s\n", c.Best, c.Narrow)
	// Output: 4 copies; to know better, measure GPU busy of one copy under this load (DCGM_FI_PROF_GR_ENGINE_ACTIVE, or nvidia-smi's utilization)
}

func ExampleReadRows() {
	rows, err := ReadRows(strings.NewReader(`{"rows": [
		{"id": "a", "mechanism": "mps", "copies": 2, "busy_alone_fraction": 0.3, "busy_alone_kind": "nvml", "solo": {}},
		{"id": "b", "mechanism": "mig:1g.10gb", "copies": 9, "solo": {}}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range rows {
		if a := rows[i].Answer(); a.Ratio != nil {
			fmt.Printf("%s: %.2f, pays with %.0f%%\n", a.ID, a.Ratio.Value, 100**a.Pays)
		} else {
			fmt.Println(a.ID+":", a.Reason)
		}
	}
	// Output:
	// a: 1.93, pays with 99%
	// b: copies: 9 instances of 0.14 of the GPU don't fit on it (take a smaller profile or fewer copies)
}

// TestMonotone holds what physics says whatever the constants: a second copy never lowers the rate of a server that
// leaves the GPU idle, more work on the GPU never leaves more to copies, and a load that is divided gains no more than
// one that grows.
func TestMonotone(t *testing.T) {
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismHAMi,
		sharing.MechanismInServer} {
		for n := 2; n <= 8; n++ {
			before := math.Inf(1)
			for busy := 0.05; busy <= 1; busy += 0.05 {
				s, q := Server{Busy: sharing.Some(busy), Decodes: n%2 == 0}, Setting{Mechanism: m, Copies: n}
				grows, err := Predict(s, q)
				if err != nil {
					t.Fatal(err)
				}
				q.Load = LoadDivided
				divided, _ := Predict(s, q)
				switch r := grows.Ratio.Value; {
				case r > before || r > float64(n):
					t.Errorf("%s, %d copies: %.3f at a busy of %.2f, %.3f below it", m, n, r, busy, before)
				case busy < 0.3 && r < 1.5:
					t.Errorf("%s, %d copies: %.3f at a busy of %.2f", m, n, r, busy)
				case divided.Ratio.Value > r+1e-9:
					t.Errorf("%s, %d copies: %.3f where the load is divided, %.3f where it grows", m, n, divided.Ratio.Value, r)
				}
				before = grows.Ratio.Value
			}
		}
	}
}

func TestOpenLoadIsServedWhileThereIsRoom(t *testing.T) {
	s := Server{Busy: sharing.Some(0.2)}
	for n, want := range map[int]string{2: boundLoad, 4: boundLoad, 6: boundGPU} {
		e, err := Predict(s, Setting{Mechanism: sharing.MechanismTimeSlicing, Copies: n, Load: LoadOpen})
		if err != nil || e.Bound != want || (e.Bound == boundLoad) != (e.Ratio.Value == float64(n)) ||
			(e.Bound == boundLoad) != (e.Latency.Value > 1) {
			t.Errorf("%d copies: %+v, %v", n, e, err)
		}
	}
}

func TestCoresAndMemoryBound(t *testing.T) {
	s := Server{Busy: sharing.Some(0.1), Memory: 10 * sharing.GiB}
	c, err := NewCurve(s, Setting{Mechanism: sharing.MechanismMPS, Cores: 3, GPUMemory: 48 * sharing.GiB}, 8, 0)
	if err != nil || len(c.Points) != 4 || c.Ends != boundMemory || c.Points[3].Ratio.Value != 3 || c.Points[3].Bound != boundHost {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestPythonThreads has instances that share one interpreter: where the host is the limit they bring next to nothing.
func TestPythonThreads(t *testing.T) {
	s, q := Server{Busy: sharing.Some(0.1)}, Setting{Mechanism: sharing.MechanismInServer, Copies: 4}
	free, err := Predict(s, q)
	s.PythonThreads = true
	bound, err2 := Predict(s, q)
	if err != nil || err2 != nil || free.Ratio.Value < 3 || bound.Ratio.Value > 1.15 || bound.Bound != boundHost {
		t.Errorf("%+v, %v; %+v, %v", free, err, bound, err2)
	}
}

func TestBadInput(t *testing.T) {
	some := sharing.Some[float64]
	mps := Setting{Mechanism: sharing.MechanismMPS, Copies: 2}
	for _, c := range []struct {
		s    Server
		q    Setting
		want []string
	}{
		{Server{Busy: some(0)}, mps, []string{"gpu_busy: 0 is no fraction"}},
		{Server{Busy: some(1.2), SMActive: some(math.NaN())}, mps, []string{"gpu_busy: 1.2", "sm_active: NaN"}},
		{Server{Rate: 200, GPUTime: 8 * time.Millisecond}, mps, []string{"gpu_time: 200 requests/s of 8ms are 1.60 seconds"}},
		{Server{Busy: some(0.3), SMActive: some(0.5)}, mps, []string{"sm_active: 0.5 is more than the GPU busy of 0.3"}},
		{Server{}, mps, []string{"one of GPU busy"}},
		{Server{Busy: some(0.3), Memory: 99}, Setting{Mechanism: sharing.MechanismMPS, GPUMemory: 9}, []string{"memory: one copy"}},
		{Server{Busy: some(0.3)}, Setting{Mechanism: sharing.MechanismVGPU}, []string{"mechanism: no figures of copies under vgpu"}},
		{Server{Busy: some(0.3), HostTime: 2, Latency: 1}, mps, []string{"host_time: 2ns is more than"}},
	} {
		_, err := NewCurve(c.s, c.q, 2, 0)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, without %q", c.s, err, want)
			}
		}
	}
}

// TestRowsAreAnsweredOrRefused feeds columns as other sources may have them.
func TestRowsAreAnsweredOrRefused(t *testing.T) {
	for _, bad := range []string{``, `[]`, `{"rows": []}`, `{"rows": [{"copies": 2}]}`,
		`{"rows": [{"id": "a"}, {"id": "a"}]}`} {
		if _, err := ReadRows(strings.NewReader(bad)); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
	f, err := os.Open("testdata/copies-published.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := ReadRows(f)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		r := &rows[i]
		if a := r.Answer(); a.Ratio == nil || !(a.Ratio.Low <= a.Ratio.Value && a.Ratio.Value <= a.Ratio.High) {
			t.Errorf("%s: %+v", r.ID, a)
		}
		for _, change := range []func(){func() { r.Copies = 0 }, func() { r.Copies = 2; r.Mechanism = "turns" }} {
			if change(); r.Answer().Ratio != nil || r.Answer().Reason == "" {
				t.Errorf("%s is answered with %d copies under %s", r.ID, r.Copies, r.Mechanism)
			}
		}
	}
}
