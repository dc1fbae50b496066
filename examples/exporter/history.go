package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/telemetry/account"
	"github.com/cotenant/cotenant/telemetry/ledger"
)

// For how long the totals at full hours, and those at midnight UTC, are kept: a little longer than OpenCost asks
// for by default, 49 hours and 15 days (https://opencost.io/docs/configuration, DATA_RETENTION_*).
const (
	keepHours = 50 * time.Hour
	keepDays  = 16 * 24 * time.Hour
)

// metaAt begins the name of the record of the totals at a time.
const metaAt = "totals at "

// history keeps the totals at past hours, for the costs of a window. The first of its moments is when it began.
type history struct {
	speed   float64                 // of the accounts' clock
	moments map[int64]ledger.Record // by Unix second; the values are compressed JSON
	first   int64
	last    time.Time    // of the last commit
	view    account.View // of it
}

type totals map[ledger.TotalKey]ledger.Amount

// openHistory takes its records out of those that were stored, and returns the others, and what is to be stored.
func openHistory(records []ledger.Record, speed float64, now time.Time) (h *history, others, changed []ledger.Record) {
	h = &history{speed: speed, moments: map[int64]ledger.Record{}, last: now}
	for _, r := range records {
		text, _ := strings.CutPrefix(r.Name, metaAt)
		at, err := time.Parse(time.RFC3339, text)
		if _, broken := unpack(r.Value); err != nil || broken != nil {
			others = append(others, r)
			continue
		}
		h.moments[at.Unix()] = r
	}
	if len(h.moments) == 0 {
		h.first = now.Unix()
		return h, others, []ledger.Record{h.keep(h.first, totals{})}
	}
	kept := slices.Sorted(maps.Keys(h.moments))
	h.first, h.last = kept[0], time.Unix(kept[len(kept)-1], 0)
	return h, others, nil
}

func (h *history) keep(at int64, t totals) ledger.Record {
	var list []ledger.Total
	for k, a := range t {
		list = append(list, ledger.Total{TotalKey: k, Amount: a})
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_ = json.NewEncoder(z).Encode(list) // numbers and texts, into memory
	_ = z.Close()
	r := ledger.Record{Name: metaAt + time.Unix(at, 0).UTC().Format(time.RFC3339), Value: b.Bytes()}
	h.moments[at] = r
	return r
}

func unpack(value []byte) (totals, error) {
	z, err := gzip.NewReader(bytes.NewReader(value))
	if err != nil {
		return nil, err
	}
	var list []ledger.Total
	err = json.NewDecoder(z).Decode(&list)
	return totalsOf(list), err
}

func totalsOf(list []ledger.Total) totals {
	t := make(totals, len(list))
	for i := range list {
		t[list[i].TotalKey] = list[i].Amount
	}
	return t
}

func combine(a, b ledger.Amount, f func(a, b int64) int64) ledger.Amount {
	return ledger.Amount{
		Time: time.Duration(f(int64(a.Time), int64(b.Time))), Low: time.Duration(f(int64(a.Low), int64(b.Low))),
		High: time.Duration(f(int64(a.High), int64(b.High))), Microjoules: f(a.Microjoules, b.Microjoules),
		Micros: f(a.Micros, b.Micros),
	}
}

func minus(a, b int64) int64 { return a - b }

// note takes the accounts of a commit and returns the records to be stored. What a GPU was posted is spread over
// the time that was posted, which may hold an hour's end, and after a gap many.
func (h *history) note(v account.View, now time.Time) (changed []ledger.Record) {
	before, open := totalsOf(h.view.Totals), map[int64]totals{}
	for t := h.last.Truncate(time.Hour).Add(time.Hour); !t.After(now); t = t.Add(time.Hour) {
		open[t.Unix()] = maps.Clone(before)
	}
	for i := range v.Totals {
		x := &v.Totals[i]
		added := combine(x.Amount, before[x.TotalKey], minus)
		length := float64(v.Observed[x.GPU]-h.view.Observed[x.GPU]) / h.speed
		begun := now.Add(-time.Duration(length))
		for t := now.Truncate(time.Hour); added != (ledger.Amount{}) && t.After(begun); t = t.Add(-time.Hour) {
			at, part := t.Unix(), float64(t.Sub(begun))/length
			if open[at] == nil {
				r, kept := h.moments[at]
				if !kept || at == h.first {
					continue
				}
				open[at], _ = unpack(r.Value) // it was read before
			}
			open[at][x.TotalKey] = combine(open[at][x.TotalKey], added,
				func(a, b int64) int64 { return a + int64(part*float64(b)) })
		}
	}
	for _, at := range slices.Sorted(maps.Keys(open)) {
		if h.keeps(at, now) {
			changed = append(changed, h.keep(at, open[at]))
		}
	}
	for _, at := range slices.Sorted(maps.Keys(h.moments)) {
		if !h.keeps(at, now) {
			changed = append(changed, ledger.Record{Name: h.moments[at].Name})
			delete(h.moments, at)
		}
	}
	h.view, h.last = v, now
	return changed
}

func (h *history) keeps(at int64, now time.Time) bool {
	t := time.Unix(at, 0)
	return at == h.first || now.Sub(t) <= keepHours || t.Equal(t.Truncate(24*time.Hour)) && now.Sub(t) <= keepDays
}

// until returns the totals at a time. Before the first they were the first's, and
// after the last commit they are the last's.
func (h *history) until(t time.Time) (totals, error) {
	at := max(t.Unix(), h.first)
	if r, ok := h.moments[at]; ok {
		return unpack(r.Value)
	}
	if !t.Before(h.last) {
		return totalsOf(h.view.Totals), nil
	}
	return nil, fmt.Errorf("no totals are kept of %s (ask for full hours of the last %v, or for days from midnight "+
		"UTC of the last %.0f)", t.UTC().Format(time.RFC3339), keepHours, keepDays.Hours()/24)
}
