package usage

import (
	"cmp"
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
	most     int // tenants
	probs    problem.List
	sources  []Source
	tenants  map[rawKey]*tenant
	order    []*tenant
	devices  map[Key]*device
	page     int              // pages of text so far, for samples without a time
	scrapers map[scraper]bool // the exporters' own pods, seen beside labels with exported_
}

// tenant is one key with its figures.
type tenant struct {
	raw   rawKey
	id    int32
	accs  [figureEnd]*acc
	slots slots
	dev   *device
	pages int // pages without a time in which another tenant's series repeated the device
}

// device is a GPU or an instance, whoever used it: each moment counts once.
type device struct {
	key       Key
	slots     slots
	page      int // the last page without a time
	pageOwner int32
}

// New returns a Reader.
func New() *Reader {
	return &Reader{most: maxTenants, tenants: map[rawKey]*tenant{}, devices: map[Key]*device{},
		scrapers: map[scraper]bool{}}
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
		t = &tenant{raw: raw, id: int32(len(r.order) + 1)}
		r.tenants[raw] = t
		r.order = append(r.order, t)
		if k := raw.device(); k.GPU != "" || !k.Index.IsZero() {
			id := Key{GPU: k.GPU, Instance: k.Instance} // names of nodes differ between sources
			if k.GPU == "" {
				id.Node, id.Index = k.Node, k.Index
			}
			if r.devices[id] == nil {
				r.devices[id] = &device{key: k, page: -1, slots: slots{owner: []int32{}}}
			}
			t.dev = r.devices[id]
			t.dev.key = fuller(t.dev.key, k)
		}
	}
	return t
}

// fuller completes a key with what another one of the same device knows.
func fuller(k, o Key) Key {
	k.Node, k.Profile = cmp.Or(k.Node, o.Node), cmp.Or(k.Profile, o.Profile)
	if k.Index.IsZero() {
		k.Index = o.Index
	}
	return k
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
	if ms == noTime {
		r.untimed(t)
		return
	}
	if src.from == 0 || ms < src.from {
		src.from = ms
	}
	src.to = max(src.to, ms)
	flags := flagsOf(f, v)
	slot := ms / slotTime.Milliseconds()
	i := t.slots.at(slot)
	if i >= 0 {
		t.slots.flags[i] |= flags
	}
	d := t.dev
	if d == nil {
		return
	}
	j := d.slots.at(slot)
	if j < 0 {
		return
	}
	if d.slots.owner[j] == 0 {
		d.slots.owner[j] = t.id
	}
	if owner := d.slots.owner[j]; owner != t.id {
		if o := r.order[owner-1]; i >= 0 && o.raw.Pod != "" && t.raw.Pod != "" && !o.raw.samePod(t.raw.Key) {
			t.slots.flags[i] |= slotOverlap
			if k := o.slots.at(slot); k >= 0 {
				o.slots.flags[k] |= slotOverlap
			}
		}
		return
	}
	d.slots.flags[j] |= flags
}

// untimed takes a sample without a time: each page of text counts once for a device.
func (r *Reader) untimed(t *tenant) {
	d := t.dev
	if d == nil {
		return
	}
	if d.page != r.page {
		d.page, d.pageOwner = r.page, t.id
	}
	if d.pageOwner != t.id {
		if o := r.order[d.pageOwner-1]; o.raw.Pod != "" && t.raw.Pod != "" && !o.raw.samePod(t.raw.Key) {
			t.pages++
			o.pages++
		}
	}
}
