// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// afternoon is a GPU on which a program works for 20 minutes, holds the GPU idle for three hours and ends.
func afternoon() telemetrytest.Script {
	server := []telemetry.Process{{PID: 4711, Name: "server", Memory: sharing.Some(20 * sharing.GiB), SMUtilPercent: sharing.Some(90.0)}}
	idle := []telemetry.Process{{PID: 4711, Name: "server", Memory: sharing.Some(20 * sharing.GiB)}}
	figures := func(util, watts, used float64) map[telemetry.Metric]float64 {
		return map[telemetry.Metric]float64{telemetry.MetricGPUUtilPercent: util, telemetry.MetricPowerWatts: watts, telemetry.MetricMemUsedBytes: used}
	}
	return telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: []telemetrytest.Phase{
		{For: 20 * time.Minute, Figures: figures(90, 500, 20<<30), Processes: server},
		{For: 3 * time.Hour, Figures: figures(0, 120, 20<<30), Processes: idle},
		{Figures: figures(0, 75, 0)},
	}}}}
}

// simulate runs a script through simulated time.
func simulate(script telemetrytest.Script, opts telemetry.SamplerOptions, span time.Duration) (*telemetry.Series, error) {
	src, err := telemetrytest.New(script)
	if err != nil {
		return nil, err
	}
	sampler, err := telemetry.NewSampler(src, opts)
	if err != nil {
		return nil, err
	}
	series := new(telemetry.Series)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return series, sampler.Simulate(context.Background(), start, span, series)
}

// Sample GPUs, and find the time in which they were held idle. With telemetrynvml.Open in place of the script, and Run
// in place of Simulate, the same program reads a real GPU.
func Example() {
	src, err := telemetrytest.New(afternoon())
	if err != nil {
		log.Fatal(err)
	}
	sampler, err := telemetry.NewSampler(src, telemetry.SamplerOptions{Period: 10 * time.Second, SlowPeriod: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	var series telemetry.Series
	if err := sampler.Simulate(context.Background(), time.Now(), 4*time.Hour, &series); err != nil {
		log.Fatal(err)
	}
	report, err := telemetry.DetectIdle(&series, 0, telemetry.IdleOptions{})
	for _, in := range report.Intervals {
		fmt.Printf("%-14v %9v  %.2f kWh\n", in.State, in.Length(), in.Joules.Or(0)/3.6e6)
	}
	fmt.Println(err)
	// Output:
	// active            19m50s  0.17 kWh
	// execution-idle    3h0m0s  0.36 kWh
	// deep-idle         40m10s  0.05 kWh
	// <nil>
}

func ExampleReapPolicy_Recoverable() {
	series, err := simulate(afternoon(), telemetry.SamplerOptions{Period: 10 * time.Second, SlowPeriod: 10 * time.Second}, 4*time.Hour)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := telemetry.DetectIdle(series, 0, telemetry.IdleOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range telemetry.ReapPolicies() {
		r, err := p.Recoverable([]telemetry.IdleReport{report})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-9s after %-7v %d of %d episodes, %v\n", p.Name, p.ReapAfter, r.Reaped, r.Episodes, r.Recoverable)
	}
	// Output:
	// idlebot   after 1h0m0s  1 of 1 episodes, 2h0m0s
	// princeton after 2h0m0s  1 of 1 episodes, 1h0m0s
	// kubeflow  after 24h0m0s 0 of 1 episodes, 0s
}

func ExampleMeasureEnergy() {
	series, err := simulate(afternoon(), telemetry.SamplerOptions{}, time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := telemetry.MeasureEnergy(series, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("integrated %.0f J, counter %.0f J\n", e.IntegratedJoules.Or(0), e.CounterJoules.Or(0))
	// Output: integrated 30000 J, counter 30000 J
}

func ExampleSeries_WriteCSV() {
	series, err := simulate(afternoon(), telemetry.SamplerOptions{Skip: telemetry.GroupsSlow | telemetry.GroupProcesses}, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := series.WriteCSV(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// at_s,time,period_s,basis,device,uuid,name,gpu_instance,compute_slices,util_percent,mem_util_percent,mem_used_bytes,mem_total_bytes,power_watts,power_limit_watts,sm_clock_mhz,mem_clock_mhz,temperature_celsius,energy_joules,pcie_tx_bytes_per_s,pcie_rx_bytes_per_s,graphics_util_percent,sm_util_percent,sm_occupancy_percent,tensor_util_percent,dram_util_percent,fp64_util_percent,fp32_util_percent,fp16_util_percent,nvlink_tx_bytes_per_s,nvlink_rx_bytes_per_s,throttle,programs
	// 0.000000000,2026-01-02T03:04:05Z,0.100000000,simulated,0,GPU-00000000-0000-0000-0000-000000000000,simulated GPU,,,90,,21474836480,,500,,,,,,,,,,,,,,,,,,none,
}

// The idle hours of a table of your own, and their cost.
func ExampleReadCSV() {
	table := "at_s,device,util_percent,power_watts,mem_used_bytes\n"
	for minute := range 8 * 60 { // of GPU 0, which works for the first two of eight hours
		util := 90 * (1 - min(1, minute/120))
		table += fmt.Sprintf("%d,0,%d,%d,40000000000\n", 60*minute, util, 110+4*util)
	}
	series, err := telemetry.ReadCSV(strings.NewReader(table))
	if err != nil {
		log.Fatal(err)
	}
	r, err := telemetry.DetectIdle(series, 0, telemetry.IdleOptions{})
	if err != nil {
		log.Fatal(err)
	}
	idle := r.Total(telemetry.StateExecutionIdle) + r.Total(telemetry.StateResidentIdle) + r.Total(telemetry.StateDeepIdle)
	fmt.Printf("%.1f of %.1f hours idle, %.2f USD at 3.50 an hour\n", idle.Hours(), r.Observed().Hours(), 3.50*idle.Hours())
	// Output:
	// 6.0 of 8.0 hours idle, 21.00 USD at 3.50 an hour
}
