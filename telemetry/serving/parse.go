// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/promtext"
	"github.com/cotenant/cotenant/sharing"
)

// key is a reading's place on the pages.
type key struct {
	page           int
	engine         Engine
	model, replica string
}

// maxReadings bounds the memory: a page has a handful.
const maxReadings = 100_000

// Parse reads a metrics page of vLLM, SGLang or llama.cpp, or several concatenated pages, such as those of a
// deployment's pods; a prefix of the engine in a metric's name, as Ray Serve's ray_, is ignored. There is one reading
// for each model and replica of each page, in the order of pages, models and replicas. Of SGLang's tensor- and
// pipeline-parallel ranks, which report the same, the lowest is read.
//
// Lines that cannot be read and impossible values are named in the error and left out; the readings of the rest are
// returned with it. A page without any known metric is an error that names those that Parse knows.
func Parse(in io.Reader) ([]Reading, error) {
	p := &parser{readings: map[key]*Reading{}, ranks: map[key]int{}, from: map[filled]string{}, blocks: map[key]bool{}}
	p.probs.AddErr("", promtext.Read(in, p.page))
	for k, r := range p.readings {
		if p.blocks[k] { // their ratio holds, and every token of prompts was looked up
			share := min(1, r.PrefixHits.Or(0)/r.PrefixQueries.Or(0))
			r.PrefixQueries, r.PrefixHits = sharing.Optional[float64]{}, sharing.Optional[float64]{}
			if prompt, ok := r.PromptTokens.Get(); ok && share >= 0 {
				r.PrefixQueries, r.PrefixHits = optional.Of(prompt), optional.Of(share*prompt)
			}
		}
		if k.engine == engineFastAPI && (r.E2E == nil || p.others(k.page)) {
			delete(p.readings, k)
		}
	}
	if len(p.readings) == 0 {
		return nil, errors.Join(p.none(), p.probs.Err())
	}
	keys := slices.SortedFunc(maps.Keys(p.readings), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.page, b.page), cmp.Compare(a.engine, b.engine), cmp.Compare(a.model, b.model),
			cmp.Compare(a.replica, b.replica))
	})
	out := make([]Reading, len(keys))
	for i, k := range keys {
		out[i] = *p.readings[k]
	}
	return out, p.probs.Err()
}

type parser struct {
	probs    problem.List
	readings map[key]*Reading
	ranks    map[key]int
	from     map[filled]string // families by the fields that they filled
	blocks   map[key]bool      // readings of vLLM's early 0.8, of which the prefix cache counts blocks, not tokens
	families []string          // that were not read, some of them
}

type filled struct {
	key
	field string
}

// engineName splits a metric's name: the part before the engine is a namespace or a wrapper's prefix, and some
// collectors write the colon as an underscore.
var engineName = regexp.MustCompile(`(?:^|[_:])(vllm|sglang|llamacpp)[:_](.+)$`)

var engines = map[string]Engine{"vllm": EngineVLLM, "sglang": engineSGLang, "llamacpp": EngineLlamaCpp}

// engineOf is the engine and the figure of a metric's name. Wrappers may leave out the end of a counter's name.
func engineOf(name string) (Engine, figure, bool) {
	if s, ok := services[name]; ok {
		return s.engine, s.figure, true
	}
	m := engineName.FindStringSubmatch(name)
	if m == nil {
		return "", figure{}, false
	}
	f, ok := names[m[2]]
	if !ok {
		f, ok = names[m[2]+"_total"]
	}
	return engines[m[1]], f, ok
}

// others reports whether an engine with metrics of its own wrote a page.
func (p *parser) others(page int) bool {
	for k := range p.readings {
		if k.page == page && k.engine != engineFastAPI {
			return true
		}
	}
	return false
}

// none lists the known metrics for a page of which nothing was read.
func (p *parser) none() error {
	has := ""
	if len(p.families) > 0 {
		has = fmt.Sprintf("; the page has %s", plaintext.Some(p.families, 3, len(p.families)))
	}
	return fmt.Errorf("%w: looked for vllm:num_requests_running, sglang:num_running_reqs, llamacpp:requests_processing "+
		"and the like, with any prefix, te_request_success, nv_inference_request_success and "+
		"http_request_duration_seconds%s", errNone, has)
}

// page takes a page: first which ranks there are, then the figures of the lowest, by present names before former ones.
func (p *parser) page(pg promtext.Page) {
	for _, f := range pg.Families {
		if _, _, ok := engineOf(f.GetName()); !ok && len(p.families) < maxReadings {
			p.families = append(p.families, problem.Clip(f.GetName()))
		}
		p.rank(pg.Number, f)
	}
	for _, former := range []bool{false, true} {
		for _, f := range pg.Families {
			if engine, fig, ok := engineOf(f.GetName()); ok && fig.former == former {
				p.family(pg.Number, engine, fig, f)
			}
		}
	}
}

// rank notes the lowest rank that gives a family's figures.
func (p *parser) rank(page int, f *dto.MetricFamily) {
	engine, _, ok := engineOf(f.GetName())
	if !ok {
		return
	}
	for _, m := range f.Metric {
		k, rank := labels(m)
		k.page, k.engine = page, engine
		if low, ok := p.ranks[k]; rank >= 0 && (!ok || rank < low) {
			p.ranks[k] = rank
		}
	}
}

func (p *parser) family(page int, engine Engine, fig figure, f *dto.MetricFamily) {
	totals := totals(f)
	for i, m := range f.Metric {
		k, rank := labels(m)
		whole := totals[k]
		k.page, k.engine = page, engine
		if rank >= 0 && rank > p.ranks[k] || whole != nil && !whole[i] {
			continue
		}
		at := filled{k, fig.field}
		if had, ok := p.from[at]; ok && had != f.GetName() {
			continue
		}
		r := p.readings[k]
		if r == nil {
			if len(p.readings) >= maxReadings {
				return
			}
			r = &Reading{Engine: engine, Model: k.model, Replica: k.replica}
			p.readings[k] = r
		}
		p.from[at] = f.GetName()
		if strings.HasPrefix(fig.field, "Prefix") && strings.Contains(f.GetHelp(), "blocks") {
			p.blocks[k] = true
		}
		v := &value{probs: &p.probs, path: fmt.Sprintf("%s[%d]", f.GetName(), i), m: m}
		if ms := m.GetTimestampMs(); ms > 0 {
			if r.At = time.UnixMilli(ms).UTC(); r.At.Year() < 2001 {
				v.problem("its time, %d, is of the year %d: pages have milliseconds since 1970", ms, r.At.Year())
			}
		}
		fig.set(r, v)
	}
}

// totals finds the series of a family that are totals of its other series. SGLang
// with priorities gives the total with an empty priority; a total among parts equals their sum.
func totals(f *dto.MetricFamily) map[key]map[int]bool {
	var out map[key]map[int]bool
	for _, label := range []string{"priority", "cache_source"} {
		whole, parts, sums := map[key]map[int]bool{}, map[key]float64{}, map[key]float64{}
		for i, m := range f.Metric {
			k, _ := labels(m)
			for _, l := range m.Label {
				v, ok := promtext.Value(m)
				switch {
				case l.GetName() != label || !ok:
				case l.GetValue() == "" || l.GetValue() == "total":
					if whole[k] == nil {
						whole[k] = map[int]bool{}
					}
					whole[k][i] = true
					sums[k] += v
				default:
					parts[k] += v
				}
			}
		}
		for k, is := range whole {
			if _, divided := parts[k]; divided && (label == "priority" || math.Abs(sums[k]-parts[k]) <= 1) {
				if out == nil {
					out = map[key]map[int]bool{}
				}
				out[k] = is
			}
		}
	}
	return out
}

// labels returns the owner of a figure, and the rank that reports it: -1 for none.
func labels(m *dto.Metric) (k key, rank int) {
	rank = -1
	instance, worker := "", ""
	for _, l := range m.Label {
		switch l.GetName() {
		case "model_name", "model":
			k.model = l.GetValue()
		case "engine", "dp_rank":
			k.replica = l.GetValue()
		case "instance":
			instance = l.GetValue()
		case "ReplicaId": // of Ray Serve
			worker = l.GetValue()
		case "tp_rank", "pp_rank", "moe_ep_rank":
			if n, err := strconv.Atoi(l.GetValue()); err == nil && n >= 0 && n < 1<<16 {
				rank = max(rank, 0) + n
			}
		}
	}
	for _, before := range []string{worker, instance} {
		if before != "" {
			k.replica = strings.TrimSuffix(before+" "+k.replica, " ")
		}
	}
	return k, rank
}
