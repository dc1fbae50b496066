// SPDX-License-Identifier: Apache-2.0

package telemetrynvml_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// Sample a real GPU for ten seconds. (Not run by the tests: it needs one.)
func Example() {
	src, err := telemetrynvml.Open(telemetrynvml.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer src.Close()
	sampler, err := telemetry.NewSampler(src, telemetry.SamplerOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	series, err := sampler.Run(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	watts, readings := series.Mean(0, telemetry.MetricPowerWatts)
	fmt.Printf("%s: %v W from %d readings\n", series.Devices[0].Name, watts, readings)
}

// Where there is no driver, the error of Open has the cause, on every platform.
func ExampleOpen() {
	_, err := telemetrynvml.Open(telemetrynvml.Options{LibraryPath: "/nonexistent/libnvidia-ml.so.1"})
	fmt.Println(errors.Is(err, telemetrynvml.ErrUnavailable))
	// Output: true
}

// A program that should run everywhere falls back on a script, and its figures then say that they are simulated.
func ExampleOpen_fallback() {
	var src telemetry.Reader
	real, err := telemetrynvml.Open(telemetrynvml.Options{LibraryPath: "/nonexistent/libnvidia-ml.so.1"})
	if err == nil {
		defer real.Close()
		src = real
	} else {
		src, err = telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: []telemetrytest.Phase{{}}}}})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(src.Info().Name, src.Info().Basis)
	// Output: script simulated
}

// A closed source may be closed again.
func ExampleReader_Close() {
	src, err := telemetrynvml.Open(telemetrynvml.Options{LibraryPath: "/nonexistent/libnvidia-ml.so.1"})
	if err != nil {
		fmt.Println("nothing to close")
		return
	}
	fmt.Println(errors.Join(src.Close(), src.Close()))
	// Output: nothing to close
}
