package study

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
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
	SLO      string // of every tenant, such as "ttft_p99=500ms,tpot_p99=30ms,share=0.99"
	Profiles string // file of profiles or co-location rows
	// Models describe models: "llama-8b=config.json" as Hugging Face has it, or "llama-8b=params:8e9,bf16".
	Models    []string
	Fleet     string // file of a fleet, whose workloads describe models
	Predictor string // file of a predictor; "" = that of package predict
	// Scheduling is the serving engine, ProfiledLimits as in [capacity.Plan].
	Scheduling     costs.Scheduling
	ProfiledLimits bool
	// Timestamps is the unit of a trace's, "s" or "ms"; "" = its format's, unless it seems to be the other.
	Timestamps string
	GPUs       []string // with the price an hour: "L40S=0.90" in USD, "L40S=0.90 EUR"
	Loads      []float64
	Seed       uint64 // of every draw
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
	s := &Study{SLO: cmp.Or(opts.SLO, BuiltinSLO)}
	objectives, errSLO := capacity.ParseObjectives(s.SLO)
	gpus, errGPU := parseGPUs(opts.GPUs)
	models, errModels := s.readModels(opts)
	errTrace := s.readTrace(opts)
	var errPredictor error
	if opts.Predictor != "" {
		s.Plan.Predictor, errPredictor = predict.LoadPredictor(opts.Predictor)
	}
	if err := errors.Join(errSLO, errGPU, errModels, errPredictor, errTrace); err != nil {
		return nil, err
	}
	tenants, err := s.divide(models, opts.Seed)
	if err != nil {
		return nil, err
	}
	for i := range tenants {
		tenants[i].Objectives = objectives
	}
	if n := len(s.requests); n < fewRequests {
		s.note("with so few requests (%d) a P99 is the slowest of them: a longer trace says more", n)
	}
	s.Plan.Tenants, s.Plan.Requests = tenants, slices.Values(s.requests)
	s.Plan.GPUs, s.Plan.Loads, s.Plan.Seed = gpus, opts.Loads, opts.Seed
	s.Plan.Scheduling, s.Plan.ProfiledLimits = opts.Scheduling, opts.ProfiledLimits
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
		if !strings.Contains(price, " ") {
			price += " USD"
		}
		m, err := cost.ParsePrice(price)
		if _, unknown := sharing.LookupGPU(name); !ok {
			errs = append(errs, fmt.Errorf("gpu: %q: write the name and its price an hour, like L40S=0.90", text))
		} else if err != nil || unknown != nil {
			errs = append(errs, fmt.Errorf("gpu: %s: %w", name, errors.Join(err, unknown)))
		}
		out = append(out, capacity.GPU{Name: name, PricePerHour: m})
	}
	return out, errors.Join(errs...)
}

// readProfiles reads the profiles of a file, or the built-in ones, sorted by the names of their models.
func readProfiles(file string) ([]model, error) {
	data := builtinProfiles
	if file != "" {
		var err error
		if data, err = strictyaml.ReadFile(file, strictyaml.Options{}); err != nil {
			return nil, fmt.Errorf("profiles: %w", err)
		}
	}
	list, err := profile.ParseProfiles(data)
	if err != nil {
		rows, rowsErr := profile.ParseRows(data)
		if rowsErr != nil {
			return nil, fmt.Errorf("profiles: %s: neither profiles nor co-location rows: %w", file, rowsErr)
		}
		list = rows.Profiles()
	}
	set, err := profile.NewProfiles(list...)
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

// SetLoads sets Loads from multiples of a trace's rate, "0.5,1,2".
func (o *Options) SetLoads(text string) error {
	o.Loads = nil
	for part := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return fmt.Errorf("%q: use multiples such as 0.5,1,2", part)
		}
		o.Loads = append(o.Loads, v)
	}
	return nil
}
