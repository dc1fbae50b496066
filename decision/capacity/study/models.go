package study

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/strictyaml"
)

// model is a model that was measured, described, or both.
type model struct {
	name  string
	shape *costs.Model // nil = not described: by the size in its name
	solos []profile.Solo
	loads []profile.Load
}

// readModels reads what is described and what was measured, sorted by name. The built-in scenario has models of its
// own.
func (s *Study) readModels(opts Options) ([]model, error) {
	var errs []error
	byName := map[string]*model{} // in lower case
	for _, text := range opts.Models {
		name, of, ok := strings.Cut(text, "=")
		if !ok || name == "" || of == "" {
			errs = append(errs, fmt.Errorf("model: %q: write llama-8b=config.json or llama-8b=params:8e9,bf16", text))
			continue
		}
		shape, err := s.describe(name, of)
		if err != nil {
			errs = append(errs, fmt.Errorf("model: %s: %w", name, err))
		}
		key := strings.ToLower(name)
		if byName[key] != nil {
			errs = append(errs, fmt.Errorf("model: %s: is described twice (name each once)", name))
		}
		byName[key] = &model{name: name, shape: &shape}
	}
	if opts.Fleet != "" {
		fleet, err := decision.LoadFleet(opts.Fleet)
		if err != nil {
			return nil, errors.Join(append(errs, fmt.Errorf("fleet: %w", err))...)
		}
		for i := range fleet.Workloads {
			w := &fleet.Workloads[i]
			if key := strings.ToLower(w.Name); w.Model != nil && byName[key] == nil {
				shape, err := s.ofFleet(w)
				if err != nil {
					errs = append(errs, fmt.Errorf("fleet: %s: %w", w.Name, err))
				}
				byName[key] = &model{name: w.Name, shape: &shape}
			}
		}
		if len(byName) == 0 {
			errs = append(errs, fmt.Errorf("fleet: %s: no workload states its model", opts.Fleet))
		}
	}
	if opts.Profiles != "" || opts.Trace == "" && len(byName) == 0 && len(errs) == 0 {
		measured, err := readProfiles(opts.Profiles)
		errs = append(errs, err)
		for i := range measured {
			key := strings.ToLower(measured[i].name)
			if of := byName[key]; of != nil {
				measured[i].name, measured[i].shape = of.name, of.shape
			}
			byName[key] = &measured[i]
		}
	}
	var out []model
	for _, key := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, *byName[key])
	}
	return out, errors.Join(errs...)
}

const maxConfig = 4 << 20 // bytes of a config.json

// describe reads a model's shape from a file, or from text such as "params:30e9,fp8,active:3e9".
func (s *Study) describe(name, of string) (costs.Model, error) {
	text, sized := strings.CutPrefix(of, "params:")
	if !sized {
		data, err := strictyaml.ReadFile(of, strictyaml.Options{MaxBytes: maxConfig})
		if err != nil {
			return costs.Model{}, err
		}
		m, err := costs.ParseModelConfig(data)
		if err != nil {
			return m, fmt.Errorf("%s: %w", of, err)
		}
		return m, nil
	}
	fields := strings.Split(text, ",")
	parameters, err := strconv.ParseFloat(fields[0], 64)
	if err != nil || !(parameters >= 1e6 && parameters <= 1e14) {
		return costs.Model{}, fmt.Errorf("params:%s: write the number of parameters, like params:7e9", fields[0])
	}
	m, err := s.sized(name, parameters)
	if err != nil {
		return m, err
	}
	for _, field := range fields[1:] {
		bits, known := precisions[field]
		active, mixture := strings.CutPrefix(field, "active:")
		switch {
		case known:
			m.WeightBits, m.ActivationBits = bits[0], bits[1]
		case mixture:
			if m.Active, err = strconv.ParseFloat(active, 64); err != nil || !(m.Active > 0 && m.Active <= parameters) {
				return m, fmt.Errorf("active:%s: write how many of the parameters one token uses, like active:3e9", active)
			}
		default:
			return m, fmt.Errorf("%q: use active:NUMBER or one of %s", field,
				strings.Join(slices.Sorted(maps.Keys(precisions)), ", "))
		}
	}
	return m, nil
}

// precisions are the bits of weights and activations by the names that people give them.
var precisions = map[string][2]int{
	"fp16": {}, "bf16": {}, "fp8": {8, 8}, "int8": {8, 8}, "fp4": {4, 4}, "nvfp4": {4, 4}, "mxfp4": {4, 0}, "int4": {4, 0},
	"awq": {4, 0}, "gptq": {4, 0},
}

// ofFleet is the shape that a fleet's workload states, the rest of it that of a known model of the size.
func (s *Study) ofFleet(w *decision.Workload) (costs.Model, error) {
	f := w.Model
	m, err := s.sized(w.Name, float64(f.Parameters))
	bits := precisions[f.Weights.String()]
	m.WeightBits, m.ActivationBits, m.Active = bits[0], bits[1], float64(f.Active)
	m.KVBits = precisions[f.KVDtype.String()][0]
	layers, stated := f.Layers.Get()
	if heads, ok := f.KVHeads.Get(); ok && stated {
		if dim, ok := f.HeadDim.Get(); ok {
			m.Layers, m.KVHeads, m.HeadDim = layers, heads, dim
			return m, nil
		}
	}
	return m, err
}

// sized is the shape of a known model of about so many parameters.
func (s *Study) sized(name string, parameters float64) (costs.Model, error) {
	near, m := shapeFor(parameters / 1e9)
	m.Parameters = parameters
	if r := parameters / 1e9 / near; r > 2 || r < 0.5 {
		return m, fmt.Errorf("no model of about %.3g parameters is known here: give its config.json", parameters)
	}
	s.note("%s: layers and KV heads are those of dense models of %gB; its config.json says its own", name, near)
	return m, nil
}

// nearest returns the one profile whose load is nearest to the mean lengths, by the
// sum of the logarithms of their ratios.
func (m *model) nearest(in, out float64) []profile.Solo {
	if len(m.solos) == 0 {
		return nil
	}
	best, least := 0, math.Inf(1)
	for i, l := range m.loads {
		d := math.Abs(math.Log(float64(l.Prompt)/in)) + math.Abs(math.Log(float64(l.Output)/out))
		if d < least {
			best, least = i, d
		}
	}
	return m.solos[best : best+1]
}

// shapes lists models by their size in billions of parameters, with the layers of the
// Llama and Qwen families (their config.json on Hugging Face).
var shapes = []struct {
	billions float64
	shape    costs.Model
}{
	{0.16, shape(0.162e9, 12, 4, 64, 768, 12, 2048)},
	{0.5, shape(0.494e9, 24, 2, 64, 896, 14, 4864)},
	{1, shape(1.24e9, 16, 8, 64, 2048, 32, 8192)},
	{3, shape(3.21e9, 28, 8, 128, 3072, 24, 8192)},
	{8, shape(8.03e9, 32, 8, 128, 4096, 32, 14336)},
	{14, shape(14.8e9, 48, 8, 128, 5120, 40, 13824)},
	{32, shape(32.8e9, 64, 8, 128, 5120, 40, 27648)},
	{70, shape(70.6e9, 80, 8, 128, 8192, 64, 28672)},
}

func shape(parameters float64, layers, kvHeads, headDim, hidden, heads, intermediate int) costs.Model {
	return costs.Model{
		Parameters: parameters, Layers: layers, KVHeads: kvHeads, HeadDim: headDim,
		Hidden: hidden, Heads: heads, Intermediate: intermediate,
	}
}

// shapeFor is the known size that is nearest to one in billions, and its shape.
func shapeFor(billions float64) (float64, costs.Model) {
	best := shapes[0]
	for _, s := range shapes {
		if math.Abs(math.Log(s.billions/billions)) < math.Abs(math.Log(best.billions/billions)) {
			best = s
		}
	}
	return best.billions, best.shape
}

// A size between two known ones takes the nearer shape, scaled within these ratios.
const leastScale, mostScale = 0.6, 1.5

var sizeInName = regexp.MustCompile(`(?i)(?:^|[^0-9a-z.])([0-9]+(?:\.[0-9]+)?)([bm])(?:[^0-9a-z]|$)`)

// shapeOf returns the shape of the nearest known size, by the size in a measured model's name.
func shapeOf(name string) (costs.Model, error) {
	m := sizeInName.FindStringSubmatch(name)
	if m == nil {
		return costs.Model{}, fmt.Errorf("model %q: its size is not in its name; describe it with -model %s=config.json",
			name, name)
	}
	size, err := strconv.ParseFloat(m[1], 64)
	if err != nil || size <= 0 {
		return costs.Model{}, fmt.Errorf("model %q: %s is no size", name, m[1])
	}
	if strings.EqualFold(m[2], "m") {
		size /= 1000
	}
	near, shape := shapeFor(size)
	scale := size / near
	if scale > mostScale || scale < leastScale {
		return costs.Model{}, fmt.Errorf("model %q: the shape of models of %gB is not known here", name, size)
	}
	shape.Parameters *= scale
	return shape, nil
}

// pick gives the tenants of the trace their models: those of the names that it has, or all of them where it names
// none. Nothing stands in for a model that is neither described nor measured.
func (s *Study) pick(models []model) ([]model, error) {
	if len(s.models) == 0 || len(s.models) == 1 && s.models[0] == "" {
		if len(models) == 0 {
			return nil, errors.New("trace: it names no model, and none is described or measured: give -model NAME=config.json " +
				"(Hugging Face's) or -model NAME=params:7e9,bf16, or -profiles")
		}
		return models, nil
	}
	var out []model
	var missing, known []string
	for _, m := range models {
		known = append(known, m.name)
	}
	for _, name := range s.models {
		at := slices.IndexFunc(models, func(m model) bool { return strings.EqualFold(m.name, name) })
		if at < 0 {
			missing = append(missing, strconv.Quote(name))
			continue
		}
		out = append(out, models[at])
	}
	if len(missing) > 0 {
		name, others := cmp.Or(strings.Trim(missing[0], `"`), "NAME"), ""
		if len(known) > 0 {
			others = "; known are " + strings.Join(known, ", ")
		}
		return nil, fmt.Errorf("trace: neither described nor measured: %s; describe each with -model %s=config.json "+
			"(Hugging Face's) or -model %s=params:7e9,bf16, or give -profiles of it%s", strings.Join(missing, ", "), name, name,
			others)
	}
	return out, nil
}
