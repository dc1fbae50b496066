// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/sharing"
)

const noTime = math.MinInt64 // the time of a sample that has none

// Statistics are those of one figure.
type Statistics struct {
	N int64 // samples that count
	// P50 and P95 are at most 1/128 of them above the truth and never below it.
	P50, P95, Max, Mean float64
	From, To            time.Time
	Percent             int64 // samples that were refused as percent where a fraction is expected
	// Fractions reports that no value is above 1 and not all are whole numbers.
	Fractions bool
}

// Times are sums over slots of a minute in which anything is known.
type Times struct {
	Known time.Duration // with a utilization
	// ExecutionIdle is with 1 GiB of memory held, and never 5 % of utilization, or 2 % of SMs or memory bandwidth. Used
	// is with either.
	ExecutionIdle, Used time.Duration
}

// Times that no clock should show: before NVIDIA had CUDA, and far ahead.
var (
	earliest = time.Date(2007, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
)

// acc is one figure of one tenant.
type acc struct {
	sketch
	from, to int64 // the times of the first and last sample in ms, 0 where none has one
	percent  int64 // refused as percent where a fraction is expected
	parts    bool  // some value is no whole number
}

// add takes a sample of a figure; it answers false for one that is impossible, by its value or its clock, or not after
// those before it. Percentages a little above 100, as profiling counters give them, are 100.
func (a *acc) add(f Figure, ms int64, v float64) bool {
	limit := figures[f].limit
	if limit == 100 && v > 100 && v <= 101 {
		v = 100
	}
	if f != FigureGPUUtil && limit == 100 && v > 200 && v <= 100*100 {
		a.percent++
	}
	if !(v >= 0 && v <= limit) || ms != noTime && (ms < earliest || ms > latest || ms <= a.to) {
		return false
	}
	if ms != noTime {
		a.from, a.to = cmp.Or(a.from, ms), ms
	}
	a.parts = a.parts || v != math.Trunc(v)
	a.sketch.add(v)
	return true
}

// merge adds another series of the same figure, of other times.
func (a *acc) merge(o *acc) {
	a.sketch.merge(&o.sketch)
	a.parts, a.percent = a.parts || o.parts, a.percent+o.percent
	if a.to = max(a.to, o.to); a.from == 0 || o.from > 0 && o.from < a.from {
		a.from = o.from
	}
}

func (a *acc) statistics() Statistics {
	s := Statistics{N: a.n, P50: a.quantile(0.5), P95: a.quantile(0.95), Max: a.max, Mean: a.sum / max(1, float64(a.n)),
		Percent: a.percent, Fractions: a.parts && a.max <= 1}
	if a.from > 0 {
		s.From, s.To = time.UnixMilli(a.from).UTC(), time.UnixMilli(a.to).UTC()
	}
	return s
}

// sketch holds the distribution of a figure in buckets, 128 to a power of two. The zero sketch is empty.
type sketch struct {
	buckets  map[uint16]bucket // by the upper half of a float32: its exponent, and 7 digits of the rest
	n        int64
	sum, max float64
}

type bucket struct {
	n   int64
	max float64 // of its values
}

func (s *sketch) add(v float64) {
	if s.buckets == nil {
		s.buckets = map[uint16]bucket{}
	}
	k := uint16(math.Float32bits(float32(v)) >> 16)
	s.buckets[k] = bucket{s.buckets[k].n + 1, max(s.buckets[k].max, v)}
	s.n, s.sum, s.max = s.n+1, s.sum+v, max(s.max, v)
}

// merge adds another sketch of the same figure.
func (s *sketch) merge(o *sketch) {
	if s.buckets == nil {
		s.buckets = map[uint16]bucket{}
	}
	for k, b := range o.buckets {
		s.buckets[k] = bucket{s.buckets[k].n + b.n, max(s.buckets[k].max, b.max)}
	}
	s.n, s.sum, s.max = s.n+o.n, s.sum+o.sum, max(s.max, o.max)
}

// quantile is the smallest value that so many of the samples do not exceed, or at most 1/128 more.
func (s *sketch) quantile(q float64) (v float64) {
	rank := max(int64(math.Ceil(q*float64(s.n))), 1)
	for _, k := range slices.Sorted(maps.Keys(s.buckets)) {
		if v = s.buckets[k].max; rank <= s.buckets[k].n {
			break
		}
		rank -= s.buckets[k].n
	}
	return v
}

const slotTime = time.Minute // the resolution of busy and idle time

const maxHours = 400 * 24 // bound of the hours with samples

// slots are flags by minute, or by page for samples without a time, the slots of an hour together. The zero slots are
// empty.
type slots map[int64]*[60]uint8

// set adds flags to a slot by its number.
func (s *slots) set(slot int64, flags uint8) {
	if *s == nil {
		*s = slots{}
	}
	hour := (*s)[slot/60]
	if hour == nil && len(*s) < maxHours {
		hour = new([60]uint8)
		(*s)[slot/60] = hour
	}
	if hour != nil {
		hour[slot%60] |= flags
	}
}

// all visits the slots that have flags, in any order.
func (s slots) all() iter.Seq2[int64, uint8] {
	return func(yield func(int64, uint8) bool) {
		for hour, flags := range s {
			for i, f := range flags {
				if f != 0 && !yield(hour*60+int64(i), f) {
					return
				}
			}
		}
	}
}

func (s *slots) merge(o slots) {
	for slot, f := range o.all() {
		s.set(slot, f)
	}
}

func (s slots) get(slot int64) uint8 {
	if hour := s[slot/60]; hour != nil {
		return hour[slot%60]
	}
	return 0
}

// times adds the slots up, by the utilization that known and busy mean.
func (s slots) times(known, busy uint8) (t Times) {
	for _, f := range s.all() {
		if f&(slotHeld|busy) != 0 {
			t.Used += slotTime
		}
		if f&known == 0 {
			continue
		}
		t.Known += slotTime
		if f&busy == 0 && f&slotHeld != 0 {
			t.ExecutionIdle += slotTime
		}
	}
	return t
}

// without counts the slots with a flag in s and without it in o, and all slots with it in s.
func (s slots) without(o slots, flag uint8) (missing, all int) {
	for slot, f := range s.all() {
		if f&flag != 0 {
			if all++; o.get(slot)&flag == 0 {
				missing++
			}
		}
	}
	return missing, all
}

// Key identifies the owner of figures: a GPU or a MIG instance, and a pod's container on it where the source names one.
// Unknown parts are empty.
type Key struct {
	Node      string // as the source names it; of old exporters the exporter's own pod
	GPU       string // UUID of the GPU, of its parent for an instance
	Index     optional.Value[int]
	Instance  optional.Value[int] // the GPU instance's id
	Profile   string              // "1g.10gb"
	Namespace string
	Pod       string
	UID       string // the pod's, where the source has it: another pod of the name has another
	Container string
}

// Compare orders keys by node, GPU, instance and pod.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Node, o.Node), cmp.Compare(k.Index.Or(-1), o.Index.Or(-1)), cmp.Compare(k.GPU, o.GPU),
		cmp.Compare(k.Instance.Or(-1), o.Instance.Or(-1)), cmp.Compare(k.Profile, o.Profile),
		cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Pod, o.Pod), cmp.Compare(k.UID, o.UID),
		cmp.Compare(k.Container, o.Container))
}

// device is the key without the pod.
func (k Key) device() Key {
	k.Namespace, k.Pod, k.UID, k.Container = "", "", "", ""
	return k
}

// samePod reports whether two keys are of one pod, as far as their sources know it.
func (k Key) samePod(o Key) bool {
	return k.Namespace == o.Namespace && k.Pod == o.Pod && (k.UID == o.UID || k.UID == "" || o.UID == "")
}

// labels are the values of a series' labels that are read. No other is kept.
type labels map[string]string

// labelOf names a label that is read by any of its names: those of dcgm-exporter (pod_name and the like of its first
// versions; pod_uid under --kubernetes-enable-pod-uid), and of Prometheus' relabelling.
var labelOf = map[string]string{"Hostname": "hostname", "hostname": "hostname",
	"node": "node", "nodename": "node", "node_name": "node", "kubernetes_node": "node", "exported_node": "node",
	"instance": "instance", "UUID": "uuid", "uuid": "uuid", "gpu_uuid": "uuid", "gpu": "gpu", "device": "device",
	"GPU_I_PROFILE": "profile", "GPU_I_ID": "instanceID", "gpu_instance": "instanceID",
	"namespace": "namespace", "pod_namespace": "namespace", "pod": "pod", "pod_name": "pod", "pod_uid": "uid",
	"container": "container", "container_name": "container", "exported_namespace": "exportedNamespace",
	"exported_pod": "exportedPod", "exported_pod_uid": "exportedUID", "exported_container": "exportedContainer"}

// rawKey is a key before it is known whether the labels pod, namespace and container are those of the tenant or, as
// without honorLabels, of the exporter itself. That shows only in other series.
type rawKey struct {
	Key
	plain bool // they came from the labels without exported_
}

// scraper names an exporter's own pod, or its pods of all nodes by their container.
type scraper struct{ namespace, pod, container string }

// key reads the labels. It answers false where they name neither a GPU nor a pod.
func (l labels) key() (rawKey, bool) {
	k := rawKey{Key: Key{GPU: l["uuid"], Profile: l["profile"]}}
	for _, s := range []string{l["gpu"], strings.TrimPrefix(l["device"], "nvidia")} {
		if i, err := strconv.Atoi(s); err == nil && i >= 0 && k.Index.IsZero() {
			k.Index = optional.Of(i)
		}
	}
	if i, err := strconv.Atoi(l["instanceID"]); err == nil && i >= 0 {
		k.Instance = optional.Of(i)
	}
	switch {
	case l["exportedPod"] != "":
		k.Namespace, k.Pod, k.UID, k.Container = l["exportedNamespace"], l["exportedPod"], cmp.Or(l["exportedUID"], l["uid"]),
			l["exportedContainer"]
	case l["pod"] != "" && !isExporter(l["pod"]):
		k.Namespace, k.Pod, k.UID, k.Container = l["namespace"], l["pod"], l["uid"], l["container"]
		k.plain = true
	}
	host, _, err := net.SplitHostPort(l["instance"])
	if err != nil {
		host = l["instance"]
	}
	k.Node = cmp.Or(l["hostname"], l["node"], host)
	if isExporter(k.Node) {
		k.Node = cmp.Or(l["node"], k.Node)
	}
	return k, k.GPU != "" || !k.Index.IsZero() || k.Pod != ""
}

// isExporter reports whether a pod is one of the exporter's own.
func isExporter(pod string) bool { return strings.Contains(pod, "dcgm-exporter") }

// Figure names a measured quantity. The zero Figure is none.
type Figure uint8

// The figures. Percentages run from 0 to 100.
const (
	_              Figure = iota
	FigureGPUUtil         // percent of time in which any kernel ran (NVML's utilization; not capacity)
	FigureGraphics        // percent of time in which a context was active (profiling)
	FigureSM              // percent of SMs that were busy (profiling)
	FigureDRAM            // percent of memory bandwidth in use (profiling)
	FigureMemUsed         // bytes
	FigurePower           // watts
	figureEnd
)

// figures describes each figure: its largest possible value, the flag of a slot with a sample, and the flag
// of a slot with a sample of at least so much: work, or held memory.
var figures = [figureEnd]struct {
	limit, least float64
	known, on    uint8
}{
	FigureGPUUtil:  {100, busyPercent, slotGPUUtil, slotGPUBusy},
	FigureGraphics: {100, busyPercent, slotUtil, slotBusy},
	FigureSM:       {100, workPercent, slotUtil, slotBusy},
	FigureDRAM:     {100, workPercent, slotUtil, slotBusy},
	FigureMemUsed:  {maxBytes, heldBytes, slotMem, slotHeld},
	FigurePower:    {maxWatts, 0, 0, 0},
}

// Set is a set of figures.
type Set uint16

// Has reports whether a figure is in the set.
func (s Set) Has(f Figure) bool { return s&(1<<f) != 0 }

const (
	mib      = float64(sharing.MiB)
	maxBytes = 1 << 44 // 16 TiB: more than any GPU
	maxWatts = 20_000
)

// utilizations are the figures of how busy a GPU is.
var utilizations = []Figure{FigureGPUUtil, FigureGraphics, FigureSM, FigureDRAM}

// source maps a metric of a page to its figure and one of its unit to in the figure's unit.
type source struct {
	figure Figure
	scale  float64
}

// metrics are the names that are read, dcgm-exporter's: its default-counters.csv gives the units.
var metrics = map[string]source{
	"DCGM_FI_DEV_GPU_UTIL":          {FigureGPUUtil, 1},
	"DCGM_FI_PROF_GR_ENGINE_ACTIVE": {FigureGraphics, 100},
	"DCGM_FI_PROF_SM_ACTIVE":        {FigureSM, 100},
	"DCGM_FI_PROF_DRAM_ACTIVE":      {FigureDRAM, 100},
	"DCGM_FI_DEV_FB_USED":           {FigureMemUsed, mib},
	"DCGM_FI_DEV_POWER_USAGE":       {FigurePower, 1},
}

// servers matches the names of the series of model servers that profiles and latencies are made of.
const servers = `(vllm|sglang):(num_requests_(running|waiting)|num_(running|queue)_reqs|(kv|gpu)_cache_usage_perc|` +
	`token_usage|(prompt|generation)_tokens_total|(gpu_)?prefix_cache_(queries|hits)_total|request_success_total|` +
	`num_requests_total|iteration_tokens_total_(bucket|sum|count)|(time_to_first_token|inter_token_latency|` +
	`(request_)?time_per_output_token|e2e_request_latency|request_queue_time)_seconds_(bucket|sum|count)|` +
	`request_(prompt|generation)_tokens_(bucket|sum|count))`

// Query selects all series that are read, in Prometheus' language.
func Query() string {
	return `{__name__=~"` + strings.Join(slices.Sorted(maps.Keys(metrics)), "|") + "|" + servers + `"}`
}

// What a slot knows of a tenant or a device.
const (
	slotUtil    = 1 << iota // a utilization by profiling counters
	slotBusy                // of these, something ran
	slotMem                 // its memory
	slotHeld                // a program was resident
	slotGPUUtil             // NVML's utilization, which the exporter may give of a pod's own processes
	slotGPUBusy             // of that, something ran
)

// The thresholds are those of telemetry's idle detection: a device is busy from 5 percent of utilization or 2 percent
// of SMs or memory bandwidth, and a program is resident from 1 GiB.
const (
	busyPercent = 5
	workPercent = 2
	heldBytes   = 1 << 30
)
