// SPDX-License-Identifier: Apache-2.0

// Package predict predicts the latency and throughput of workloads that share one GPU under time-slicing and MPS, with
// intervals, from measurements of each of them in isolation.
//
// [Predictor.Predict] takes the isolated profiles of each workload of a group ([profile.Profiles.Solo]) and answers for
// each, by a simulation of the serving engines or by closed forms.
//
// [NewPredictor] returns a Predictor with the physical constants of an H200, [Predictor.Fit] one that is calibrated on
// measured rows; its JSON form keeps the constants, each with unit, plausible range, basis and source, and the errors
// to expect. Every interval is to hold the measured value with a probability of 90%. Where there is no prediction,
// the error gives the reason: [profile.ErrNoProfile], [ErrOtherGPU], [ErrUnpredictable].
//
// An [Evaluator] estimates any mix of tenants: a [Tenant] was measured there, or elsewhere, or is known by its load and
// model only, and then closed forms of queues answer. Measurements are in package profile.
//
// Nothing here touches a GPU. Predictors and profiles may be read concurrently; the same input gives the same bytes.
// Experimental: its API may change.
package predict
