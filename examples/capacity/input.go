package main

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/prompt"
)

// The built-in scenario: the arrivals and lengths of the first 200 requests of
// Azure's public trace of conversations of 2023 (github.com/Azure/AzurePublicDataset,
// CC-BY 4.0), profiles of a 1B and an 8B server measured on an H100, and prices that
// are only examples.
var (
	//go:embed azure2023-conv.csv
	builtinTrace []byte
	//go:embed profiles.json
	builtinProfiles []byte
	builtinGPUs     = []string{"L40S=0.90", "A100-SXM4-80GB=1.80", "H100-SXM5-80GB=2.90"}
)

const (
	builtinSLO      = "ttft_p99=1s,tpot_p99=60ms,share=0.98"
	builtinRequests = 2000
	builtinPerS     = 8 // requests a second at load 1: the trace's own rate is that of a quiet minute
)

// fewRequests are so few that none is in the slowest percent.
const fewRequests = 100

// input is what the flags and files say.
type input struct {
	plan     capacity.Plan
	slo      string
	notes    []string
	requests []capacity.Request
	models   []string      // that the trace names, by the requests' tenants
	trace    *prompt.Trace // with the prompts' blocks, for -verify; nil where there are none
	// endpoints are those of -endpoint, by model.
	endpoints map[string][]loadgen.Endpoint
}

// read reads flags and files. The error names everything that is wrong with them.
func (o *options) read() (*input, error) {
	in := &input{slo: o.slo}
	if in.slo == "" {
		in.slo = builtinSLO
	}
	objectives, errSLO := parseSLO(in.slo)
	gpus, errGPU := o.parseGPUs()
	loads, errLoad := parseLoads(o.loads)
	models, errProfiles := o.readProfiles()
	errTrace := in.readTrace(o)
	var errShare error
	if o.verifyFor <= 0 {
		errShare = fmt.Errorf("-verify-for: %v is not above 0", o.verifyFor)
	}
	if err := errors.Join(errSLO, errGPU, errLoad, errProfiles, errTrace, errShare); err != nil {
		return nil, err
	}
	tenants, err := in.divide(models, o.seed)
	if err == nil {
		in.endpoints, err = o.readEndpoints(tenants)
	}
	if err != nil {
		return nil, err
	}
	for i := range tenants {
		tenants[i].Objectives = objectives
	}
	if o.profiles == "" && o.trace != "builtin" {
		in.notes = append(in.notes, "without -profiles the models are a 1B and an 8B server with random weights, measured on one H100")
	}
	if n := len(in.requests); n < fewRequests {
		in.notes = append(in.notes, fmt.Sprintf("with so few requests (%d) a P99 is the slowest of them: a longer trace says more", n))
	}
	in.plan.Tenants, in.plan.Requests = tenants, slices.Values(in.requests)
	in.plan.GPUs, in.plan.Loads, in.plan.Seed = gpus, loads, o.seed
	return in, nil
}

// parseSLO reads objectives such as "ttft_p99=500ms,tpot_p99=30ms,share=0.99".
func parseSLO(text string) (out capacity.Objectives, err error) {
	var errs []error
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || seen[name] {
			errs = append(errs, fmt.Errorf("-slo: %q: write each once, like ttft_p99=500ms", part))
			continue
		}
		seen[name] = true
		if name == "share" {
			if out.Share, err = strconv.ParseFloat(value, 64); err != nil || !(out.Share > 0 && out.Share <= 1) {
				errs = append(errs, fmt.Errorf("-slo: share=%s: use a part of the requests above 0, at most 1, like 0.99", value))
			}
			continue
		}
		latency, percentile, _ := strings.Cut(name, "_p")
		l := capacity.Limit{}
		if err := l.Latency.UnmarshalText([]byte(latency)); err != nil {
			errs = append(errs, fmt.Errorf("-slo: %q: use ttft, tpot or e2e with _p50, _p90, _p95 or _p99, or share", name))
			continue
		}
		if l.Percentile, err = strconv.Atoi(percentile); err != nil || !slices.Contains([]int{50, 90, 95, 99}, l.Percentile) {
			errs = append(errs, fmt.Errorf("-slo: %q: use _p50, _p90, _p95 or _p99", name))
			continue
		}
		if l.Most, err = time.ParseDuration(value); err != nil || l.Most <= 0 {
			errs = append(errs, fmt.Errorf("-slo: %s=%s: use a time above 0, like 500ms", name, value))
			continue
		}
		out.Limits = append(out.Limits, l)
	}
	if out.Share > 0 && len(out.Limits) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("-slo: share=%g: say what that part of the requests must keep, like ttft_p99=500ms,share=%g", out.Share, out.Share))
	}
	return out, errors.Join(errs...)
}

func (o *options) parseGPUs() (out []capacity.GPU, err error) {
	gpus := o.gpus
	if len(gpus) == 0 {
		gpus = builtinGPUs
	}
	var errs []error
	for _, text := range gpus {
		name, price, ok := strings.Cut(text, "=")
		if !ok {
			errs = append(errs, fmt.Errorf("-gpu: %q: write the name and its price an hour, like L40S=0.90", text))
			continue
		}
		if !strings.Contains(price, " ") {
			price += " USD"
		}
		m, err := cost.ParsePrice(price)
		if err != nil {
			errs = append(errs, fmt.Errorf("-gpu: %s: %w", name, err))
			continue
		}
		out = append(out, capacity.GPU{Name: name, PricePerHour: m})
	}
	return out, errors.Join(errs...)
}

func parseLoads(text string) (out []float64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(v > 0 && v <= 1000) {
			return nil, fmt.Errorf("-load: %q: use multiples above 0, at most 1000, like 0.5,1,2", part)
		}
		out = append(out, v)
	}
	return out, nil
}

// model is a model that was measured.
type model struct {
	name  string
	solos []predict.Solo
	loads []predict.Load
}

// readProfiles reads the profiles, by the names of their models.
func (o *options) readProfiles() ([]model, error) {
	data := builtinProfiles
	if o.profiles != "" {
		var err error
		if data, err = os.ReadFile(o.profiles); err != nil {
			return nil, fmt.Errorf("-profiles: %w", err)
		}
	}
	list, err := predict.ParseProfiles(data)
	if err != nil {
		rows, rowsErr := predict.ParseRows(data)
		if rowsErr != nil {
			return nil, fmt.Errorf("-profiles: %s: neither profiles nor co-location rows: %w", o.profiles, rowsErr)
		}
		list = rows.Profiles()
	}
	set, err := predict.NewProfiles(list...)
	if err != nil {
		return nil, fmt.Errorf("-profiles: %s: %w", o.profiles, err)
	}
	byName := map[string]*model{}
	for i := range list {
		p := &list[i]
		if p.Server.SMPercent.Or(100) < 100 {
			continue // the percentages are for the search to choose
		}
		solo, err := set.Solo(p.Server, p.Load)
		if err != nil {
			return nil, fmt.Errorf("-profiles: %s: %w", o.profiles, err)
		}
		m := byName[p.Server.Model]
		if m == nil {
			m = &model{name: p.Server.Model}
			byName[m.name] = m
		}
		m.solos, m.loads = append(m.solos, solo), append(m.loads, p.Load)
	}
	if len(byName) == 0 {
		return nil, fmt.Errorf("-profiles: %s: nothing in it was measured alone", o.profiles)
	}
	var out []model
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, *byName[name])
	}
	return out, nil
}

// nearest is the profile whose load is most like the tenant's, first.
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

// shapes are models by their size in billions of parameters, as the Llama family has
// them.
var shapes = []struct {
	billions float64
	shape    predict.Model
}{
	{0.16, predict.Model{Parameters: 0.162e9, Layers: 12, KVHeads: 4, HeadDim: 64, Hidden: 768, Heads: 12, Intermediate: 2048}},
	{1, predict.Model{Parameters: 1.24e9, Layers: 16, KVHeads: 8, HeadDim: 64, Hidden: 2048, Heads: 32, Intermediate: 8192}},
	{3, predict.Model{Parameters: 3.21e9, Layers: 28, KVHeads: 8, HeadDim: 128, Hidden: 3072, Heads: 24, Intermediate: 8192}},
	{8, predict.Model{Parameters: 8.03e9, Layers: 32, KVHeads: 8, HeadDim: 128, Hidden: 4096, Heads: 32, Intermediate: 14336}},
	{14, predict.Model{Parameters: 14.8e9, Layers: 48, KVHeads: 8, HeadDim: 128, Hidden: 5120, Heads: 40, Intermediate: 13824}},
	{32, predict.Model{Parameters: 32.8e9, Layers: 64, KVHeads: 8, HeadDim: 128, Hidden: 5120, Heads: 40, Intermediate: 27648}},
	{70, predict.Model{Parameters: 70.6e9, Layers: 80, KVHeads: 8, HeadDim: 128, Hidden: 8192, Heads: 64, Intermediate: 28672}},
}

var sizeInName = regexp.MustCompile(`(?i)(?:^|[^0-9a-z.])([0-9]+(?:\.[0-9]+)?)([bm])(?:[^0-9a-z]|$)`)

// shapeOf is the shape of the nearest known size, by the size in a model's name.
func shapeOf(name string) (predict.Model, error) {
	m := sizeInName.FindStringSubmatch(name)
	if m == nil {
		return predict.Model{}, fmt.Errorf("model %q: its size is not in its name; name it like llama-8b", name)
	}
	size, err := strconv.ParseFloat(m[1], 64)
	if err != nil || size <= 0 {
		return predict.Model{}, fmt.Errorf("model %q: no size", name)
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
	if r := size / best.billions; r > 1.5 || r < 0.6 {
		return predict.Model{}, fmt.Errorf("model %q: the shape of models of %gB is not known here", name, size)
	}
	best.shape.Parameters *= size / best.billions
	return best.shape, nil
}

// named puts the profiles' models into the order of the trace's: those of the same name,
// else the next that is left.
func (in *input) named(models []model) []model {
	left := slices.Clone(models)
	out := make([]model, len(in.models))
	take := func(i int, at int) {
		out[i] = left[at]
		left = slices.Delete(left, at, at+1)
	}
	for i, name := range in.models {
		if at := slices.IndexFunc(left, func(m model) bool { return strings.EqualFold(m.name, name) }); at >= 0 {
			take(i, at)
		}
	}
	var as []string
	for i, name := range in.models {
		if out[i].name == "" {
			take(i, 0)
			as = append(as, fmt.Sprintf("%q as %s", name, out[i].name))
		}
	}
	if len(as) > 0 {
		in.notes = append(in.notes, "the trace's models are not those of the profiles: it plays "+strings.Join(as, ", "))
	}
	return out
}

// divide makes the tenants: one for each of the profiles' models. A trace of one
// model that is none of the profiles' is divided among them by session, else by request.
func (in *input) divide(models []model, seed uint64) ([]capacity.Tenant, error) {
	named := max(1, len(in.models))
	if named > len(models) {
		return nil, fmt.Errorf("-trace: names %d models, the profiles are of %d; give profiles of as many", named, len(models))
	}
	if named > 1 || named == len(in.models) && slices.ContainsFunc(models, func(m model) bool { return strings.EqualFold(m.name, in.models[0]) }) {
		models = in.named(models)
	} else if len(models) > 1 {
		for i := range in.requests {
			r := &in.requests[i]
			key := r.Session
			if key == 0 {
				key = uint64(i)
			}
			r.Tenant = rand.New(rand.NewPCG(seed, key)).IntN(len(models))
		}
		in.notes = append(in.notes, fmt.Sprintf("the trace is divided among the %d models of the profiles", len(models)))
		named = len(models)
	}
	tenants := make([]capacity.Tenant, named)
	var errs []error
	for i := range tenants {
		m := &models[i]
		shape, err := shapeOf(m.name)
		if err != nil {
			errs = append(errs, fmt.Errorf("-profiles: %w", err))
			continue
		}
		n, input, output := 0.0, 0.0, 0.0
		for k := range in.requests {
			if r := &in.requests[k]; r.Tenant == i {
				n++
				input += float64(r.Input)
				output += float64(r.Output)
			}
		}
		if n == 0 {
			in.notes = append(in.notes, m.name+" gets no request and is left out")
			continue // below
		}
		tenants[i] = capacity.Tenant{Name: m.name, Model: m.name, Shape: shape, Profiles: m.nearest(input/n, output/n)}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	kept, at := tenants[:0], make([]int, len(tenants))
	for i, t := range tenants {
		at[i] = len(kept)
		if t.Name != "" {
			kept = append(kept, t)
		}
	}
	for i := range in.requests {
		in.requests[i].Tenant = at[in.requests[i].Tenant]
	}
	return kept, nil
}
