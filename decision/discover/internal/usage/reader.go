package usage

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
)

var errUnknown = errors.New("usage: unknown name")

// ErrKind says that a text is not what was expected of it.
var ErrKind = errors.New("usage: not this kind of text")

const maxTenants = 200_000 // bound of the keys, and with them the memory

// Reader reads sources one after another and holds what they say. It is not safe for concurrent use.
type Reader struct {
	// Repeats says that the exporter is known to repeat a shared device's figures for each of its pods.
	Repeats bool

	most     int // tenants
	probs    problem.List
	sources  []Source
	tenants  map[rawKey]*tenant
	order    []*tenant
	page     int64            // pages of text so far, for samples without a time
	scrapers map[scraper]bool // the exporters' own pods, seen beside labels with exported_
}

// tenant is one key with its figures.
type tenant struct {
	raw   rawKey
	accs  [figureEnd]*acc
	slots slots
	pages slots // of samples without a time, by page
}

// New returns a Reader.
func New() *Reader {
	return &Reader{most: maxTenants, tenants: map[rawKey]*tenant{}, scrapers: map[scraper]bool{}}
}

// begin opens a source.
func (r *Reader) begin(name, kind string) *Source {
	r.sources = append(r.sources, Source{Name: name, Kind: kind})
	return &r.sources[len(r.sources)-1]
}

// end closes a source: one without any figure is a problem. It returns the problems found since before.
func (r *Reader) end(src *Source, before int) error {
	if src.Series == 0 && r.probs.Len() == before {
		r.problem(src, "", fmt.Sprintf("query one of %s", strings.Join(slices.Sorted(maps.Keys(metrics))[:4], ", ")),
			"it has no series, or none of a metric of a GPU that is read")
	}
	var l problem.List
	for _, p := range r.probs.Problems()[before:] {
		l.Add(p)
	}
	return l.Err()
}

func (r *Reader) problem(src *Source, path, remedy, format string, args ...any) {
	if r.probs.Len() >= problem.Enough*max(1, len(r.sources)) {
		return
	}
	if path != "" {
		path = ": " + path
	}
	r.probs.Addf(src.Name+path, remedy, format, args...)
}

// problems takes the problems of an error.
func (r *Reader) problems(src *Source, err error) {
	var l problem.List
	l.AddErr("", err)
	for _, p := range l.Problems() {
		r.problem(src, p.Path, p.Remedy, "%s", p.Message)
	}
}

// series finds the accumulator of a series. It is nil where the series is not
// read; a problem says why, unless it is simply of another metric.
func (r *Reader) series(src *Source, l *labels) (*tenant, source) {
	m, ok := metrics[l.metric]
	if !ok {
		return nil, m
	}
	raw, ok := l.key()
	if !ok {
		r.problem(src, l.metric, "query without an aggregation that drops the labels gpu, UUID and pod",
			"a series names neither a GPU nor a pod")
		return nil, m
	}
	if l.exportedPod != "" && l.pod != "" {
		r.scrapers[scraper{l.namespace, l.pod, ""}] = true
		if l.container != "" {
			r.scrapers[scraper{l.namespace, "", l.container}] = true
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
			r.problem(src, "", "read fewer files, or a shorter window", "more than %d tenants", r.most)
			return nil
		}
		t = &tenant{raw: raw}
		r.tenants[raw] = t
		r.order = append(r.order, t)
	}
	return t
}

// Times that no clock should show: before NVIDIA had CUDA, and far ahead.
var (
	earliest = time.Date(2007, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
)

// sample takes one sample of a tenant.
func (r *Reader) sample(src *Source, t *tenant, f Figure, ms int64, v float64) {
	a := t.accs[f]
	if a == nil {
		a = new(acc)
		t.accs[f] = a
	}
	src.Samples++
	v, why := f.check(v)
	if why == 0 && ms != noTime && (ms < earliest || ms > latest) {
		why = RefusalClock
	}
	if why != 0 {
		a.refused[why]++
		src.Refused++
		return
	}
	if !a.add(f, ms, v) {
		src.Refused++
		return
	}
	at, slot := &t.pages, r.page
	if ms != noTime {
		if src.from == 0 || ms < src.from {
			src.from = ms
		}
		src.to = max(src.to, ms)
		at, slot = &t.slots, ms/slotTime.Milliseconds()
	}
	if i := at.at(slot); i >= 0 {
		at.flags[i] |= flagsOf(f, v)
	}
}
