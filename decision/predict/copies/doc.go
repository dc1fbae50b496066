// SPDX-License-Identifier: Apache-2.0

// Package copies predicts the rate and latency of several copies of one server on one GPU, relative to those of a
// single copy, for 1 to 8 copies under time-slicing, MPS, MIG, HAMi, or as instances of one process, from figures
// of the single copy. It answers "does a second copy pay" for servers of any kind, with or without tokens.
//
// A step of a server is a part on the host and a part on the GPU. Copies overlap the one with the other of their
// siblings, which is all that time-slicing gains; under MPS and in one process kernels also run at the same time, as
// far as they leave SMs and bandwidth to others. Cores of the host are a second resource.
//
// The constants are fitted on published figures and on two series on H200 (testdata, each row with its source).
// Intervals are as wide as the errors on sources that were left out of the fit.
//
// Functions may be called concurrently. Experimental: its API may change.
package copies
