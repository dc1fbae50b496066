package loadgen

import (
	"math"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/stats"
)

// processStats holds figures of this process by the runtime and the system: counts
// since its start, or since another reading.
type processStats struct {
	cpu      time.Duration // negative: not known
	gcPauses *metrics.Float64Histogram
	sched    *metrics.Float64Histogram
	gcs      int64
}

const (
	gcPausesMetric = "/sched/pauses/total/gc:seconds"
	schedMetric    = "/sched/latencies:seconds"
	gcCyclesMetric = "/gc/cycles/total:gc-cycles"
)

func readProcessStats() processStats {
	samples := []metrics.Sample{{Name: gcPausesMetric}, {Name: schedMetric}, {Name: gcCyclesMetric}}
	metrics.Read(samples)
	p := processStats{cpu: -1}
	if samples[0].Value.Kind() == metrics.KindFloat64Histogram {
		p.gcPauses = samples[0].Value.Float64Histogram()
	}
	if samples[1].Value.Kind() == metrics.KindFloat64Histogram {
		p.sched = samples[1].Value.Float64Histogram()
	}
	if samples[2].Value.Kind() == metrics.KindUint64 {
		p.gcs = int64(samples[2].Value.Uint64())
	}
	if cpu, ok := processCPU(); ok {
		p.cpu = cpu
	}
	return p
}

func (p processStats) since(start processStats) processStats {
	d := processStats{cpu: -1, gcPauses: histogramSince(p.gcPauses, start.gcPauses),
		sched: histogramSince(p.sched, start.sched), gcs: p.gcs - start.gcs}
	if p.cpu >= 0 && start.cpu >= 0 {
		d.cpu = p.cpu - start.cpu
	}
	return d
}

func histogramSince(now, start *metrics.Float64Histogram) *metrics.Float64Histogram {
	if now == nil || start == nil || len(now.Counts) != len(start.Counts) {
		return now
	}
	d := &metrics.Float64Histogram{Buckets: now.Buckets, Counts: make([]uint64, len(now.Counts))}
	for i := range d.Counts {
		d.Counts[i] = now.Counts[i] - start.Counts[i]
	}
	return d
}

// runtimeQuantile is the upper bound of the bucket that holds the quantile.
func runtimeQuantile(h *metrics.Float64Histogram, q float64) time.Duration {
	if h == nil {
		return 0
	}
	var total int64
	for _, n := range h.Counts {
		total += int64(n)
	}
	if total == 0 {
		return 0
	}
	rank := stats.Rank(q, total)
	for i, n := range h.Counts {
		if rank -= int64(n); rank <= 0 {
			bound := h.Buckets[i+1]
			if math.IsInf(bound, 1) {
				bound = h.Buckets[i]
			}
			return time.Duration(bound * 1e9)
		}
	}
	return 0
}

// fill puts the figures into the health block. wall is the time they cover.
func (p processStats) fill(h *ClientHealth, wall time.Duration) {
	h.GOMAXPROCS = runtime.GOMAXPROCS(0)
	h.GCPauses = p.gcs
	h.GCPauseMaxMS = millis(runtimeQuantile(p.gcPauses, 1))
	h.SchedulingP99MS = millis(runtimeQuantile(p.sched, 0.99))
	if p.cpu >= 0 && wall > 0 {
		h.CPUSeconds = optional.Of(p.cpu.Seconds())
		h.CPUFraction = optional.Of(p.cpu.Seconds() / wall.Seconds() / float64(h.GOMAXPROCS))
	}
}
