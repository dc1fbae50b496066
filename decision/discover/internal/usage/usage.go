package usage

import (
	"maps"
	"slices"
	"time"
)

// Usage holds the sources' summary.
type Usage struct {
	Tenants []Stats // one entry for each key, in the order of the keys
	// Devices has one entry for each GPU and MIG instance, without a pod: each
	// moment counts once, although several pods' series may repeat it.
	Devices []Stats
	Sources []Source
}

// Source is one file, or one stream.
type Source struct {
	Name     string
	Kind     string // "prometheus text", "prometheus json", "telemetry csv"
	From, To time.Time
	Series   int   // series that are read
	Samples  int64 // of them, refused ones too
	Refused  int64

	from, to int64
}

// Stats are the statistics of one key.
type Stats struct {
	Key
	Figures map[Figure]Statistics // those that there were; a device has none
	// Shared says that other pods' series are of the same device at the same time: the figures are then the
	// device's, not this pod's, except those in Own.
	Shared bool
	// Own names the figures of the pod's own processes, which dcgm-exporter gives beside the device's series:
	// https://github.com/NVIDIA/dcgm-exporter/pull/594.
	Own map[Figure]bool
	// Void names the figures of which the exporter has a series for each pod and could not fill it: all are 0 while
	// the device works, as without hostPID, or they are the utilization of a MIG instance's processes, always 0.
	Void map[Figure]bool
	// Beside says of a device's series, which names no pod, that pods have series of the same device.
	Beside bool
	Times  Times
	// From and To are the first and last sample's time; zero where no sample had a time.
	From, To time.Time
}

// Statistics are those of one figure.
type Statistics struct {
	N int64 // samples that count
	// P50 and P95 are at most 1/128 of them above the truth and never below it.
	P50, P95, Max, Mean float64
	From, To            time.Time
	Refused             map[Refusal]int
}

// Times are sums over slots of a minute in which anything is known.
type Times struct {
	Known         time.Duration // with a utilization
	Busy          time.Duration // 5 % of utilization, or 2 % of SMs or memory bandwidth, at some moment of the slot
	Held          time.Duration // 1 GiB of memory held
	ExecutionIdle time.Duration // held and not busy
}

// overlapSlots is in how many slots another pod's series must repeat a device
// before that is sharing and no change of tenants.
const overlapSlots = 3

// Usage reduces what was read. It may be called between sources.
func (r *Reader) Usage() *Usage {
	u := &Usage{}
	merged := map[Key]*tenant{}
	for _, t := range r.order {
		k := t.raw.Key
		if t.raw.plain && (r.scrapers[scraper{k.Namespace, k.Pod, ""}] || r.scrapers[scraper{k.Namespace, "", k.Container}]) {
			k = k.device()
		}
		m := merged[k]
		if m == nil {
			m = &tenant{raw: rawKey{Key: k}}
			merged[k] = m
		}
		m.slots.merge(&t.slots)
		m.pages.merge(&t.pages)
		for f, a := range t.accs {
			if a == nil {
				continue
			}
			if m.accs[f] == nil {
				m.accs[f] = new(acc)
			}
			m.accs[f].merge(Figure(f), a)
		}
	}
	devices, stats := map[Key]*device{}, map[Key]*Stats{}
	for _, k := range slices.SortedFunc(maps.Keys(merged), Key.Compare) {
		s := &Stats{Key: k, Times: merged[k].slots.times(slotUtil, slotBusy)}
		s.figures(&merged[k].accs)
		stats[k] = s
		if k.GPU == "" && k.Index.IsZero() {
			continue
		}
		id := Key{GPU: k.GPU, Instance: k.Instance} // names of nodes differ between sources
		if k.GPU == "" {
			id.Node, id.Index = k.Node, k.Index
		}
		d := devices[id]
		if d == nil {
			d = &device{key: k.device()}
			devices[id] = d
		}
		d.add(merged[k])
	}
	for _, d := range slices.SortedFunc(maps.Values(devices), func(a, b *device) int { return a.key.Compare(b.key) }) {
		u.Devices = append(u.Devices, Stats{Key: d.key, Times: d.all.slots.times(slotUtil, slotBusy)})
		d.attribute(stats, r.Repeats)
	}
	for _, k := range slices.SortedFunc(maps.Keys(stats), Key.Compare) {
		u.Tenants = append(u.Tenants, *stats[k])
	}
	for i := range r.sources {
		src := r.sources[i]
		if src.to > 0 {
			src.From, src.To = stamp(src.from), stamp(src.to)
		}
		u.Sources = append(u.Sources, src)
	}
	return u
}

// figures reduces the series of a key.
func (s *Stats) figures(accs *[figureEnd]*acc) {
	for f, a := range accs {
		if a == nil {
			continue
		}
		if s.Figures == nil {
			s.Figures = map[Figure]Statistics{}
		}
		st := a.statistics(Figure(f))
		s.Figures[Figure(f)] = st
		if st.From.IsZero() {
			continue
		}
		if s.From.IsZero() || st.From.Before(s.From) {
			s.From = st.From
		}
		if st.To.After(s.To) {
			s.To = st.To
		}
	}
}
