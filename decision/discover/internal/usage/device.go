package usage

import "cmp"

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
	to := []*tenant{&d.all}
	if t.raw.Pod != "" {
		d.pods = append(d.pods, t)
	} else {
		to = append(to, &d.bare)
	}
	for _, m := range to {
		m.slots.merge(&t.slots)
		m.pages.merge(&t.pages)
	}
}

// attribute finds which pods share the device, and which of their figures are their own. An exporter that repeats
// the device's figures for each pod gives none beside that name no pod; one that reads the pods' processes does.
func (d *device) attribute(stats map[Key]*Stats, repeats bool) {
	shared := d.overlaps()
	figures := []struct {
		f    Figure
		flag uint8 // set where the figure is known
		on   uint8 // set where it says that the device works
	}{{FigureMemUsed, slotMem, slotHeld}, {FigureGPUUtil, slotGPUUtil, slotGPUBusy}}
	for _, x := range figures {
		var own []*Stats
		void := true
		for _, t := range d.pods {
			missing, all := t.slots.without(&d.bare.slots, x.flag)
			gone, pages := t.pages.without(&d.bare.pages, x.flag)
			if !repeats && all+pages > 0 && (missing+gone)*100 <= all+pages {
				s := stats[t.raw.Key]
				own, void = append(own, s), void && s.Figures[x.f].Max == 0
			}
		}
		void = void && d.bare.has(x.on) || x.f == FigureGPUUtil && !d.key.Instance.IsZero()
		for _, s := range own {
			set := &s.Own
			if void {
				set = &s.Void
			}
			if *set == nil {
				*set = map[Figure]bool{}
			}
			(*set)[x.f] = true
		}
	}
	for _, t := range d.pods {
		s := stats[t.raw.Key]
		s.Shared = shared[t]
		if s.Shared && s.Own[FigureGPUUtil] {
			s.Times = t.slots.times(slotGPUUtil, slotGPUBusy)
		}
		if bare := stats[t.raw.device()]; bare != nil {
			bare.Beside = true
		}
	}
}

func (t *tenant) has(flag uint8) bool {
	_, timed := t.slots.without(&slots{}, flag)
	_, pages := t.pages.without(&slots{}, flag)
	return timed+pages > 0
}

// overlaps finds the pods whose series are of the same time as another pod's.
func (d *device) overlaps() map[*tenant]bool {
	shared := map[*tenant]bool{}
	if len(d.pods) < 2 {
		return shared
	}
	count := func(of func(*tenant) *slots, least int) {
		n := map[*tenant]int{}
		for i := range of(&d.all).flags {
			var here []*tenant
			several := false
			for _, t := range d.pods {
				if of(t).get(of(&d.all).base+int64(i)) != 0 {
					here = append(here, t)
					several = several || !here[0].raw.samePod(t.raw.Key)
				}
			}
			for _, t := range here {
				if several {
					n[t]++
					shared[t] = shared[t] || n[t] >= least
				}
			}
		}
	}
	count(func(t *tenant) *slots { return &t.slots }, overlapSlots)
	count(func(t *tenant) *slots { return &t.pages }, 1)
	return shared
}
