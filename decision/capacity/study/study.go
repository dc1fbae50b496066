package study

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/predict"
)

// The built-in scenario: the arrivals and lengths of the first 200 requests of Azure's public trace of
// conversations of 2023 (github.com/Azure/AzurePublicDataset, CC-BY 4.0), profiles of a 1B and an 8B server with
// random weights measured on an H100, and prices that are only examples.
var (
	//go:embed builtin/azure2023-conv.csv
	builtinTrace []byte
	//go:embed builtin/profiles.json
	builtinProfiles []byte
	builtinGPUs     = []string{"L40S=0.90", "A100-SXM4-80GB=1.80", "H100-SXM5-80GB=2.90"}
)

const (
	BuiltinSLO = "ttft_p99=1s,tpot_p99=60ms,share=0.98" // the objectives of an empty Options.SLO

	builtinRequests = 2000
	builtinPerS     = 8 // requests a second at load 1: the trace's own rate is that of a quiet minute
)

const fewRequests = 100 // so few that none is in the slowest percent

// Options say what to study. The zero value is the built-in scenario: the shape of a
// published trace, two models and three GPUs.
type Options struct {
	// Trace is a file of Mooncake, Bailian, Azure, BurstGPT or ShareGPT, or a Poisson stream such as
	// "rate=4,in=500,out=120,n=2000" with requests a second, tokens and the number of requests.
	Trace    string
	SLO      string   // of every tenant, such as "ttft_p99=500ms,tpot_p99=30ms,share=0.99"
	Profiles string   // file of profiles or co-location rows; their models are the tenants
	GPUs     []string // with the price an hour: "L40S=0.90" in USD, "L40S=0.90 EUR"
	Loads    []float64
	Seed     uint64 // of every draw
}

// Study is a question that can be searched. Plan may be changed before that.
type Study struct {
	Plan  capacity.Plan
	SLO   string
	Notes []string // what was assumed

	requests []capacity.Request
	models   []string // that the trace names, by the requests' tenants
}

// Read reads the files that opts names. The error names everything that is wrong.
func Read(opts Options) (*Study, error) {
	s := &Study{SLO: opts.SLO}
	if s.SLO == "" {
		s.SLO = BuiltinSLO
	}
	objectives, errSLO := capacity.ParseObjectives(s.SLO)
	gpus, errGPU := parseGPUs(opts.GPUs)
	models, errProfiles := readProfiles(opts.Profiles)
	errTrace := s.readTrace(opts.Trace, opts.Seed)
	if err := errors.Join(errSLO, errGPU, errProfiles, errTrace); err != nil {
		return nil, err
	}
	tenants, err := s.divide(models, opts.Seed)
	if err != nil {
		return nil, err
	}
	for i := range tenants {
		tenants[i].Objectives = objectives
	}
	if opts.Profiles == "" && opts.Trace != "" {
		s.note("without profiles of its own the models are a 1B and an 8B server with random weights, measured on one H100")
	}
	if n := len(s.requests); n < fewRequests {
		s.note("with so few requests (%d) a P99 is the slowest of them: a longer trace says more", n)
	}
	s.Plan.Tenants, s.Plan.Requests = tenants, slices.Values(s.requests)
	s.Plan.GPUs, s.Plan.Loads, s.Plan.Seed = gpus, opts.Loads, opts.Seed
	return s, s.Plan.Validate()
}

func (s *Study) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// Search searches the plan. Interrupted it returns what it found until then together with ctx's error.
func (s *Study) Search(ctx context.Context) (*Report, error) {
	result, err := s.Plan.Search(ctx)
	if result == nil {
		return nil, err
	}
	load := 1.0
	if len(s.Plan.Loads) > 0 {
		load = slices.Max(s.Plan.Loads)
	}
	return &Report{
		Simulated: true, Seed: s.Plan.Seed, SLO: s.SLO, Notes: s.Notes, Result: result,
		load: load, interrupted: ctx.Err() != nil,
	}, err
}

func parseGPUs(texts []string) (out []capacity.GPU, err error) {
	if len(texts) == 0 {
		texts = builtinGPUs
	}
	var errs []error
	for _, text := range texts {
		name, price, ok := strings.Cut(text, "=")
		if !ok {
			errs = append(errs, fmt.Errorf("gpu: %q: write the name and its price an hour, like L40S=0.90", text))
			continue
		}
		if !strings.Contains(price, " ") {
			price += " USD"
		}
		m, err := cost.ParsePrice(price)
		if err != nil {
			errs = append(errs, fmt.Errorf("gpu: %s: %w", name, err))
			continue
		}
		out = append(out, capacity.GPU{Name: name, PricePerHour: m})
	}
	return out, errors.Join(errs...)
}

// model is a model that was measured.
type model struct {
	name  string
	solos []predict.Solo
	loads []predict.Load
}

// readProfiles reads the profiles of a file, or the built-in ones, sorted by the names of their models.
func readProfiles(file string) ([]model, error) {
	data := builtinProfiles
	if file != "" {
		var err error
		if data, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("profiles: %w", err)
		}
	}
	list, err := predict.ParseProfiles(data)
	if err != nil {
		rows, rowsErr := predict.ParseRows(data)
		if rowsErr != nil {
			return nil, fmt.Errorf("profiles: %s: neither profiles nor co-location rows: %w", file, rowsErr)
		}
		list = rows.Profiles()
	}
	set, err := predict.NewProfiles(list...)
	if err != nil {
		return nil, fmt.Errorf("profiles: %s: %w", file, err)
	}
	byName := map[string]*model{}
	for i := range list {
		p := &list[i]
		if p.Server.SMPercent.Or(100) < 100 {
			continue // the percentages are for the search to choose
		}
		solo, err := set.Solo(p.Server, p.Load)
		if err != nil {
			return nil, fmt.Errorf("profiles: %s: %w", file, err)
		}
		m := byName[p.Server.Model]
		if m == nil {
			m = &model{name: p.Server.Model}
			byName[m.name] = m
		}
		m.solos, m.loads = append(m.solos, solo), append(m.loads, p.Load)
	}
	if len(byName) == 0 {
		return nil, fmt.Errorf("profiles: %s: nothing in it was measured alone", file)
	}
	var out []model
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, *byName[name])
	}
	return out, nil
}

// nearest returns the one profile whose load is nearest to the mean lengths, by the
// sum of the logarithms of their ratios.
func (m *model) nearest(in, out float64) []predict.Solo {
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
	shape    predict.Model
}{
	{0.16, shape(0.162e9, 12, 4, 64, 768, 12, 2048)},
	{1, shape(1.24e9, 16, 8, 64, 2048, 32, 8192)},
	{3, shape(3.21e9, 28, 8, 128, 3072, 24, 8192)},
	{8, shape(8.03e9, 32, 8, 128, 4096, 32, 14336)},
	{14, shape(14.8e9, 48, 8, 128, 5120, 40, 13824)},
	{32, shape(32.8e9, 64, 8, 128, 5120, 40, 27648)},
	{70, shape(70.6e9, 80, 8, 128, 8192, 64, 28672)},
}

func shape(parameters float64, layers, kvHeads, headDim, hidden, heads, intermediate int) predict.Model {
	return predict.Model{
		Parameters: parameters, Layers: layers, KVHeads: kvHeads, HeadDim: headDim,
		Hidden: hidden, Heads: heads, Intermediate: intermediate,
	}
}

// A size between two known ones takes the nearer shape, scaled within these ratios.
const leastScale, mostScale = 0.6, 1.5

var sizeInName = regexp.MustCompile(`(?i)(?:^|[^0-9a-z.])([0-9]+(?:\.[0-9]+)?)([bm])(?:[^0-9a-z]|$)`)

// shapeOf returns the shape of the nearest known size, by the size in a model's name.
func shapeOf(name string) (predict.Model, error) {
	m := sizeInName.FindStringSubmatch(name)
	if m == nil {
		return predict.Model{}, fmt.Errorf("model %q: its size is not in its name; name it like llama-8b", name)
	}
	size, err := strconv.ParseFloat(m[1], 64)
	if err != nil || size <= 0 {
		return predict.Model{}, fmt.Errorf("model %q: %s is no size", name, m[1])
	}
	if strings.EqualFold(m[2], "m") {
		size /= 1000
	}
	best := shapes[0]
	for _, s := range shapes {
		if math.Abs(math.Log(s.billions/size)) < math.Abs(math.Log(best.billions/size)) {
			best = s
		}
	}
	scale := size / best.billions
	if scale > mostScale || scale < leastScale {
		return predict.Model{}, fmt.Errorf("model %q: the shape of models of %gB is not known here", name, size)
	}
	best.shape.Parameters *= scale
	return best.shape, nil
}

// ParseLoads reads multiples of a trace's rate, "0.5,1,2".
func ParseLoads(text string) (out []float64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return nil, fmt.Errorf("%q: use multiples such as 0.5,1,2", part)
		}
		out = append(out, v)
	}
	return out, nil
}
