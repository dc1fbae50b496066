package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/telemetry/ledger"
)

// costResponse is OpenCost's CustomCostResponse (protos/customcost in
// opencost/opencost) as JSON, with the costs of a window.
type costResponse struct {
	Metadata   map[string]string `json:"metadata"`
	CostSource string            `json:"cost_source"`
	Domain     string            `json:"domain"`
	Version    string            `json:"version"`
	Currency   string            `json:"currency"`
	Start      time.Time         `json:"start"`
	End        time.Time         `json:"end"`
	Costs      []customCost      `json:"costs"`
	Errors     []string          `json:"errors"`
}

type customCost struct {
	AccountName    string            `json:"account_name"`
	ChargeCategory string            `json:"charge_category"`
	Description    string            `json:"description"`
	ResourceName   string            `json:"resource_name"`
	ResourceType   string            `json:"resource_type"`
	ID             string            `json:"id"`
	ProviderID     string            `json:"provider_id"`
	BilledCost     float64           `json:"billed_cost"`
	ListCost       float64           `json:"list_cost"`
	ListUnitPrice  float64           `json:"list_unit_price"`
	UsageQuantity  float64           `json:"usage_quantity"`
	UsageUnit      string            `json:"usage_unit"`
	Labels         map[string]string `json:"labels"`
}

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

// maxWindows is more than the history's hours and days come to.
const maxWindows = 100

// costs returns the costs of a window.
func (e *exporter) costs(from, to time.Time) costResponse {
	r := costResponse{
		Metadata:   map[string]string{"api_client_version": "1", "basis": e.col.basis.String()},
		CostSource: "gpu-sharing", Domain: "cotenant", Version: "1", Start: from.UTC(), End: to.UTC(),
		Costs: []customCost{}, Errors: []string{},
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	before, err := e.history.until(from)
	after, err2 := e.history.until(to)
	if err := errors.Join(err, err2); err != nil {
		r.Errors = strings.Split(err.Error(), "\n")
		return r
	}
	prices, currency := e.pricesNow()
	r.Currency = currency
	for k, a := range after {
		if a = combine(a, before[k], minus); a.Time < 0 || a.Micros < 0 {
			r.Errors = append(r.Errors, fmt.Sprintf("%s %v %s: its record was lost in this window", k.GPU, k.Account, k.Namespace))
		} else if a != (ledger.Amount{}) {
			r.Costs = append(r.Costs, e.customCost(ledger.Total{TotalKey: k, Amount: a}, prices[k.GPU], r.Start))
		}
	}
	slices.SortFunc(r.Costs, func(a, b customCost) int { return cmp.Compare(a.ID, b.ID) })
	return r
}

func (e *exporter) customCost(t ledger.Total, price float64, from time.Time) customCost {
	name := t.Account.String()
	if t.Namespace != "" {
		name = t.Namespace + " " + name
	}
	amount := float64(t.Micros) / 1e6
	return customCost{
		AccountName: e.c.node, ChargeCategory: "Usage", Description: "GPU time: " + t.Account.String(),
		ResourceName: name, ResourceType: "GPU",
		ID:         e.c.node + "/" + t.GPU + "/" + name + "/" + from.Format(time.RFC3339),
		ProviderID: t.GPU, BilledCost: amount, ListCost: amount, ListUnitPrice: price,
		UsageQuantity: t.Time.Hours(), UsageUnit: "GPU-hours", Labels: map[string]string{"namespace": t.Namespace,
			"account": t.Account.String(), "node": e.c.node, "gpu": t.GPU},
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
