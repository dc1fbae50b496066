// SPDX-License-Identifier: Apache-2.0

// Package telemetry samples GPUs while workloads share them, and computes energy and idle time from the samples.
// Package ledger divides a shared GPU's time and cost among its tenants.
//
//	reader, err := telemetrynvml.Open(telemetrynvml.Options{})
//	sampler, err := telemetry.NewSampler(reader, telemetry.SamplerOptions{})
//	series, err := sampler.Run(ctx)
//	report, err := telemetry.DetectIdle(series, 0, telemetry.IdleOptions{})
//
// A [Sampler] reads a [Reader] (telemetrynvml for a real driver, telemetrytest for a scripted one) on two clocks: a
// fast one for figures that cost microseconds and a slow one for those that cost milliseconds. A device that hangs or
// fails is down ([Latest.Down]) and does not delay the others. The samples go into a [Series], which can be written as
// CSV and read back, or into a [Latest]. [MeasureEnergy] integrates power and reads the energy counter, [DetectIdle]
// finds deep idle, execution-idle and stalled time, and [ReapPolicy.Recoverable] computes the GPU time that reaping
// would recover. A [Digest] does all of this while sampling.
//
// # Missing is not zero
//
// A figure that the driver does not give is absent: in [Reading.Get], in JSON and in CSV (an empty cell). It is never 0
// or another sentinel.
//
// # Provenance of a figure
//
// Every series and every row written carries the [sharing.Basis] of its source, so that a simulated series is never
// mistaken for a measured one. Gaps, lost devices and dropped values are recorded as [Event].
//
// NVML's utilization is the share of time in which any kernel ran: a kernel of one thread reads 100%. It does not
// measure capacity; for that use the GPM figures of Hopper and later ([MetricSMUtilPercent], [MetricDRAMUtilPercent]).
// It is stable: its API changes incompatibly only with a new major version.
package telemetry
