// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"math"
	"strings"
)

// format is a number format with all that a weight takes of scales and zero points.
type format struct {
	bits     float64 // a weight, its part of a scale included
	narrow   float64 // the weight's own
	floating bool
}

// The formats without scales to speak of.
var (
	unquantized = format{bits: 16, narrow: 16, floating: true}
	fp8         = format{bits: 8, narrow: 8, floating: true}
	eight       = format{bits: 8, narrow: 8}
)

// grouped is a format with so many bits of scale and zero point for so many weights; 0 or -1 weights: a row.
func grouped(bits float64, floating bool, group int, each float64) format {
	f := format{bits: bits, narrow: bits, floating: floating}
	if group > 0 {
		f.bits += each / float64(group)
	}
	return f
}

// mxfp4 is that of the OCP Microscaling Formats 1.0.
var mxfp4 = grouped(4, true, 32, 8)

// precision is the format's number.
func (f format) precision() Precision {
	switch {
	case f.narrow > 8:
		return precisionFP16
	case f.narrow > 4 && f.floating:
		return precisionFP8
	case f.narrow > 4:
		return precisionINT8
	case f.floating:
		return precisionFP4
	}
	return precisionINT4
}

func (f format) valid() bool { return f.narrow > 0 && f.bits <= 32 && !math.IsNaN(f.bits) }

// blocks adds the scales of blocks of weights, in 32 bits.
func (q *quantization) blocks(f format) format {
	if len(q.Block) == 2 && q.Block[0] > 0 && q.Block[1] > 0 {
		f.bits += 32 / (float64(q.Block[0]) * float64(q.Block[1]))
	}
	return f
}

// integers is the format of GPTQ, AWQ and AutoRound: a scale of 16 bits and a zero point, stored even where all are
// the same, for each group.
func (q *quantization) integers() format {
	bits := cmp.Or(q.Bits, 4)
	group := 128
	if q.Group != nil {
		group = *q.Group
	}
	return grouped(bits, false, group, 16+bits)
}

// bitsAndBytes is bitsandbytes' format: 8 bits with a scale a row, or 4 with a scale of 32 bits for 64 weights, of 8
// bits where the scales are quantized as well, 256 of them with one of 32.
func (q *quantization) bitsAndBytes() format {
	switch {
	case q.Load8 != nil && *q.Load8:
		return eight
	case q.Load4 != nil && !*q.Load4:
		return unquantized
	case q.Double:
		return format{bits: 4 + 8.0/64 + 32.0/64/256, narrow: 4}
	}
	return grouped(4, false, 64, 32)
}

// byAlgorithm is the format of Model Optimizer's quant_algo; none for one that is not known.
func (q *quantization) byAlgorithm() format {
	name := strings.ToUpper(cmp.Or(q.Algorithm, "FP8"))
	for _, f := range []struct {
		part     string
		bits     float64
		floating bool
		group    int // weights of a scale, unless the file states it
		each     float64
	}{{"NVFP4", 4, true, 16, 8}, {"MXFP4", 4, true, 32, 8}, {"MXFP8", 8, true, 32, 8}, {"W4A", 4, false, 128, 16},
		{"INT4", 4, false, 128, 16}, {"W8A", 8, false, 0, 0}, {"INT8", 8, false, 0, 0}, {"FP8", 8, true, 0, 0}} {
		if strings.Contains(name, f.part) {
			if q.Group != nil {
				f.group = *q.Group
			}
			return grouped(f.bits, f.floating, f.group, f.each)
		}
	}
	return format{}
}

// format is that of a group of compressed-tensors.
func (n *number) format() format {
	group, each := 0, 16.0
	if n.Group != nil {
		group = *n.Group
	}
	floating := n.Type == "float"
	switch {
	case floating && n.Bits == 4 && group == 16, floating && group == 32:
		each = 8
	case !floating && n.Symmetric != nil && !*n.Symmetric:
		each += n.Bits
	}
	return grouped(n.Bits, floating, group, each)
}
