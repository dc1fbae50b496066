package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

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
