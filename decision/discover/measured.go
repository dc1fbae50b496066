// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/discover/internal/usage"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// gathering merges the series of a workload's pods.
type gathering struct {
	Used
	from, to         time.Time
	busy             float64 // weighted by samples
	busyN            int64
	busyP95          float64
	memory           [2]float64 // bytes: the median, the maximum
	memoryN          int64
	figure           usage.Figure
	own              bool // some figures are of the pod's own processes on a device that others use too
	sharers          int  // pods on the fullest of its nodes' GPUs
	known, execution time.Duration
}

// exporter is the source of usage in findings and provenance.
const exporter = "dcgm-exporter"

func (b *build) takeUsage() {
	if b.c.usage == nil {
		return
	}
	u := b.c.usage.Usage()
	b.checkSources(u)
	type gathered struct {
		*workload
		together bool // of whole GPUs that others use too
	}
	all := map[gathered]*gathering{}
	owners, gone := b.podOwners(), map[string]bool{}
	for _, s := range u.Tenants {
		b.voidZeros(s)
		if s.Blind {
			b.find("exporter-sees-no-processes", "GPU "+cmp.Or(s.GPU, s.Node), exporter)
		}
		if s.DeviceOnly {
			continue // the device's own series: its pods have theirs
		}
		w, n := b.tenantOf(s, owners, gone)
		if w == nil {
			continue
		}
		shared := n != nil && n.replicas > 1 && n.tenantsOfOne() > 1 && s.Profile == "" // the exporter may name one pod only
		key := gathered{w, (s.Shared || shared) && s.Own == 0}
		if all[key] == nil {
			all[key] = &gathering{Used: Used{Together: key.together}}
		}
		all[key].add(s, n)
	}
	if len(gone) > 0 {
		names := sortedKeys(gone)
		b.find("pods-gone", "pod "+names[0], exporter, plaintext.Count(len(names), "pod"))
	}
	for _, w := range b.workloads {
		if g := cmp.Or(all[gathered{w, false}], all[gathered{w, true}]); g != nil {
			b.measure(w, g)
		}
	}
	b.idleGPUs(u)
	b.strayDevices(u)
}

// voidZeros reports figures with meaningless zeros, and their substitutes.
func (b *build) voidZeros(s *usage.Stats) {
	object := "GPU " + cmp.Or(s.GPU, s.Node)
	if s.Pod != "" {
		object = "pod " + named(s.Namespace, s.Pod)
	}
	for _, f := range busyFigures {
		switch {
		case s.Units.Has(f):
			b.find("units-mixed-up", object, exporter, figureTexts[f])
		case !s.Void.Has(f) || s.Shared:
		case f == usage.FigureGPUUtil && (s.Profile != "" || !s.Instance.IsZero()):
			b.find("utilization-not-measured", object, exporter)
		default:
			used := "so that how busy it is is not known"
			for _, g := range slices.Backward(busyFigures) {
				if m, ok := s.Figures[g]; ok && !s.Void.Has(g) && m.Max > 0 {
					used = figureTexts[g] + " is used"
				}
			}
			b.find("counter-not-filled", object, exporter, figureTexts[f], used)
		}
	}
}

// podOwners finds pods by name, and by the common prefix of an owner's pods, so that pods that are gone are found too.
func (b *build) podOwners() map[string]*pod {
	out := map[string]*pod{}
	for _, w := range b.workloads {
		for _, p := range w.pods {
			out[p.namespace+"/"+p.name] = p
			if base, _ := cutLast(p.name, '-'); base != "" && p.owner.kind != "Pod" {
				out[p.namespace+"/"+base+"-*"] = p
			}
		}
	}
	return out
}

// tenantOf is the workload that a series belongs to and the node that it ran on, nil where there is none. Of a pod
// without an owner another of the same name is another workload.
func (b *build) tenantOf(s *usage.Stats, owners map[string]*pod, gone map[string]bool) (*workload, *node) {
	n := b.byName[s.Node]
	if s.Pod == "" { // the device that a claim gave to one
		return b.byDevice[s.GPU], n
	}
	key := s.Namespace + "/" + s.Pod
	p := owners[key]
	if uid := b.c.podUIDs[key]; p != nil && p.owner.kind == "Pod" && uid != "" && s.UID != "" && s.UID != uid {
		gone[key+" (UID "+s.UID+")"] = true
		return nil, nil
	}
	if base, _ := cutLast(s.Pod, '-'); p == nil && base != "" {
		p = owners[s.Namespace+"/"+base+"-*"]
	}
	if p == nil {
		if len(b.c.users) > 0 {
			gone[key] = true
		}
		return nil, nil
	}
	return p.of, cmp.Or(n, b.byName[p.of.first.node])
}

// busyFigures lists the figures of a GPU's busy time, best first.
var busyFigures = []usage.Figure{usage.FigureSM, usage.FigureGraphics, usage.FigureGPUUtil}

func (g *gathering) add(s *usage.Stats, n *node) {
	g.own = g.own || s.Shared && s.Own != 0
	if n != nil {
		g.sharers = max(g.sharers, n.tenantsOfOne())
	}
	counts := func(f usage.Figure) (usage.Statistics, bool) {
		m, ok := s.Figures[f]
		return m, ok && m.N > 0 && !s.Void.Has(f) && (!s.Shared || g.Together || s.Own.Has(f))
	}
	for _, t := range []time.Time{s.From, s.To} {
		if !t.IsZero() && (g.from.IsZero() || t.Before(g.from)) {
			g.from = t
		}
		if t.After(g.to) {
			g.to = t
		}
	}
	if m, ok := counts(usage.FigureMemUsed); ok {
		g.memory[0], g.memory[1] = max(g.memory[0], m.P50), max(g.memory[1], m.Max)
		g.memoryN += m.N
	}
	// Percent of an instance's SMs are that part of the GPU's.
	part := 1.0
	if s.Profile != "" || !s.Instance.IsZero() {
		part = instancePart(s, n)
	}
	divided := n != nil && n.inMIG > 0 && n.whole() == 0 // exporters of old do not name the instance
	for _, f := range busyFigures {
		v, ok := counts(f)
		if !ok || part == 0 || divided && f == usage.FigureGPUUtil && v.Max == 0 {
			continue
		}
		if g.figure != 0 && g.figure != f {
			break // one workload's figures are of one kind
		}
		g.figure = f
		g.busy += v.Mean / 100 * part * float64(v.N)
		g.busyN += v.N
		g.busyP95 = max(g.busyP95, v.P95/100*part)
		break
	}
	_, sm := s.Figures[usage.FigureSM]
	_, graphics := s.Figures[usage.FigureGraphics]
	if divided && !sm && !graphics && s.Figures[usage.FigureGPUUtil].Max == 0 {
		return
	}
	g.known += s.Times.Known
	g.execution += s.Times.ExecutionIdle
}

// instancePart is a MIG instance's part of its GPU's compute, 0 where it is not known.
func instancePart(s *usage.Stats, n *node) float64 {
	m := n.model()
	if m == nil || m.ComputeSlices == 0 {
		return 0
	}
	if p := n.profile(s.Profile); p != nil {
		return float64(p.ComputeSlices) / float64(m.ComputeSlices)
	}
	return 0
}

func (b *build) measure(w *workload, g *gathering) {
	note := func(key string, from Provenance) { b.note(w.at+"."+key, from) }
	window, basis := "", basisMeasured
	if d := g.to.Sub(g.from); d > 0 {
		window = span(d) + ", "
	}
	if g.own {
		window += "of its own processes, "
	}
	if g.Together && g.busyN > 0 {
		g.WholeBusy = sharing.Some(min(1, g.busy/float64(g.busyN)))
	}
	if g.Together && b.among(w) {
		window += fmt.Sprintf("of GPUs that %d of its replicas share, by their number, ", g.sharers)
		basis = basisDerived
		g.divide()
	}
	from := func(n int64, what string) Provenance {
		return Provenance{basis, fmt.Sprintf("%s, %s%s samples, %s", exporter, window, thousands(float64(n)), what)}
	}
	g.Workload = w.Name
	if g.memoryN > 0 && g.memory[1] >= 1 && g.memory[1] <= float64(mostMemory) {
		g.MemoryMax = sharing.Some(sharing.Bytes(g.memory[1]))
	}
	if g.busyN > 0 {
		g.BusyMean = sharing.Some(min(1, g.busy/float64(g.busyN)))
	}
	idle := float64(g.execution) / max(1, float64(g.known))
	if idle >= 0.5 && g.known >= time.Hour {
		b.find("execution-idle", "workload "+w.Name, exporter, 100*idle, span(g.known))
	}
	b.Used = append(b.Used, g.Used)
	if b.sharedSeries[w] = g.Together; g.Together {
		return
	}
	given := func(key string) bool { return b.Provenance[w.at+"."+key].Basis == basisGiven }
	if most, ok := g.MemoryMax.Get(); ok && !given("memory") && !given("model") {
		if asked, had := w.Memory.Get(); had && w.Request != nil && asked/4*3 > most {
			b.find("requested-against-used", "workload "+w.Name, exporter, asked, b.Provenance[w.at+".memory"].Source, most,
				sharing.Bytes(g.memory[0]))
		}
		w.Memory = g.MemoryMax
		note("memory", from(g.memoryN, "the most in use"))
		b.unpin(w)
	}
	if mean, ok := g.BusyMean.Get(); ok && !given("gpu_busy") {
		w.GPUBusy = sharing.Some(round3(mean))
		note("gpu_busy", from(g.busyN, figureTexts[g.figure]+", mean"))
		w.Evidence = "measured"
		if g.figure == usage.FigureGPUUtil {
			w.Evidence = "nvml-utilization"
		}
		note("evidence", Provenance{basis, figureTexts[g.figure]})
		if !given("peak_busy") {
			w.PeakBusy = sharing.Some(max(w.GPUBusy.Or(0), round3(min(1, g.busyP95))))
			note("peak_busy", from(g.busyN, figureTexts[g.figure]+", P95"))
		}
	}
}

// divide makes the figures of GPUs those of each of the sharers, which are alike.
func (g *gathering) divide() {
	n := float64(max(1, g.sharers))
	for i := range g.memory {
		g.memory[i] /= n
	}
	g.busy, g.busyP95, g.Together = g.busy/n, g.busyP95/n, false
}

// among reports whether a workload's replicas share GPUs with one another only.
func (b *build) among(w *workload) bool {
	return !slices.ContainsFunc(w.pods, func(p *pod) bool {
		return p.at != nil && slices.ContainsFunc(p.at.pods, func(q *pod) bool { return q.of != w })
	})
}

var figureTexts = map[usage.Figure]string{usage.FigureSM: "SM activity",
	usage.FigureGraphics: "time with work (graphics engine)", usage.FigureGPUUtil: "NVML utilization"}

// idleGPUs reports GPUs on which nothing ran and nothing was held for an hour or more.
func (b *build) idleGPUs(u *usage.Usage) {
	idle, longest := map[*node]int{}, map[*node]time.Duration{}
	for _, s := range u.Devices {
		if n := b.byName[s.Node]; n != nil && n.inMIG == 0 && s.Profile == "" && s.Instance.IsZero() &&
			s.Times.Known >= time.Hour && s.Times.Used == 0 {
			idle[n]++
			longest[n] = max(longest[n], s.Times.Known)
		}
	}
	for n, gpus := range idle {
		money := ""
		if p := b.poolOf[n]; p != nil {
			money = monthly(p.Pool, gpus)
		}
		n.find("idle-gpus", exporter, plaintext.Count(gpus, "idle GPU"), n.gpus, span(longest[n]), money)
	}
}

// strayDevices finds samples of GPUs that are in no node.
func (b *build) strayDevices(u *usage.Usage) {
	if len(b.nodes) == 0 {
		return
	}
	stray := map[string]bool{}
	for _, s := range u.Devices {
		switch n := b.byName[s.Node]; {
		case n == nil && s.Node != "" && b.byDevice[s.GPU] == nil:
			stray["node "+s.Node] = true
		case n != nil && len(n.uuids) > 0 && s.GPU != "" && !slices.Contains(n.uuids, s.GPU):
			stray["GPU "+s.GPU] = true
		}
	}
	if names := sortedKeys(stray); len(names) > 0 {
		b.find("gpu-in-no-node", names[0], exporter, some(names))
	}
}

func (b *build) checkSources(u *usage.Usage) {
	for _, s := range u.Sources {
		if s.Refused > 0 {
			b.find("samples-refused", "samples of "+s.Name, s.Name, s.Refused, s.Samples)
		}
	}
}
