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

// input is a source while it is read.
type input struct {
	*Reader
	*Source
	doc   *json.Decoder
	begun int // series of the document
}

// begin opens a source.
func (r *Reader) begin(name string) *input {
	r.sources = append(r.sources, Source{Name: name})
	return &input{Reader: r, Source: &r.sources[len(r.sources)-1]}
}

// end closes a source: one without any figure is a problem. It returns the source's problems.
func (s *Source) end() error {
	if s.Series == 0 && s.probs.Len() == 0 {
		s.problem("", "query one of DCGM_FI_DEV_FB_USED, DCGM_FI_DEV_GPU_UTIL, DCGM_FI_PROF_GR_ENGINE_ACTIVE, "+
			"DCGM_FI_PROF_SM_ACTIVE", "it has no series, or none of a metric of a GPU that is read")
	}
	return s.probs.Err()
}

func (s *Source) problem(path, remedy, format string, args ...any) {
	if path != "" {
		path = ": " + path
	}
	s.probs.If(s.probs.Len() < problem.Enough, s.Name+path, remedy, format, args...)
}

// take hands the samples of a series over, if its metric is read.
func (in *input) take(path string, metric map[string]string, points []Point) {
	name := metric["__name__"]
	to, read := metrics[name]
	switch {
	case serves.MatchString(name) && in.Serving != nil:
		in.Series++
		in.Serving(metric, points)
		return
	case name == "":
		in.problem(path, "query the metric itself", "a series without a name")
		return
	case !read:
		return
	}
	l := labels{}
	for _, name := range slices.Sorted(maps.Keys(metric)) { // as Prometheus writes them
		if of := labelOf[name]; of != "" {
			l[of] = metric[name]
		}
	}
	raw, ok := l.key()
	if !ok {
		in.problem(name, "query without an aggregation that drops the labels gpu, UUID and pod",
			"a series names neither a GPU nor a pod")
		return
	}
	if l["exportedPod"] != "" && l["pod"] != "" {
		in.scrapers[scraper{l["namespace"], l["pod"], ""}] = true
		if l["container"] != "" {
			in.scrapers[scraper{l["namespace"], "", l["container"]}] = true
		}
	}
	t := in.tenants[raw]
	if t == nil {
		if len(in.order) >= in.most {
			in.problem("", "read fewer files, or a shorter window", "more than %d tenants", in.most)
			return
		}
		t = &tenant{raw: raw}
		in.tenants[raw], in.order = t, append(in.order, t)
	}
	in.Series++
	for _, p := range points {
		if !p.ok {
			in.problem(path, "query again", `a sample that is not [time, "value"]`)
			continue
		}
		in.sample(t, to.figure, p.MS, p.Value*to.scale)
	}
}

// sample takes one sample of a tenant.
func (in *input) sample(t *tenant, f Figure, ms int64, v float64) {
	a := t.accs[f]
	if a == nil {
		a = new(acc)
		t.accs[f] = a
	}
	before := a.to
	in.Samples++
	if !a.add(f, ms, v) {
		in.Refused++
		return
	}
	slot := earliest/slotTime.Milliseconds() + in.page
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
func (r *Reader) Text(name string, text io.Reader) error {
	in, l := r.begin(name), problem.List{}
	l.AddErr("", promtext.Read(text, func(p promtext.Page) {
		r.page++
		for _, f := range p.Families {
			if _, ok := metrics[f.GetName()]; ok {
				in.family(f)
			}
		}
	}))
	for _, p := range l.Problems() {
		in.problem(p.Path, p.Remedy, "%s", p.Message)
	}
	return in.end()
}

func (in *input) family(f *dto.MetricFamily) {
	for i, m := range f.Metric {
		metric := map[string]string{"__name__": f.GetName()}
		for _, p := range m.Label {
			metric[p.GetName()] = p.GetValue()
		}
		one := Point{MS: noTime}
		if m.TimestampMs != nil {
			one.MS = m.GetTimestampMs()
		}
		if one.Value, one.ok = promtext.Value(m); !one.ok {
			in.problem(fmt.Sprintf("%s[%d]", f.GetName(), i), "", "a histogram or summary, where a figure is expected")
			continue
		}
		in.take("", metric, []Point{one})
	}
}

// JSON reads the answer of Prometheus' HTTP interface to a query or a range query (resultType vector or matrix), one
// series at a time. The error lists the problems of this source; readable samples count.
func (r *Reader) JSON(name string, text io.Reader) error {
	in := r.begin(name)
	in.doc = json.NewDecoder(text)
	if err := stream.Object(in.doc, in.field); err != nil {
		in.problem(in.path(), "query again", "%s", problem.Clip(err.Error()))
	}
	return in.end()
}

func (in *input) path() string { return fmt.Sprintf("result[%d]", max(0, in.begun-1)) }

// field reads a field of the answer, or of its data.
func (in *input) field(key string) error {
	var text string
	var texts []string
	var skipped json.RawMessage
	switch key {
	case "data":
		return stream.Object(in.doc, in.field)
	case "result":
		return stream.Array(in.doc, in.result)
	case "error":
		err := in.doc.Decode(&text)
		if err == nil {
			in.problem("error", "query again", "Prometheus answers %s", problem.Clip(strconv.Quote(text)))
		}
		return err
	case "warnings":
		err := in.doc.Decode(&texts)
		for _, text := range texts {
			in.problem("warnings", "", "Prometheus warns %s", problem.Clip(strconv.Quote(text)))
		}
		return err
	}
	err := in.doc.Decode(&skipped)
	if kind := string(skipped); key == "resultType" && (kind == `"scalar"` || kind == `"string"`) {
		return fmt.Errorf("a %s (query a metric, not a number)", strings.Trim(kind, `"`))
	}
	return err
}

// result reads a series.
func (in *input) result() error {
	in.begun++
	var s struct {
		Metric map[string]string
		Values []Point
		Value  *Point // of a vector
	}
	err := in.doc.Decode(&s)
	if s.Value != nil {
		s.Values = append(s.Values, *s.Value)
	}
	if err == nil {
		in.take(in.path(), s.Metric, s.Values)
	}
	return err
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
