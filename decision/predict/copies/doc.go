// SPDX-License-Identifier: Apache-2.0

// Package copies predicts the rate and latency of several copies of one server on one GPU, relative to those of a
// single copy, for 1 to 8 copies under time-slicing, MPS, MIG, HAMi, or as instances of one process, from figures of
// the single copy. It answers whether a second copy pays, for servers of any kind, with or without tokens.
//
// A step of a server has a part on the host and a part on the GPU. One copy's host part overlaps other copies' GPU
// parts, which is the only gain of time-slicing; under MPS and in one process kernels also run at the same time, as far
// as SMs and bandwidth allow. Cores of the host are a second resource.
//
// The constants are fitted on published figures and on two series on H200 (testdata, each row with its source). The
// width of intervals comes from the errors on sources left out of the fit.
//
// Functions are safe for concurrent use. Experimental: its API may change.
package copies
