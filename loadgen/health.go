// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/stats"
)

// HealthLimits are the bounds above which the client, not the server, is assumed to have determined a run's figures. 0
// means the default, a negative value no bound.
type HealthLimits struct {
	SendLagP99   time.Duration // default 10 ms
	PacingLagP99 time.Duration // default 5 ms
	// ReadLagP99 bounds the time from the kernel's receive to the read; default 250 ms. A second bound applies if more
	// than 1% of the reads returned several events, since the client may have merged separate events, and merged events
	// are stamped late: three quarters of the mean gap between events, which merging doesn't change (a client that merges
	// evenly spaced events has lags of up to a gap), or, where all events of an answer come together, a quarter of the
	// median e2e, at least 10 ms. Below that lag the server sent the events together.
	ReadLagP99 time.Duration
	// SchedulingP99 bounds the Go scheduler's latency if more than 1% of the reads have no kernel stamp to show their lag;
	// default 10 ms.
	SchedulingP99 time.Duration
	GCPauseMax    time.Duration // default 10 ms
	// CPUFraction bounds the process's CPU time as a fraction of GOMAXPROCS times
	// the run's length, in runs of at least 1 s; default 0.95.
	CPUFraction float64
}

func (l HealthLimits) withDefaults() HealthLimits {
	l.SendLagP99 = cmp.Or(l.SendLagP99, 10*time.Millisecond)
	l.PacingLagP99 = cmp.Or(l.PacingLagP99, 5*time.Millisecond)
	l.ReadLagP99 = cmp.Or(l.ReadLagP99, 250*time.Millisecond)
	l.SchedulingP99 = cmp.Or(l.SchedulingP99, 10*time.Millisecond)
	l.GCPauseMax = cmp.Or(l.GCPauseMax, 10*time.Millisecond)
	l.CPUFraction = cmp.Or(l.CPUFraction, 0.95)
	return l
}

// ClientHealth is the verdict on the client itself. The figures of a run that is not Valid reflect the client rather
// than the server.
type ClientHealth struct {
	Valid   bool     `json:"valid"`
	Reasons []string `json:"reasons"` // why not; empty when valid

	// SendLag, PacingLag and ReadLag are defined in Definitions. ReadLag is empty without kernel stamps.
	SendLag   Figures `json:"send_lag_ms"`
	PacingLag Figures `json:"pacing_lag_ms"`
	ReadLag   Figures `json:"read_lag_ms"`

	// Stamps is the source of the receive times that latencies use: "kernel", "user" or "mixed". Pacer is the timer
	// that open loops waited on: "timerfd" or "timer", absent without an open loop.
	Stamps string `json:"stamps,omitempty"`
	Pacer  string `json:"pacer,omitempty"`

	ReadCounts
	// MergedBy is "server" if more than 1% of the reads were merged and the kernel's times show that the client read them
	// in time.
	MergedBy string `json:"merged_by,omitempty"`
	// ClientLimits counts the requests that failed because the client ran out of descriptors, ports or buffers.
	ClientLimits int64  `json:"client_limits,omitempty"`
	clientLimit  string // the error of one of them

	GCPauses         int64             `json:"gc_pauses"`
	GCPauseMaxMS     Millis            `json:"gc_pause_max_ms"`
	SchedulingP99MS  Millis            `json:"scheduling_p99_ms"`
	CPUSeconds       Optional[float64] `json:"cpu_s,omitzero"` // missing where the system doesn't report it
	CPUFraction      Optional[float64] `json:"cpu_fraction,omitzero"`
	GOMAXPROCS       int               `json:"gomaxprocs"`
	ArtifactProblems int               `json:"artifact_problems"` // failed writes to the run's directory
}

// ReadCounts counts the reads of answers.
type ReadCounts struct {
	// KernelReads and UserReads count the reads by the source of their time.
	KernelReads int64 `json:"kernel_stamped_reads"`
	UserReads   int64 `json:"user_stamped_reads"`
	Reads       int64 `json:"reads"`        // reads that brought events
	MergedReads int64 `json:"merged_reads"` // of these, with more than one event
	// ClampedStamps counts kernel stamps that contradicted the monotonic clock (a
	// step of the wall clock) and were moved to the nearest possible time.
	ClampedStamps int64 `json:"clamped_stamps"`
}

func (c *ReadCounts) add(o ReadCounts) {
	c.KernelReads += o.KernelReads
	c.UserReads += o.UserReads
	c.Reads += o.Reads
	c.MergedReads += o.MergedReads
	c.ClampedStamps += o.ClampedStamps
}

// stamps names the source of the reads' times, "" without reads.
func (c *ReadCounts) stamps() string {
	switch {
	case c.KernelReads > 0 && c.UserReads > 0:
		return "mixed"
	case c.KernelReads > 0:
		return "kernel"
	case c.UserReads > 0:
		return "user"
	}
	return ""
}

func (h *ClientHealth) evaluate(limits HealthLimits, m *Measures, wall time.Duration) {
	limits = limits.withDefaults()
	h.Reasons = []string{}
	bad := func(format string, args ...any) { h.Reasons = append(h.Reasons, fmt.Sprintf(format, args...)) }
	over := func(name string, v Millis, limit time.Duration) {
		if limit >= 0 && v > millis(limit) {
			bad("%s is %.3f ms, above %.3f ms", name, float64(v), float64(millis(limit)))
		}
	}
	over("send lag p99", h.SendLag.P99, limits.SendLagP99)
	over("pacing lag p99", h.PacingLag.P99, limits.PacingLagP99)
	over("read lag p99", h.ReadLag.P99, limits.ReadLagP99)
	if h.UserReads*100 > h.KernelReads {
		over("scheduling latency p99 (no kernel stamps)", h.SchedulingP99MS, limits.SchedulingP99)
	}
	over("longest GC pause", h.GCPauseMaxMS, limits.GCPauseMax)
	if h.ReadLag.Count > 0 && m.E2E.Count > 0 && h.MergedReads*100 > h.Reads {
		bound, name := 3*m.ChunkGap.Mean/4, "three quarters of the mean chunk gap"
		if together := m.E2E.P50 - m.TTFT.P50; together < m.E2E.P50/20 { // or its few pieces, one right after the other
			bound, name = max(m.E2E.P50/4, 10), "a quarter of the median e2e, or 10 ms"
		}
		if h.ReadLag.P99 > bound {
			bad("read lag p99 of %.3f ms exceeds %s, %.3f ms, and %.1f%% of the reads were merged",
				float64(h.ReadLag.P99), name, float64(bound), 100*float64(h.MergedReads)/float64(h.Reads))
		} else {
			h.MergedBy = "server"
		}
	}
	if used := h.CPUFraction.Or(0); limits.CPUFraction > 0 && wall >= time.Second && used > limits.CPUFraction {
		bad("CPU use is %.2f of GOMAXPROCS %d, above %.2f", used, h.GOMAXPROCS, limits.CPUFraction)
	}
	if h.ClientLimits > 0 {
		bad("%d requests failed for want of the client's own resources, not the server's (raise the limit on open files "+
			"with ulimit -n, or on ports, or offer less): %s", h.ClientLimits, h.clientLimit)
	}
	if h.ArtifactProblems > 0 {
		bad("%d writes to the run's directory failed", h.ArtifactProblems)
	}
	h.Valid = len(h.Reasons) == 0
}

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
	return processStats{cpu: processCPU(), gcPauses: samples[0].Value.Float64Histogram(),
		sched: samples[1].Value.Float64Histogram(), gcs: int64(samples[2].Value.Uint64())}
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
	d := &metrics.Float64Histogram{Buckets: now.Buckets, Counts: make([]uint64, len(now.Counts))}
	for i := range d.Counts {
		d.Counts[i] = now.Counts[i] - start.Counts[i]
	}
	return d
}

// runtimeQuantile is the upper bound of the bucket that holds the quantile.
func runtimeQuantile(h *metrics.Float64Histogram, q float64) time.Duration {
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

// isClientLimit reports whether a connection failed for want of this machine's own
// descriptors, ports or buffers, so that nothing reached the server.
func isClientLimit(err error) bool {
	return slices.ContainsFunc(clientLimitErrors, func(limit error) bool { return errors.Is(err, limit) }) ||
		strings.Contains(err.Error(), "too many open files") // the resolver keeps only the text
}
