// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// scheme assigns a format to each module.
type scheme struct {
	all     format
	skip    rules
	some    rules // that have a format of their own
	head    bool  // the output's embedding is quantized like other modules
	experts bool  // only experts are quantized
	only    bool  // only those of some are
}

// of is the format of a module.
func (s *scheme) of(m *module, prefixes []string) format {
	if !m.linear || s.experts && !strings.Contains(m.name, ".experts.") {
		return unquantized
	}
	if m.head && !s.head {
		return unquantized
	}
	parts, whole := m.names(prefixes)
	if f, is := s.skip.of(parts, whole); is {
		return f
	}
	if f, is := s.some.of(parts, whole); is {
		return f
	}
	if s.only {
		return unquantized
	}
	return s.all
}

// rules give modules a format by names of modules or of their parents, globs and regular expressions, the first that
// matches. Checkpoints have lists of many thousand names.
type rules struct {
	names    map[string]rule
	patterns []rule
}

type rule struct {
	nth     int
	pattern *regexp.Regexp
	format  format
}

func (r *rules) len() int { return len(r.names) + len(r.patterns) }

// add reads a name, a glob, or after re: an expression from the name's start; false if it cannot.
func (r *rules) add(text string, f format) bool {
	is := rule{nth: r.len(), format: f}
	pattern, expression := strings.CutPrefix(text, "re:")
	switch {
	case expression:
		pattern = "^(?:" + pattern + ")"
	case strings.Contains(text, "*"):
		open := strings.TrimRight(text, "*")
		pattern = "^" + strings.ReplaceAll(regexp.QuoteMeta(open), `\*`, ".*")
		if open == text {
			pattern += `(?:\..*)?$`
		}
	default:
		if r.names == nil {
			r.names = map[string]rule{}
		}
		if _, there := r.names[text]; !there {
			r.names[text] = is
		}
		return true
	}
	var err error
	if is.pattern, err = regexp.Compile(pattern); err == nil {
		r.patterns = append(r.patterns, is)
	}
	return err == nil
}

// of finds the format of a module by the parts of its name and its whole names.
func (r *rules) of(parts, whole []string) (format, bool) {
	first := rule{nth: math.MaxInt}
	for _, part := range parts {
		if is, there := r.names[part]; there && is.nth < first.nth {
			first = is
		}
	}
	for _, is := range r.patterns {
		if is.nth < first.nth && slices.ContainsFunc(whole, is.pattern.MatchString) {
			first = is
		}
	}
	return first.format, first.nth < math.MaxInt
}

// fused are the names under which servers join matrices.
var fused = map[string]string{"q_proj": "qkv_proj", "k_proj": "qkv_proj", "v_proj": "qkv_proj",
	"gate_proj": "gate_up_proj", "up_proj": "gate_up_proj"}

// names are the whole names of a module, and all parts of them that may name it or its parents.
func (m *module) names(prefixes []string) (parts, whole []string) {
	names := []string{m.name}
	at := strings.LastIndexByte(m.name, '.') + 1
	if joined := fused[m.name[at:]]; joined != "" {
		names = append(names, m.name[:at]+joined)
	}
	for _, name := range names {
		steps := strings.Split(name, ".")
		for i := range steps {
			for j := i + 1; j <= len(steps); j++ {
				parts = append(parts, strings.Join(steps[i:j], "."))
			}
		}
		for _, prefix := range prefixes {
			whole = append(whole, prefix+name)
			for j := 1; j <= len(steps); j++ {
				parts = append(parts, prefix+strings.Join(steps[:j], "."))
			}
		}
	}
	return parts, whole
}

// prefixes are those of a checkpoint's modules, of one that reads images too.
func (d *decoder) prefixes() []string {
	if d.Vision == nil && !d.within {
		return []string{"model.", "", "backbone."}
	}
	return []string{"model.", "", "model.language_model.", "language_model.model.", "language_model."}
}

// scheme reads the formats of the modules; the notes name parts that are not understood.
func (d *decoder) scheme() (*scheme, error) {
	q := d.Quantization
	if q == nil {
		return &scheme{all: unquantized}, nil
	}
	if q.Nested != nil {
		method := q.Method
		q = q.Nested
		q.Method = cmp.Or(q.Method, method)
	}
	s := &scheme{}
	for _, name := range slices.Concat(q.NotConverted, q.Skipped, q.Ignore, q.IgnoredLayers, q.ExcludeModules) {
		d.rule(&s.skip, name, unquantized)
	}
	switch method := strings.ToLower(q.Method); method {
	case "fp8", "fbgemm_fp8", "deepseek_fp8":
		s.all = fp8
		if b := q.Block; len(b) == 2 && b[0] > 0 && b[1] > 0 { // each has a scale of 32 bits
			s.all.bits += 32 / (float64(b[0]) * float64(b[1]))
		}
	case "gptq", "gptq_marlin", "awq", "awq_marlin":
		// A scale of 16 bits and a zero point, stored even where all are the same, for each group; AutoRound's too.
		bits, group := cmp.Or(q.Bits, 4), 128
		if q.Group != nil {
			group = *q.Group
		}
		s.all, s.head = grouped(bits, false, group, 16+bits), q.Head
	case "bitsandbytes":
		s.all = q.bitsAndBytes()
	case "mxfp4":
		s.all, s.experts = mxfp4, true
	case "modelopt", "modelopt_fp4", "modelopt_mxfp8":
		s.head = true
		if d.groups(q, s); !s.all.valid() && !s.only {
			s.all = q.byAlgorithm()
		}
	case "compressed-tensors", "compressed_tensors":
		d.groups(q, s)
		s.head = true
	default:
		return nil, &problem.Problem{Path: "quantization_config.quant_method", Remedy: "state weights next to config",
			Message: fmt.Sprintf("%q is not read here", problem.Clip(method))}
	}
	if !s.all.valid() && !s.only || !absent(q.Dynamic) || !absent(q.ByLayer) {
		return nil, &problem.Problem{Path: "quantization_config", Remedy: "state weights next to config",
			Message: fmt.Sprintf("the format of the weights of %s is not read here", problem.Clip(q.Method))}
	}
	return s, nil
}

// absent reports a field that is missing, null or empty.
func absent(field json.RawMessage) bool {
	return slices.Contains([]string{"", "null", "{}"}, string(field))
}

// rule adds one, or notes that it is not understood.
func (d *decoder) rule(r *rules, name string, f format) {
	if !r.add(name, f) {
		d.note("quantization_config: the pattern %q is not understood and was taken for none", problem.Clip(name))
	}
}

// groups reads the groups of compressed-tensors: those of all matrices last, after those of some.
func (d *decoder) groups(q *quantization, s *scheme) {
	for _, name := range slices.Sorted(maps.Keys(q.Groups)) {
		g := q.Groups[name]
		if g.Weights == nil {
			continue
		}
		f := g.Weights.format()
		for _, target := range g.Targets {
			if target == "Linear" {
				s.all = f
				continue
			}
			d.rule(&s.some, target, f)
		}
		if len(g.Targets) == 0 {
			s.all = f
		}
	}
	s.only = s.all.bits == 0 && s.some.len() > 0
}

// kv is the precision of the KV cache that the checkpoint asks for, and under which name.
func (d *decoder) kv() (Precision, string) {
	q := d.Quantization
	if q == nil {
		return "", ""
	}
	if q.Nested != nil {
		q = q.Nested
	}
	name := strings.ToLower(q.KVAlgorithm)
	for _, p := range []Precision{precisionFP4, precisionFP8, precisionINT8} {
		if strings.Contains(name, string(p)) {
			return p, "kv_cache_quant_algo"
		}
	}
	if name != "" && name != "none" {
		d.note("kv_cache_quant_algo %q is not understood: a KV cache of 16 bits was counted", problem.Clip(q.KVAlgorithm))
	}
	if n := q.KVScheme; n != nil {
		if f := n.format(); f.valid() && f.narrow < 16 {
			return f.precision(), "kv_cache_scheme"
		}
		d.note("kv_cache_scheme is not understood: a KV cache of 16 bits was counted")
	}
	return "", ""
}

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
