// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
)

// recordedCase is one load on two model servers, of 3B and 1B parameters, that shared
// an H100 or H200 (driver 580.159.04): for each of the exporter's windows the
// driver's answers and the servers' work. The windows' length varied by 0.02 s.
type recordedCase struct {
	GPU, Mechanism, Load string
	// AloneMS is the time between two CUDA events of a server's prefill of 128 tokens and of its decode steps, by batch,
	// when it ran isolated.
	AloneMS []struct {
		Prefill float64
		Decode  map[string]float64
	} `json:"alone_ms"`
	Told    [2]float64 // the shares that the exporter gave then
	Windows []struct {
		Seconds float64
		Charged map[string]float64 // percent, by process
		Samples []float64          // of the GPU's utilization
		Rates   []float64          // its cheap readings
		Watts   []float64
		Servers []struct {
			Decodes          map[string]float64 // by batch
			Prefills, Tokens float64
			EngineS          float64 `json:"engine_s"` // with something to do
		}
	}
}

// TestRecorded accounts again for a driver's figures of two servers, at three ratios of their loads under time-slicing
// and MPS, on an H100 and an H200. Each server's work is the time between events that its steps take when isolated. Its
// engine's busy time is more: the wait for the other is in it. The last window of each host was lost.
func TestRecorded(t *testing.T) {
	f, err := os.Open("testdata/recorded.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var cases []recordedCase
	if err := json.NewDecoder(z).Decode(&cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		name := fmt.Sprintf("%s %s %s", c.GPU, c.Mechanism, c.Load)
		for _, sampled := range []bool{true, false} {
			got := c.account(t, sampled)
			if c.Mechanism == "mps" {
				got = c.byTokens(t)
			}
			var work, engine [2]float64
			length := 0.0
			for _, w := range c.Windows {
				length += w.Seconds
				for i, s := range w.Servers {
					ms := s.Prefills * c.AloneMS[i].Prefill
					for batch, n := range s.Decodes {
						ms += n * c.AloneMS[i].Decode[batch]
					}
					work[i] += ms / 1e3
					engine[i] += s.EngineS
				}
			}
			for i, model := range []string{"3B", "1B"} {
				work[i], engine[i] = work[i]/length, engine[i]/length
				off := got[i][1] - work[i]
				t.Logf("%s, %s, samples %v: work %.1f%% (engine busy %.1f%%), attributed %.1f%% (%.1f to %.1f), off %+.1f",
					name, model, sampled, 100*work[i], 100*engine[i], 100*got[i][1], 100*got[i][0], 100*got[i][2], 100*off)
				if work[i] < got[i][0] || work[i] > got[i][2] {
					t.Errorf("%s: the work of %s is outside of the bounds", name, model)
				}
				if c.Mechanism == "mps" { // a token of each counts the same
					continue
				}
				if math.Abs(off) > 0.05 {
					t.Errorf("%s: %s has %.3f, its work is %.3f", name, model, got[i][1], work[i])
				}
				if sampled && math.Abs(got[i][1]-c.Told[i]) > 0.005 {
					t.Errorf("%s: %s has %.4f, the exporter gave it %.4f then", name, model, got[i][1], c.Told[i])
				}
			}
		}
	}
}

// byTokens gives each server's share under MPS by the tokens that it served: low, value and high.
func (c *recordedCase) byTokens(t *testing.T) (out [2][3]float64) {
	length := 0.0
	for _, w := range c.Windows {
		busy := 0.0
		for _, v := range w.Samples {
			busy += v / 100 / float64(len(w.Samples))
		}
		in := Window{Length: time.Duration(w.Seconds * 1e9), Mechanism: sharing.MechanismMPS, Busy: sharing.Some(busy)}
		for i, s := range w.Servers {
			in.Claims = append(in.Claims, Claim{Pod: named(string(rune('a' + i))), Resident: true, Tokens: sharing.Some(s.Tokens)})
		}
		parts, err := Divide(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			if p.Account == accountTenant {
				for j, d := range []time.Duration{p.Low, p.Time, p.High} {
					out[p.Pod.Name[0]-'a'][j] += d.Seconds()
				}
			}
		}
		length += w.Seconds
	}
	for i := range out {
		for j := range out[i] {
			out[i][j] /= length
		}
	}
	return out
}

// account gives each server's share by the accounts: low, value and high. The GPU's
// utilization is the mean of its samples, or the sum of its processes' charges.
func (c *recordedCase) account(t *testing.T, sampled bool) (out [2][3]float64) {
	b := newBench(t)
	pods := [2]container.Pod{{Namespace: "bench", Name: "3b", Container: "c"}, {Namespace: "bench", Name: "1b", Container: "c"}}
	pids := map[string]uint32{"3b": 10, "1b": 11, "server": 5}
	for i, pod := range pods {
		b.process(uint32(10+i), 1+i, pod, 1+i)
		b.uses(uint32(10+i), 0)
	}
	if c.Mechanism == "mps" {
		b.procs = append(b.procs, telemetry.Process{PID: pids["server"], Name: "nvidia-cuda-mps-server"})
	}
	b.seconds(10) // the window before, in which nothing ran
	length := time.Duration(0)
	for _, w := range c.Windows {
		window, begun := time.Duration(w.Seconds*1e9), b.at
		for i := range w.Rates {
			b.at = begun + window*time.Duration(i+1)/time.Duration(len(w.Rates))
			x := telemetry.Sample{Groups: telemetry.GroupsFast}
			x.Set(telemetry.MetricGPUUtilPercent, w.Rates[i])
			x.Set(telemetry.MetricPowerWatts, w.Watts[min(i, len(w.Watts)-1)])
			x.Processes = b.procs
			b.sample(&x)
		}
		x := telemetry.Sample{Groups: telemetry.GroupProcessUtil}
		sum, mean := 0.0, 0.0
		for process, percent := range w.Charged {
			x.Processes = append(x.Processes, telemetry.Process{PID: pids[process], SMUtilPercent: sharing.Some(percent)})
			sum += percent
		}
		for _, s := range w.Samples {
			mean += s / float64(len(w.Samples))
		}
		if !sampled {
			mean = min(sum, 100)
		}
		x.Set(telemetry.MetricGPUUtilPercent, mean)
		b.sample(&x)
		x = telemetry.Sample{Groups: telemetry.GroupEnergy}
		b.joule += 300 * w.Seconds
		x.Set(telemetry.MetricEnergyJoules, b.joule)
		b.sample(&x)
		length += window
	}
	mechanism := map[string]sharing.Mechanism{"mps": sharing.MechanismMPS, "time-slicing": sharing.MechanismTimeSlicing}[c.Mechanism]
	for _, r := range b.book.listRows() {
		for i, pod := range pods {
			if r.Account == accountTenant && r.Pod == pod && r.Mechanism == mechanism {
				for j, d := range []time.Duration{r.Low, r.Time, r.High} {
					out[i][j] += d.Seconds() / length.Seconds()
				}
			}
		}
	}
	return out
}
