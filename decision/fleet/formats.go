// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"strconv"
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

// The blocks of the OCP Microscaling Formats 1.0.
var (
	mxfp4 = grouped(4, true, 32, 8)
	mxfp8 = grouped(8, true, 32, 8)
)

// precision is the format's number.
func (f format) precision() Precision {
	switch {
	case f.narrow > 8:
		return PrecisionFP16
	case f.narrow > 4 && f.floating:
		return PrecisionFP8
	case f.narrow > 4:
		return PrecisionINT8
	case f.floating:
		return PrecisionFP4
	}
	return PrecisionINT4
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

// byAlgorithm is the format of Model Optimizer's quant_algo.
func (q *quantization) byAlgorithm(name string) (format, bool) {
	group := func(otherwise int) int {
		if q.Group != nil {
			return *q.Group
		}
		return otherwise
	}
	switch name = strings.ToUpper(name); {
	case strings.Contains(name, "NVFP4"):
		return grouped(4, true, group(16), 8), true
	case strings.Contains(name, "MXFP4"):
		return grouped(4, true, group(32), 8), true
	case strings.Contains(name, "MXFP8"):
		return grouped(8, true, group(32), 8), true
	case strings.HasPrefix(name, "W4A") || strings.HasPrefix(name, "INT4"):
		return grouped(4, false, group(128), 16), true
	case strings.HasPrefix(name, "W8A") || strings.HasPrefix(name, "INT8"):
		return eight, true
	case strings.HasPrefix(name, "FP8"):
		return fp8, true
	}
	return format{}, false
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

// hqq is the format of HQQ: a scale and a zero point of 16 bits each a group.
func (q *quantization) hqq() format {
	of := struct {
		Bits  float64 `json:"nbits"`
		Group int     `json:"group_size"`
	}{4, 64}
	nested := struct {
		Weights json.RawMessage `json:"weight_quant_params"`
	}{}
	if json.Unmarshal(q.HQQ, &nested) == nil && len(nested.Weights) > 0 {
		_ = json.Unmarshal(nested.Weights, &of)
	} else {
		_ = json.Unmarshal(q.HQQ, &of)
	}
	return grouped(of.Bits, false, of.Group, 32)
}

// torchAO is the format of a torchao configuration, by its name.
func (q *quantization) torchAO() (format, bool) {
	var name string
	if json.Unmarshal(q.Type, &name) == nil {
		return named(name, q.Group)
	}
	var of struct {
		Default struct {
			Type string `json:"_type"`
			Data struct {
				Group *int `json:"group_size"`
			} `json:"_data"`
		} `json:"default"`
	}
	_ = json.Unmarshal(q.Type, &of)
	return named(of.Default.Type, of.Default.Data.Group)
}

var bitsInName = regexp.MustCompile(`(int|uint|float|fp)_?(\d+)`)

// named is the format with its kind and bits in a name: int4_weight_only, Float8DynamicActivationFloat8WeightConfig,
// fp8_e4m3, qint8, fp4.
func named(name string, group *int) (format, bool) {
	all := bitsInName.FindAllStringSubmatch(strings.ToLower(name), -1)
	if len(all) == 0 {
		return format{}, false
	}
	found := all[len(all)-1]
	bits, _ := strconv.ParseFloat(found[2], 64)
	floating := found[1] == "float" || found[1] == "fp"
	each, of := 32.0, 0
	if floating {
		each = 8
	}
	if group != nil {
		of = *group
	} else if bits <= 4 {
		if of = 128; floating {
			of = 32
		}
	}
	f := grouped(bits, floating, of, each)
	return f, f.valid()
}
