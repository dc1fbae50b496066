package discover

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/discover/internal/usage"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// idleGPUs finds GPUs on which nothing ran and nothing was held.
func (b *build) idleGPUs(u *usage.Usage, kind string) {
	type idle struct {
		n       int
		longest time.Duration
	}
	by := map[*node]*idle{}
	for i := range u.Devices {
		s := &u.Devices[i]
		n := b.byName[s.Node]
		if n == nil || s.Profile != "" || !s.Instance.IsZero() || s.Times.Known < time.Hour || s.Times.Held > 0 ||
			s.Times.Busy > 0 {
			continue
		}
		if by[n] == nil {
			by[n] = &idle{}
		}
		by[n].n++
		by[n].longest = max(by[n].longest, s.Times.Known)
	}
	for _, n := range b.nodes {
		if by[n] == nil {
			continue
		}
		money := ""
		if p := b.poolOf[n]; p != nil {
			money = monthly(&b.Fleet.Pools[p.index], by[n].n)
		}
		b.find("idle-gpus", sharing.SeverityMedium, "node "+n.name, kind,
			"%s of %d: nothing ran and nothing was held in %s%s", plaintext.Count(by[n].n, "idle GPU"), n.gpus,
			span(by[n].longest), money)
	}
}

// strayDevices finds samples of GPUs that are in no node.
func (b *build) strayDevices(u *usage.Usage, kind string) {
	if len(b.nodes) == 0 {
		return
	}
	stray, matched := map[string]bool{}, 0
	for i := range u.Devices {
		s := &u.Devices[i]
		switch n := b.byName[s.Node]; {
		case n == nil && s.Node != "" && b.byDevice[s.GPU] == nil:
			stray["node "+s.Node] = true
		case n != nil && len(n.uuids) > 0 && s.GPU != "" && !slices.Contains(n.uuids, s.GPU):
			stray["GPU "+s.GPU] = true
		default:
			matched++
		}
	}
	names := slices.Sorted(maps.Keys(stray))
	switch {
	case len(names) == 0:
	case matched == 0:
		b.find("gpu-in-no-node", sharing.SeverityMedium, names[0], kind,
			"none of the samples is of a node among the objects (%s in all): another cluster's, or the exporter names itself "+
				"and not its node", plaintext.Count(len(names), "name"))
	default:
		for _, name := range names[:min(len(names), maxTold)] {
			b.find("gpu-in-no-node", sharing.SeverityMedium, name, kind,
				"there are samples of it, and no such GPU among the objects")
		}
	}
}

// anotherTime bounds how far apart samples and objects may be without a finding: a cluster changes in a day or two.
const anotherTime = 48 * time.Hour

// checkSources finds samples that were refused, and sources whose times have nothing in common.
func (b *build) checkSources(u *usage.Usage) {
	reasons := map[string]int{}
	example := ""
	for _, list := range [][]usage.Stats{u.Tenants, u.Devices} {
		for i := range list {
			for f, v := range list[i].Figures {
				for r, n := range v.Refused {
					reasons[fmt.Sprintf("%v: %v", f, r)] += n
					if text := fmt.Sprintf("%v of %v", f, list[i].Key); n > 0 && (example == "" || text < example) {
						example = text
					}
				}
			}
		}
		if len(reasons) > 0 {
			break
		}
	}
	for i := range u.Sources {
		if s := &u.Sources[i]; s.Refused > 0 {
			b.find("samples-refused", sharing.SeverityMedium, "samples of "+example, s.Name,
				"%d of %d samples are refused (%s); the rest is used", s.Refused, s.Samples,
				strings.Join(slices.Sorted(maps.Keys(reasons)), ", "))
		}
	}
	var latest, earliest *usage.Source
	for i := range u.Sources {
		s := &u.Sources[i]
		if s.From.IsZero() {
			continue
		}
		if latest == nil || s.From.After(latest.From) {
			latest = s
		}
		if earliest == nil || s.To.Before(earliest.To) {
			earliest = s
		}
	}
	if at := b.c.at; latest != nil && !at.IsZero() {
		end := slices.MaxFunc(u.Sources, func(x, y usage.Source) int { return x.To.Compare(y.To) }).To
		if off := at.Sub(end).Abs(); off > anotherTime {
			b.find("samples-of-another-time", sharing.SeverityMedium, latest.Name, "times of the objects",
				"the samples end on %s and the objects are of %s: they are %s apart", end.Format(time.DateOnly),
				at.Format(time.DateOnly), span(off))
		}
	}
	if latest != nil && earliest != nil && latest.From.After(earliest.To.Add(time.Hour)) {
		b.find("clocks-disagree", sharing.SeverityMedium, earliest.Name, latest.Name,
			"its samples end %s before those of %s begin: other times, or clocks that disagree",
			span(latest.From.Sub(earliest.To)), latest.Name)
	}
}
