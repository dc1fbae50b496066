// SPDX-License-Identifier: Apache-2.0

// Package costs holds the constants of predictions, each with unit, uncertainty, basis and source: those of sharing a
// GPU ([Table]), and those of model servers without measurements ([Priors]).
package costs

import "math"

// OnSlice returns the factor by which work that fills a share of a GPU's SMs takes longer on a part of them: none
// where it finds room, and in proportion where it does not (the roofline model of Williams, Waterman and Patterson,
// Communications of the ACM 52, 2009, over SMs).
func OnSlice(fills, sms float64) float64 { return max(1, min(1, fills)/sms) }

// SliceSlowdown returns the factor by which work is slower on a slice with shares of a GPU's SMs and memory
// bandwidth than on the whole of it, and that of decoding, which is bound by bandwidth; priors.
func SliceSlowdown(sms, bandwidth float64) (other, decoding float64) {
	return OnSlice(Medians[SliceOther], sms), math.Pow(1/bandwidth, Medians[SliceDecoding])
}

// PrefillOnSlice returns the factor by which the GPU's part of a long prompt's prefill takes longer on a part of the
// SMs.
func PrefillOnSlice(sms float64) float64 { return OnSlice(slicePrefill, sms) }

var slicePrefill = Table.Unmeasured.SlicePrefill.Value

// A step or a prefill, in ms, that makes sense: not shorter than a kernel and not longer than an hour.
const ShortestPart, LongestPart = 1e-3, 3.6e6

// UsualSlots is the size of the batch of a server that does not state it, unless its profile shows more.
const UsualSlots = 16
