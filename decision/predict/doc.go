// SPDX-License-Identifier: Apache-2.0

// Package predict predicts the latency and throughput of workloads that share one GPU under time-slicing and MPS, with
// intervals, from measurements of each of them in isolation.
//
// [Predictor.Predict] takes the isolated profiles of each workload of a group ([profile.Profiles.Solo]) and predicts
// each of them, by a simulation of the serving engines or by closed forms.
//
// [NewPredictor] returns a Predictor with the physical constants of an H200, and [Predictor.Fit] calibrates one on
// measured rows; its JSON form has the constants, each with unit, plausible range, basis and source, and the expected
// errors. Every interval is designed to contain the measured value with a probability of 90%. If no prediction is
// possible, the error gives the reason: [profile.ErrNoProfile], [ErrOtherGPU], [ErrUnpredictable].
//
// An [Evaluator] estimates any mix of tenants: a [Tenant] may be measured on the GPU or elsewhere, or be known only by
// its load and model. Without measurements closed forms of queues apply. Measurements are in package profile.
//
// The package does not access GPUs. Predictors and profiles may be read concurrently; the same input gives the same
// bytes. Experimental: its API may change.
package predict
