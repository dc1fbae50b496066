// Package predict says what workloads will see beside others on one GPU, from
// measurements of each of them alone: latency and throughput under time-slicing
// and MPS, with intervals, by a simulation of their serving engines or by
// closed forms.
//
// Where the profiles come from is the caller's business: a file of rows in the
// co-location format ([ParseRows]) or a list of profiles ([ParseProfiles]). A
// [Predictor] starts from physical constants ([NewPredictor]) and can be
// calibrated on measurements ([Predictor.Fit]). Every interval holds the
// measured value with a probability of 90%; what cannot be predicted is an
// error that says why.
//
// The package touches no GPU, and everything in it that only reads may be
// called concurrently. Same input, same bytes out.
package predict
