// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// ParseModelConfig reads a model from Hugging Face's config.json: layers, heads, experts, windows, states and
// quantization; the parameters and bytes are counted module by module, and missing fields have the defaults of the
// model type. Notes name parts that were not understood. The error names every required field that is missing or
// invalid. A model of a fleet file that names a config is read so; see [ParseFleet].
func ParseModelConfig(data []byte) (LanguageModel, error) { return readModel(data, "") }

// readModel reads a model's config; the precision of its weights may be stated otherwise.
func readModel(data []byte, stated Precision) (LanguageModel, error) {
	c, notes, err := decodeConfig(data)
	if err != nil {
		return LanguageModel{}, err
	}
	d := decoder{modelConfig: c, notes: notes}
	d.family, _ = familyOf(c.ModelType)
	if err := d.check(); err != nil {
		return LanguageModel{}, err
	}
	if err := d.count(); err != nil {
		return LanguageModel{}, err
	}
	return d.model(stated)
}

// decodeConfig reads the fields, of a model that reads images as well those of its language model, over those of its
// class.
func decodeConfig(data []byte) (*modelConfig, []string, error) {
	if t := bytes.TrimSpace(data); bytes.HasPrefix(t, []byte("<")) {
		return nil, nil, &problem.Problem{Message: "is a page in HTML, as a login gives, and no config.json",
			Remedy: "download it with a token"}
	}
	data = pythonNumber.ReplaceAll(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), []byte("${1}null"))
	var outer, c modelConfig
	if err := unmarshal(data, &outer, ""); err != nil {
		return nil, nil, err
	}
	text, within := data, ""
	for i, part := range []json.RawMessage{outer.Text, outer.LLM} { // of two the latter
		if len(part) > 0 && !bytes.Equal(part, []byte("null")) {
			text, within = part, []string{"text_config.", "llm_config."}[i]
		}
	}
	var named struct {
		ModelType string `json:"model_type"`
	}
	if err := unmarshal(text, &named, within); err != nil {
		return nil, nil, err
	}
	c.ModelType = cmp.Or(named.ModelType, outer.ModelType)
	f, known := familyOf(c.ModelType)
	if f.Defaults != nil {
		if err := unmarshal(f.Defaults, &c, ""); err != nil {
			return nil, nil, err
		}
		if within == "" { // the sizes are always in a file of its own
			c.Layers, c.Hidden, c.Heads, c.Vocabulary, c.Intermediate = 0, 0, 0, 0, nil
		}
	}
	if err := unmarshal(text, &c, within); err != nil {
		return nil, nil, err
	}
	c.ModelType = cmp.Or(c.ModelType, outer.ModelType)
	c.Quantization = cmp.Or(c.Quantization, outer.Quantization)
	c.Vision, c.Audio, c.within = outer.Vision, outer.Audio, within != ""
	if outer.Tied != nil {
		c.Tied = outer.Tied
	}
	c.Type, c.OldType = cmp.Or(c.Type, outer.Type), cmp.Or(c.OldType, outer.OldType)
	if known {
		return &c, nil, nil
	}
	note, err := c.stranger(text)
	return &c, note, err
}

// unmarshal decodes one object; the error names the field.
func unmarshal(data []byte, c any, within string) error {
	var odd *json.UnmarshalTypeError
	if err := json.Unmarshal(data, c); errors.As(err, &odd) && odd.Field != "" {
		return &problem.Problem{Path: within + odd.Field, Remedy: instead,
			Message: fmt.Sprintf("is a %s and must be of type %v", odd.Value, odd.Type.Kind())}
	} else if err != nil {
		return &problem.Problem{Message: fmt.Sprintf("is no config.json: %v", err),
			Remedy: "download it again, or " + instead}
	}
	return nil
}

// pythonNumber matches the numbers that Python's json writes and JSON does not have, where a value begins.
var pythonNumber = regexp.MustCompile(`([:\[,]\s*)-?(?:Infinity|NaN)\b`)

// unlike are parts of the names of fields that a decoder of grouped heads does not have.
var unlike = []string{"mamba", "ssm", "state_size", "conv_", "lightning", "recurrent", "rwkv", "retention", "compress",
	"linear_", "cross_attention_layers", "attn_type", "attention_type", "block_type", "hybrid", "index_", "time_",
	"kv_lora", "sparse_attention"}

// stranger reports that a model type is not known, of a config that has all fields of a decoder with grouped heads.
func (c *modelConfig) stranger(text []byte) ([]string, error) {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(text, &fields)
	odd := ""
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if slices.ContainsFunc(unlike, func(part string) bool { return strings.Contains(name, part) }) {
			odd = cmp.Or(odd, name)
		}
	}
	if c.ModelType == "" || c.KVHeads == nil || c.Layers == 0 || c.Hidden == 0 || c.Heads == 0 || odd != "" {
		because := ""
		if odd != "" {
			because = fmt.Sprintf(" (it has %s)", problem.Clip(odd))
		}
		return nil, &problem.Problem{Path: "model_type", Remedy: instead,
			Message: fmt.Sprintf("%q is an architecture that is not read here%s: known are %s", problem.Clip(c.ModelType),
				because, strings.Join(slices.Sorted(slices.Values(familyNames())), ", "))}
	}
	return []string{fmt.Sprintf("model_type %q is not known: it was counted as a decoder with grouped heads and gated "+
		"feed-forwards, as its fields have it", problem.Clip(c.ModelType))}, nil
}

// model returns the counted model in the checkpoint's formats, or in the stated one.
func (d *decoder) model(stated Precision) (LanguageModel, error) {
	c := d.modelConfig
	kv, dim := d.heads(true)
	if c.KVRank > 0 {
		kv, dim = 1, (c.KVRank+c.RopeDim+1)/2 // one vector in the place of a key and a value
	}
	m := LanguageModel{Cache: d.cache}
	m.Layers, m.KVHeads, m.HeadDim = sharing.Some(c.Layers), sharing.Some(kv), sharing.Some(dim)
	s, err := d.scheme()
	if err != nil && stated == "" {
		return LanguageModel{}, err
	} else if err != nil {
		s = &scheme{all: unquantized}
	}
	sizes := map[Precision]float64{}
	var all, read, bytes, bytesRead, kept, rows float64
	prefixes := d.prefixes()
	for i := range d.modules {
		part := &d.modules[i]
		f := s.of(part, prefixes)
		all, read = all+part.size, read+part.read
		bytes, bytesRead = bytes+part.size*f.bits/8, bytesRead+part.read*f.bits/8
		if part.linear {
			sizes[f.precision()] += part.size
		}
		if !part.linear || part.head || s.all != unquantized && f == unquantized {
			kept, rows = kept+part.size, rows+part.size-part.read
		}
	}
	tower := d.tower()
	m.Parameters, m.Active, m.Unquantized, m.Embedding = int64(all), int64(read), int64(kept), int64(rows)
	m.Towers = sharing.Bytes(2 * tower)
	m.Weights = stated
	if stated == "" {
		m.Size, m.ActiveSize = sharing.Bytes(math.Ceil(bytes+2*tower)), sharing.Bytes(math.Ceil(bytesRead))
		for _, p := range precisions {
			if sizes[p] > sizes[m.Weights] {
				m.Weights = p
			}
		}
		if m.Weights == precisionFP16 && cmp.Or(c.Type, c.OldType) == "bfloat16" {
			m.Weights = precisionBF16
		}
	}
	field := ""
	if m.KVDtype, field = d.kv(); m.KVDtype != "" {
		d.note(kvAsked+"%s was counted, as %s asks; servers that do not follow it, such as vLLM before December 2025, keep "+
			"16 bits unless configured (state kv_dtype: fp16 for those)", m.KVDtype, field)
	}
	if n := max(c.Predicted, c.PredictedToo); n > 0 {
		d.note("what predicts further tokens (%d more layers) is not counted: servers load it for speculative "+
			"decoding only", n)
	}
	if len(c.Audio) > 0 && string(c.Audio) != "null" {
		d.note("audio_config is not read: the weights of its encoder of sound are not counted")
	}
	if c.IndexDim > 0 {
		d.note("its KV cache was counted in 16 bits with 8-bit keys of the indexer; vLLM keeps 656 bytes a token and layer "+
			"instead of %d, unless --kv-cache-dtype is bfloat16", 2*(c.KVRank+c.RopeDim))
	}
	m.Notes = d.notes
	return m, nil
}

// take fills in figures that the model does not state from those of its config. If parameters are stated, the config's
// count isn't used.
func (m *LanguageModel) take(c *LanguageModel) {
	if m.Parameters == 0 {
		m.Parameters, m.Active = c.Parameters, cmp.Or(m.Active, c.Active)
		m.Unquantized, m.Embedding, m.Towers = c.Unquantized, c.Embedding, c.Towers
		m.Size, m.ActiveSize = c.Size, c.ActiveSize
	}
	m.Weights = cmp.Or(m.Weights, c.Weights)
	if m.Layers.IsZero() && m.KVHeads.IsZero() && m.HeadDim.IsZero() {
		m.Layers, m.KVHeads, m.HeadDim, m.Cache = c.Layers, c.KVHeads, c.HeadDim, c.Cache
	}
	m.Notes = c.Notes
	if m.KVDtype != "" {
		m.Notes = slices.DeleteFunc(slices.Clone(c.Notes), func(note string) bool { return strings.HasPrefix(note, kvAsked) })
	}
	m.KVDtype = cmp.Or(m.KVDtype, c.KVDtype)
}

// readConfigs fills in the models of a fleet that name a config.json.
func (f *Fleet) readConfigs(readFile func(name string) ([]byte, error)) error {
	var l problem.List
	for i := range f.Workloads {
		m, at := f.Workloads[i].Model, fmt.Sprintf("workloads[%d].model.config", i)
		if m == nil || m.Config == "" {
			continue
		}
		if readFile == nil {
			l.Addf(at, "name the fleet as a file, give ParseFleet a way to open files, or "+instead,
				"%s cannot be opened: the fleet was read from text", problem.Clip(m.Config))
			continue
		}
		data, err := readFile(m.Config)
		if err != nil {
			l.Addf(at, "write the path from the fleet's file to the model's config.json", "%v", err)
			continue
		}
		c, err := readModel(data, m.Weights)
		var odd problem.List
		odd.AddErr("", err)
		for _, p := range odd.Problems() {
			l.Addf(at, p.Remedy, "%s: %s", m.Config, (&problem.Problem{Path: p.Path, Message: p.Message}).Error())
		}
		if err == nil {
			m.take(&c)
		}
	}
	return l.Err()
}

// ConfigNotes returns LanguageModel.Notes of the workload's model, with the name of its config.
func (w *Workload) ConfigNotes() (notes []string) {
	if w.Adapters != nil && w.adaptersOnGPU() < w.Adapters.Count {
		notes = append(notes, fmt.Sprintf("%s: memory is counted for %d of its %d adapters on the GPU at once (max_loras), "+
			"the others wait in host memory", w.Name, w.adaptersOnGPU(), w.Adapters.Count))
	}
	if w.Model == nil || w.Model.Config == "" {
		return notes
	}
	for _, note := range w.Model.Notes {
		notes = append(notes, w.Model.Config+": "+note)
	}
	return notes
}

// kvAsked begins the note about a KV cache that the checkpoint asks for.
const kvAsked = "a KV cache in "
