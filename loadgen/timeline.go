// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"bytes"
	"encoding/csv"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/stats"
)

// TimelineRow describes one second of one tenant: a line of timeline.csv. The last second of a run may be shorter.
type TimelineRow struct {
	UnixNS   int64 // start of the second
	Tenant   string
	Offered  int64 // requests with an intended start in the second
	Sent     int64
	Done     int64 // ok
	Failed   int64
	InFlight int64 // sent but not ended at the end of the second
	Tokens   int64 // content events, each with its share of the request's tokens, failed requests included
	// TTFTP99 and ITLP99 cover the requests and gaps that ended in the second; missing (an empty CSV field) without any.
	// They are accurate to 2%.
	TTFTP99, ITLP99 Optional[time.Duration]
}

// timeline counts by second since the start of the run.
type timeline struct {
	start   int64
	seconds []second
}

type second struct {
	offered, sent, done, failed, ended, tokens int64
	ttft, itl                                  sketch
}

// maxTimelineSeconds bounds the memory against an absurd time: a week.
const maxTimelineSeconds = 7 * 24 * 3600

func (t *timeline) at(ns int64) *second {
	i := min(max((ns-t.start)/1e9, 0), maxTimelineSeconds)
	for int64(len(t.seconds)) <= i {
		t.seconds = append(t.seconds, second{})
	}
	return &t.seconds[i]
}

func (t *timeline) rows(tenant string) []TimelineRow {
	rows := make([]TimelineRow, 0, len(t.seconds))
	var inFlight int64
	for i := range t.seconds {
		s := &t.seconds[i]
		inFlight += s.sent - s.ended
		rows = append(rows, TimelineRow{
			UnixNS: t.start + int64(i)*1e9, Tenant: tenant, Offered: s.offered, Sent: s.sent, Done: s.done,
			Failed: s.failed, InFlight: inFlight, Tokens: s.tokens,
			TTFTP99: s.ttft.quantile(0.99), ITLP99: s.itl.quantile(0.99),
		})
	}
	return rows
}

// counts are the row's whole numbers, by column.
func (r *TimelineRow) counts() []*int64 {
	return []*int64{&r.UnixNS, &r.Offered, &r.Sent, &r.Done, &r.Failed, &r.InFlight, &r.Tokens}
}

// quantiles are the row's times, by column.
func (r *TimelineRow) quantiles() []*Optional[time.Duration] {
	return []*Optional[time.Duration]{&r.TTFTP99, &r.ITLP99}
}

// The columns of a timeline.csv: unix_ns, the tenant, and then the others.
var (
	timelineCounts    = []string{"unix_ns", "offered", "sent", "done", "failed", "in_flight", "tokens"}
	timelineQuantiles = []string{"ttft_p99_ms", "itl_p99_ms"}
	timelineHeader    = slices.Concat([]string{"unix_ns", "tenant"}, timelineCounts[1:], timelineQuantiles)
)

func timelineCSV(rows []TimelineRow) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b) // to a buffer, which takes everything
	_ = w.Write(timelineHeader)
	for i := range rows {
		var fields []string
		for _, n := range rows[i].counts() {
			fields = append(fields, strconv.FormatInt(*n, 10))
		}
		fields = slices.Insert(fields, 1, rows[i].Tenant)
		for _, q := range rows[i].quantiles() {
			text := ""
			if d, ok := q.Get(); ok {
				text = strconv.FormatFloat(float64(d)/1e6, 'f', 3, 64)
			}
			fields = append(fields, text)
		}
		_ = w.Write(fields)
	}
	w.Flush()
	return b.Bytes()
}

// sketch is a sparse log-linear histogram of durations with 64 steps an octave: a second's gaps fall into a few
// dozen buckets, so a map is smaller than an HDR histogram by a factor of a thousand.
type sketch map[uint16]int64

func (s *sketch) add(d time.Duration, n int64) {
	if n <= 0 {
		return
	}
	if *s == nil {
		*s = sketch{}
	}
	(*s)[sketchBucket(d)] += n
}

func sketchBucket(d time.Duration) uint16 {
	v := uint64(max(d, 0)) + 64
	e := bits.Len64(v) - 7
	return uint16(e<<6) + uint16(v>>e&63)
}

func sketchValue(b uint16) time.Duration {
	e := b >> 6
	mid := uint64(0)
	if e > 0 {
		mid = 1 << (e - 1)
	}
	return time.Duration((uint64(b&63)+64)<<e + mid - 64)
}

func (s sketch) quantile(q float64) Optional[time.Duration] {
	if len(s) == 0 {
		return Optional[time.Duration]{}
	}
	var total int64
	keys := make([]uint16, 0, len(s))
	for k, n := range s {
		keys = append(keys, k)
		total += n
	}
	slices.Sort(keys)
	rank := stats.Rank(q, total)
	for _, k := range keys {
		if rank -= s[k]; rank <= 0 {
			return optional.Of(sketchValue(k))
		}
	}
	return optional.Of(sketchValue(keys[len(keys)-1]))
}
