// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/cotenant/cotenant/decision/discover/internal/stream"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/promtext"
)

const maxTenants = 200_000 // bound of the keys, and with them the memory

// Source is one file, or one stream.
type Source struct {
	Name    string
	Series  int   // series that are read
	Samples int64 // of them, refused ones too
	Refused int64

	probs problem.List
}

// Reader reads sources one after another and keeps their figures. It is not safe for concurrent use.
type Reader struct {
	// Serving takes the series of model servers in Prometheus' answers; nil = they are left out.
	Serving func(metric map[string]string, values []Point)

	most     int // tenants
	sources  []Source
	tenants  map[rawKey]*tenant
	order    []*tenant
	page     int64            // pages of text so far, for samples without a time
	scrapers map[scraper]bool // the exporters' own pods, in series with labels exported_*
}

// tenant is one key with its figures.
type tenant struct {
	raw   rawKey
	accs  [figureEnd]*acc
	slots slots
	timed bool // some sample has a time: else a slot is a page
}

// merge adds the readings of another tenant's series.
func (t *tenant) merge(o *tenant) {
	t.slots.merge(o.slots)
	t.timed = t.timed || o.timed
	for f, a := range o.accs {
		if a == nil {
			continue
		}
		if t.accs[f] == nil {
			t.accs[f] = new(acc)
		}
		t.accs[f].merge(a)
	}
}

// New returns a Reader.
func New() *Reader {
	return &Reader{most: maxTenants, tenants: map[rawKey]*tenant{}, scrapers: map[scraper]bool{}}
}

// begin opens a source.
func (r *Reader) begin(name string) *Source {
	r.sources = append(r.sources, Source{Name: name})
	return &r.sources[len(r.sources)-1]
}

// end closes a source: one without any figure is a problem. It returns the source's problems.
func (r *Reader) end(src *Source) error {
	if src.Series == 0 && src.probs.Len() == 0 {
		src.problem("", "query one of DCGM_FI_DEV_FB_USED, DCGM_FI_DEV_GPU_UTIL, DCGM_FI_PROF_GR_ENGINE_ACTIVE, "+
			"DCGM_FI_PROF_SM_ACTIVE", "it has no series, or none of a metric of a GPU that is read")
	}
	return src.probs.Err()
}

func (s *Source) problem(path, remedy, format string, args ...any) {
	if path != "" {
		path = ": " + path
	}
	s.probs.If(s.probs.Len() < problem.Enough, s.Name+path, remedy, format, args...)
}

// problems takes the problems of an error.
func (s *Source) problems(err error) {
	var l problem.List
	l.AddErr("", err)
	for _, p := range l.Problems() {
		s.problem(p.Path, p.Remedy, "%s", p.Message)
	}
}

// series finds the accumulator of a series. It is nil where the series is not
// read; the reason is a problem, unless it is of another metric.
func (r *Reader) series(src *Source, l labels) (*tenant, source) {
	m, ok := metrics[l["metric"]]
	if !ok {
		return nil, m
	}
	raw, ok := l.key()
	if !ok {
		src.problem(l["metric"], "query without an aggregation that drops the labels gpu, UUID and pod",
			"a series names neither a GPU nor a pod")
		return nil, m
	}
	if l["exportedPod"] != "" && l["pod"] != "" {
		r.scrapers[scraper{l["namespace"], l["pod"], ""}] = true
		if l["container"] != "" {
			r.scrapers[scraper{l["namespace"], "", l["container"]}] = true
		}
	}
	t := r.tenant(src, raw)
	if t != nil {
		src.Series++
	}
	return t, m
}

func (r *Reader) tenant(src *Source, raw rawKey) *tenant {
	t := r.tenants[raw]
	if t == nil {
		if len(r.order) >= r.most {
			src.problem("", "read fewer files, or a shorter window", "more than %d tenants", r.most)
			return nil
		}
		t = &tenant{raw: raw}
		r.tenants[raw] = t
		r.order = append(r.order, t)
	}
	return t
}

// sample takes one sample of a tenant.
func (r *Reader) sample(src *Source, t *tenant, f Figure, ms int64, v float64) {
	a := t.accs[f]
	if a == nil {
		a = new(acc)
		t.accs[f] = a
	}
	before := a.to
	src.Samples++
	if !a.add(f, ms, v) {
		src.Refused++
		return
	}
	slot := earliest/slotTime.Milliseconds() + r.page
	if ms != noTime {
		t.timed, slot = true, ms/slotTime.Milliseconds()
	}
	from, flags := slot, figures[f].known
	if b := before / slotTime.Milliseconds(); ms != noTime && b < slot && slot-b <= staleSlots {
		from = b + 1
	}
	if v >= figures[f].least {
		flags |= figures[f].on
	}
	for ; from <= slot; from++ {
		t.slots.set(from, flags)
	}
}

// staleSlots are the slots after a sample that the next one speaks for: Prometheus takes a series to be stale after
// five minutes, so answers have no larger steps between samples of one that goes on.
const staleSlots = 5

var (
	textHead = regexp.MustCompile(`(?m)^(# (HELP|TYPE) )?(DCGM_FI_|dcgm_)[A-Za-z_]+[ {]`)
	jsonHead = regexp.MustCompile(`^\s*\{\s*"status"\s*:\s*"(success|error)"`)
)

// Sniff returns the method that reads the source which begins with head, nil of another; a few KiB are enough.
func Sniff(head []byte) func(r *Reader, name string, in io.Reader) error {
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	switch {
	case jsonHead.Match(head):
		return (*Reader).JSON
	case textHead.Match(head):
		return (*Reader).Text
	}
	return nil
}

// Text reads pages in Prometheus' text format, as dcgm-exporter serves them; several pages may follow one another.
// Samples without a time stamp count without one. The error lists the problems of this source; readable samples count.
func (r *Reader) Text(name string, in io.Reader) error {
	src := r.begin(name)
	err := promtext.Read(in, func(p promtext.Page) {
		r.page++
		for _, f := range p.Families {
			if _, ok := metrics[f.GetName()]; ok {
				r.family(src, f)
			}
		}
	})
	src.problems(err)
	return r.end(src)
}

func (r *Reader) family(src *Source, f *dto.MetricFamily) {
	l := labels{}
	for i, m := range f.Metric {
		clear(l)
		l["metric"] = f.GetName()
		for _, p := range m.Label {
			if of := labelOf[p.GetName()]; of != "" {
				l[of] = p.GetValue()
			}
		}
		v, ok := promtext.Value(m)
		if !ok {
			src.problem(fmt.Sprintf("%s[%d]", f.GetName(), i), "", "a histogram or summary, where a figure is expected")
			continue
		}
		t, to := r.series(src, l)
		if t == nil {
			continue
		}
		when := int64(noTime)
		if m.TimestampMs != nil {
			when = m.GetTimestampMs()
		}
		r.sample(src, t, to.figure, when, v*to.scale)
	}
}

// JSON reads the answer of Prometheus' HTTP interface to a query or a range query (resultType vector or matrix), one
// series at a time. The error lists the problems of this source; readable samples count.
func (r *Reader) JSON(name string, in io.Reader) error {
	src := r.begin(name)
	j := &jsonReader{r: r, src: src, d: json.NewDecoder(in)}
	if err := stream.Object(j.d, j.field); err != nil {
		src.problem(j.path(), "query again", "%s", problem.Clip(err.Error()))
	}
	return r.end(src)
}

type jsonReader struct {
	r      *Reader
	src    *Source
	d      *json.Decoder
	series int // that have begun
}

func (j *jsonReader) path() string { return fmt.Sprintf("result[%d]", max(0, j.series-1)) }

// field reads a field of the answer, or of its data.
func (j *jsonReader) field(key string) error {
	var text string
	var texts []string
	var skipped json.RawMessage
	switch key {
	case "data":
		return stream.Object(j.d, j.field)
	case "result":
		return stream.Array(j.d, j.result)
	case "error":
		err := j.d.Decode(&text)
		if err == nil {
			j.src.problem("error", "query again", "Prometheus answers %s", problem.Clip(strconv.Quote(text)))
		}
		return err
	case "warnings":
		err := j.d.Decode(&texts)
		for _, text := range texts {
			j.src.problem("warnings", "", "Prometheus warns %s", problem.Clip(strconv.Quote(text)))
		}
		return err
	}
	err := j.d.Decode(&skipped)
	if kind := string(skipped); key == "resultType" && (kind == `"scalar"` || kind == `"string"`) {
		return fmt.Errorf("a %s (query a metric, not a number)", strings.Trim(kind, `"`))
	}
	return err
}

// result reads a series.
func (j *jsonReader) result() error {
	j.series++
	var s struct {
		Metric map[string]string
		Values []Point
		Value  *Point // of a vector
	}
	err := j.d.Decode(&s)
	if s.Value != nil {
		s.Values = append(s.Values, *s.Value)
	}
	if err == nil {
		j.take(s.Metric, s.Values)
	}
	return err
}

// take hands the samples of a series over, if its metric is read.
func (j *jsonReader) take(metric map[string]string, points []Point) {
	if serves.MatchString(metric["__name__"]) && j.r.Serving != nil {
		j.src.Series++
		j.r.Serving(metric, points)
		return
	}
	l := labels{}
	for _, name := range slices.Sorted(maps.Keys(metric)) { // as Prometheus writes them
		if of := labelOf[name]; of != "" {
			l[of] = metric[name]
		}
	}
	if l["metric"] == "" {
		j.src.problem(j.path(), "query the metric itself", "a series without a name")
		return
	}
	t, to := j.r.series(j.src, l)
	for _, p := range points {
		switch {
		case t == nil:
		case !p.ok:
			j.src.problem(j.path(), "query again", `a sample that is not [time, "value"]`)
		default:
			j.r.sample(j.src, t, to.figure, p.MS, p.Value*to.scale)
		}
	}
}

// serves matches the names of series of model servers, which recording rules may prefix.
var serves = regexp.MustCompile(`^(\w+[:_])?(vllm|sglang|llamacpp)[:_]`)

// Point is a sample as Prometheus writes it: [seconds, "value"].
type Point struct {
	MS    int64
	Value float64
	ok    bool
}

// UnmarshalJSON reads a sample. One of another form is not ok.
func (p *Point) UnmarshalJSON(data []byte) error {
	at, value, _ := bytes.Cut(bytes.Trim(data, "[] \t\r\n"), []byte(","))
	s, err1 := strconv.ParseFloat(string(bytes.TrimSpace(at)), 64)
	v, err2 := strconv.ParseFloat(string(bytes.Trim(value, `" `)), 64)
	p.Value, p.ok = v, err1 == nil && (err2 == nil || errors.Is(err2, strconv.ErrRange))
	if p.MS = int64(math.Round(s * 1000)); !(math.Abs(s) < 1e14) {
		p.MS = math.MaxInt64 // no clock
	}
	return nil
}
