// Package predict says what workloads will see beside others on one GPU, from measurements of each of them alone:
// latency and throughput under time-slicing and MPS, with intervals.
//
// A [SoloProfile] is what was measured of one workload alone; [Profiles] is a set of them, read with [LoadProfiles]
// from a list of profiles or from rows in the co-location format. [Profiles.Solo] collects what is known of a workload,
// and [Predictor.Predict] takes a group of those and answers for each tenant, by a simulation of the serving engines or
// by closed forms.
//
// [NewPredictor] returns a Predictor with the physical constants of an H200, [Predictor.Fit] one that is calibrated on
// measured rows; its JSON form keeps the constants, each with unit, plausible range, basis and source, and the errors
// to expect. Every interval is to hold the measured value with a probability of 90%. What cannot be predicted is an
// error that says why: [ErrNoProfile], [ErrOtherGPU], [ErrUnpredictable].
//
// [FitSlice] fits a simpler curve: a workload's latency on MIG slices.
//
// A [Cluster] is GPUs with replicas of services on them and routers in front: [Cluster.Play] plays a trace of requests
// against it, with KV caches that fill up, shared prefixes, prompts in chunks, LoRA adapters and servers that sleep,
// and [Cluster.Foresee] adds what uncertain costs leave open. [NewEngine] is a server of which nothing was measured. A
// [Router] works outside the simulation too.
//
// Nothing here touches a GPU. Predictors and profiles may be read concurrently; the same input gives the same bytes.
//
// Experimental: its API may change.
package predict
