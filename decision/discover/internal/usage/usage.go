// SPDX-License-Identifier: Apache-2.0

// Package usage reads the usage of GPUs and their tenants over time, and reduces it to statistics while it reads: pages
// of dcgm-exporter, and answers of Prometheus' query API.
//
// Memory grows with the number of tenants, not with the samples: percentiles come from buckets, 128 to a power of two,
// so that they are at most 1/128 above the true value and never below it. Means, extremes and counts are exact.
//
// An impossible sample is refused and counted: negative, above 100 percent, not a number, with an impossible time, or
// not later than the previous one. A figure without samples is missing, never zero.
package usage

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Usage holds the sources' summary.
type Usage struct {
	Tenants []*Stats // one entry for each key, in the order of the keys
	Devices []*Stats // of each GPU and MIG instance: key and times, without a pod
	Sources []Source
}

// Stats are the statistics of one key.
type Stats struct {
	Key
	Figures map[Figure]Statistics // those that there were; a device has none
	// Shared is set where other pods have series of the same device at the same time: the figures are then the device's,
	// not this pod's, except those in Own.
	Shared bool
	// Own names the figures of the pod's own processes, which dcgm-exporter gives in addition to the device's series:
	// https://github.com/NVIDIA/dcgm-exporter/pull/594.
	Own Set
	// Void names the figures that the exporter has and could not fill: all are 0 while another figure shows work, as a
	// pod's own without hostPID, or profiling counters that something else holds; or they are NVML's utilization of a
	// MIG instance or its GPU, which the driver does not measure.
	Void Set
	// Units names the figures that are in other units than their metric's, percent for fractions or fractions for
	// percent; they are void.
	Units Set
	// Blind is set where the exporter gives a pod's own figures and cannot distinguish its processes from others', as
	// without hostPID.
	Blind bool
	// DeviceOnly is set for a series of a device without a pod, where pods have series of the same device.
	DeviceOnly bool
	Times      Times
	// From and To are the first and last sample's time; zero where no sample had a time.
	From, To time.Time
}

// overlapSlots is in how many slots another pod's series must repeat a device
// before that is sharing and no change of tenants.
const overlapSlots = 3

// Usage summarizes all sources so far. It may be called between sources.
func (r *Reader) Usage() *Usage {
	u := &Usage{Sources: slices.Clone(r.sources)}
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
		m.merge(t)
	}
	devices, stats := map[Key]*device{}, map[Key]*Stats{}
	divided := map[string]bool{} // GPUs of which there are series of MIG instances
	for k := range merged {
		if k.GPU != "" && (!k.Instance.IsZero() || k.Profile != "") {
			divided[k.GPU] = true
		}
	}
	keys := slices.SortedFunc(maps.Keys(merged), Key.Compare)
	for _, k := range keys {
		s := &Stats{Key: k}
		s.reduce(merged[k], divided[k.GPU])
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
		all := Stats{Key: d.key}
		all.reduce(&d.all, divided[d.key.GPU])
		u.Devices = append(u.Devices, &Stats{Key: d.key, Times: all.Times})
		d.attribute(stats)
	}
	for _, k := range keys {
		u.Tenants = append(u.Tenants, stats[k])
	}
	return u
}

// reduce summarizes the series of a key. divided is set where its GPU has MIG instances.
func (s *Stats) reduce(t *tenant, divided bool) {
	s.Figures = map[Figure]Statistics{}
	for f, a := range t.accs {
		if a == nil {
			continue
		}
		st := a.statistics()
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
	s.Units = units(s.Figures)
	s.Void = s.Units | void(s.Figures, divided || s.Profile != "" || !s.Instance.IsZero())
	var known, busy uint8
	for _, f := range utilizations {
		if _, ok := s.Figures[f]; ok && !s.Void.Has(f) {
			known, busy = known|figures[f].known, busy|figures[f].on
		}
	}
	if t.timed {
		s.Times = t.slots.times(known, busy)
	}
}

// device is a GPU or an instance with the series of it: those of pods, and those that name none.
type device struct {
	key       Key
	pods      []*tenant
	all, bare tenant // all series together, and those without a pod
}

func (d *device) add(t *tenant) {
	k := t.raw.device()
	d.key.Node, d.key.Profile = cmp.Or(d.key.Node, k.Node), cmp.Or(d.key.Profile, k.Profile)
	if d.key.Index.IsZero() {
		d.key.Index = k.Index
	}
	d.all.merge(t) // each moment several times, where pods share the device: enough to recognize zeros
	if t.raw.Pod != "" {
		d.pods = append(d.pods, t)
	} else {
		d.bare.merge(t)
	}
}

const (
	showsWork   = 2.0   // percent: more than a rounded zero
	workedWatts = 250.0 // that no board draws without work
)

// units finds the figures in other units than their metric's: more than one sample in a hundred is percent where a
// fraction is expected, or NVML's utilization, which is whole percent, has only fractions.
func units(of map[Figure]Statistics) (out Set) {
	for f, m := range of {
		if m.Percent*100 > m.N+m.Percent || f == FigureGPUUtil && m.Fractions {
			out |= 1 << f
		}
	}
	return out
}

// void finds the figures with meaningless zeros. divided is set where the device is a MIG instance, or has some.
func void(of map[Figure]Statistics, divided bool) (out Set) {
	works := of[FigurePower].P50 >= workedWatts
	for _, f := range utilizations {
		works = works || of[f].Max >= showsWork
	}
	for _, f := range utilizations {
		if m, ok := of[f]; ok && m.N > 0 && m.Max == 0 && (works || divided && f == FigureGPUUtil) {
			out |= 1 << f
		}
	}
	return out
}

// attribute finds the pods that share the device, and the figures of their own processes. An exporter that repeats the
// device's figures for each pod has no series of the device without a pod; one that reads the pods' processes has.
func (d *device) attribute(stats map[Key]*Stats) {
	shared := d.overlaps()
	for _, f := range []Figure{FigureMemUsed, FigureGPUUtil} {
		var own []*Stats
		void := true
		for _, t := range d.pods {
			missing, all := t.slots.without(d.bare.slots, figures[f].known)
			if all > 0 && missing*100 <= all {
				s := stats[t.raw.Key]
				own, void = append(own, s), void && s.Figures[f].Max == 0
			}
		}
		work, _ := d.bare.slots.without(nil, figures[f].on)
		void = void && work > 0 || f == FigureGPUUtil && !d.key.Instance.IsZero()
		for _, s := range own {
			set := &s.Own
			if void {
				set = &s.Void
			}
			*set |= 1 << f
			s.Blind = s.Blind || void && d.key.Instance.IsZero()
		}
	}
	for _, t := range d.pods {
		s := stats[t.raw.Key]
		s.Shared = shared[t]
		if s.Shared && s.Own.Has(FigureGPUUtil) && !s.Void.Has(FigureGPUUtil) {
			s.Times = t.slots.times(slotGPUUtil, slotGPUBusy)
		}
		if bare := stats[t.raw.device()]; bare != nil {
			bare.DeviceOnly = true
		}
	}
}

// overlaps finds the pods with series of the same time as another pod's.
func (d *device) overlaps() map[*tenant]bool {
	shared := map[*tenant]bool{}
	if len(d.pods) < 2 {
		return shared
	}
	n := map[*tenant]int{}
	for slot := range d.all.slots.all() {
		var here []*tenant
		several := false
		for _, t := range d.pods {
			if t.slots.get(slot) != 0 {
				here = append(here, t)
				several = several || !here[0].raw.samePod(t.raw.Key)
			}
		}
		for _, t := range here {
			if several {
				n[t]++
				shared[t] = shared[t] || n[t] >= overlapSlots || !t.timed
			}
		}
	}
	return shared
}
