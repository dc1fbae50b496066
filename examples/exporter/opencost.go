package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/telemetry/account"
	"github.com/cotenant/cotenant/telemetry/ledger"
)

// opencost serves a list of what each GPU, namespace and account cost in the windows
// of a CustomCostRequest: from start to end (RFC 3339) in steps of resolution (1h,
// 24h or 86400s). Without them it is one window since the accounts began.
func (e *exporter) opencost(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	first, now, failed := time.Unix(e.history.first, 0), e.history.last, e.failed
	e.mu.Unlock()
	if failed != "" {
		http.Error(w, "the accounts cannot be stored: "+failed, http.StatusServiceUnavailable)
		return
	}
	var probs []error
	at := func(name string, t time.Time) time.Time {
		if text := r.FormValue(name); text != "" {
			var err error
			if t, err = time.Parse(time.RFC3339, text); err != nil {
				probs = append(probs, fmt.Errorf("%s: %q (use RFC 3339: 2026-11-23T00:00:00Z)", name, text))
			}
		}
		return t
	}
	start, end := at("start", first), at("end", now.Add(time.Second))
	step := end.Sub(start)
	if text := r.FormValue("resolution"); text != "" {
		var err error
		if step, err = time.ParseDuration(text); err != nil || step < time.Hour {
			probs = append(probs, fmt.Errorf("resolution: %q (use 1h or more)", text))
		}
	}
	if !start.Before(end) || step > 0 && end.Sub(start)/step > maxWindows {
		probs = append(probs, fmt.Errorf("start, end: %v to %v (use a start before the end, and at most %d windows)",
			start, end, maxWindows))
	}
	if err := errors.Join(probs...); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	out, before := json.NewEncoder(w), "["
	for from := start; from.Before(end) && from.Before(now); from = from.Add(step) {
		_, _ = io.WriteString(w, before)
		if out.Encode(e.costs(from, from.Add(step))) != nil {
			return // the client has gone
		}
		before = ","
	}
	_, _ = io.WriteString(w, strings.TrimPrefix(before, ",")+"]")
}

type object = map[string]any

// maxWindows is more than the history's hours and days come to.
const maxWindows = 100

// costs returns the costs of a window as OpenCost's CustomCostResponse
// (protos/customcost in opencost/opencost) in JSON.
func (e *exporter) costs(from, to time.Time) object {
	e.mu.Lock()
	defer e.mu.Unlock()
	before, err := e.history.until(from)
	after, err2 := e.history.until(to)
	problems, costs := []string{}, []object{}
	if err := errors.Join(err, err2); err != nil {
		problems, after = strings.Split(err.Error(), "\n"), nil
	}
	prices, currency := e.pricesNow()
	for _, k := range slices.SortedFunc(maps.Keys(after), ledger.TotalKey.Compare) {
		name := k.Account.String()
		if k.Namespace != "" {
			name = k.Namespace + " " + name
		}
		a := combine(after[k], before[k], minus)
		if a == (ledger.Amount{}) {
			continue
		} else if a.Time < 0 || a.Micros < 0 {
			problems = append(problems, k.GPU+" "+name+": its record was lost in this window")
		}
		amount := float64(a.Micros) / 1e6
		costs = append(costs, object{
			"account_name": e.c.node, "charge_category": "Usage", "description": "GPU time: " + k.Account.String(),
			"resource_name": name, "resource_type": "GPU", "provider_id": k.GPU,
			"id":          strings.Join([]string{e.c.node, k.GPU, name, from.UTC().Format(time.RFC3339)}, "/"),
			"billed_cost": amount, "list_cost": amount, "list_unit_price": prices[k.GPU],
			"usage_quantity": a.Time.Hours(), "usage_unit": "GPU-hours",
			"labels": object{"namespace": k.Namespace, "account": k.Account.String(), "node": e.c.node, "gpu": k.GPU},
		})
	}
	return object{
		"metadata":    object{"api_client_version": "1", "basis": e.col.basis.String()},
		"cost_source": "gpu-sharing", "domain": "cotenant", "version": "1", "currency": currency,
		"start": from.UTC(), "end": to.UTC(), "costs": costs, "errors": problems,
	}
}

// pricesNow returns the price of each GPU's hour and their currency.
func (e *exporter) pricesNow() (hour map[string]float64, currency string) {
	hour = map[string]float64{}
	for _, d := range e.a.Devices() {
		if c := d.Price.Currency(); c != "" {
			hour[d.UUID], currency = float64(d.Price.Micros())/1e6, c
		}
	}
	return hour, currency
}

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
